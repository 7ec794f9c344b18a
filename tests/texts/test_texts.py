"""The catalogue: both languages say the same things, and a person never sees a traceback for a text."""

from __future__ import annotations

import string
import subprocess
import sys

import pytest

from coder.texts import PARTS, Catalog, Language, Text, catalogue, pick_language
from coder.texts.en.core import TEXTS as MAIN_ENGLISH
from coder.texts.zh.core import TEXTS as MAIN_CHINESE


def whole(lang: Language) -> dict[str, str]:
    """All modules of the catalogue; a key is in one of them only."""
    texts: dict[str, str] = {}
    modules = {id(texts): texts for texts in (catalogue(lang, f"{part}.") for part in ("", *PARTS))}
    for found in modules.values():
        assert not texts.keys() & found.keys()
        texts |= found
    return texts


ENGLISH, CHINESE = whole("en"), whole("zh")


def placeholders(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


def singular(key: str) -> bool:
    return key.endswith(".one")


def test_both_catalogues_have_the_same_keys() -> None:
    assert {key for key in CHINESE if not singular(key)} == {key for key in ENGLISH if not singular(key)}


def test_both_catalogues_have_the_same_placeholders() -> None:
    differing = [key for key in CHINESE if placeholders(CHINESE[key]) != placeholders(ENGLISH[key])]
    assert differing == ["tool.failed"]  # what was written for the model, which only English readers are told


@pytest.mark.parametrize("part", PARTS)
def test_a_module_has_only_keys_of_its_parts(part: str) -> None:
    parts = {name for name, module in PARTS.items() if module == PARTS[part]}
    assert {key.partition(".")[0] for key in catalogue("en", f"{part}.")} <= parts


def test_a_text_of_a_part_is_found_among_the_others_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MAIN_CHINESE, "policy.made_up", "写在别处")
    assert Catalog("zh").say("policy.made_up") == "写在别处"


def test_singulars_belong_to_a_text_that_counts() -> None:
    for key in filter(singular, ENGLISH):
        plural = ENGLISH[key.removesuffix(".one")]
        assert "n" in placeholders(plural)
        assert placeholders(ENGLISH[key]) <= placeholders(plural)


def test_chinese_texts_are_chinese() -> None:
    """No sentence was copied over untranslated."""
    same = [key for key in CHINESE if CHINESE[key] == ENGLISH[key] and ENGLISH[key].endswith(".")]
    assert same == []


@pytest.mark.parametrize(("lang", "said"), [("en", "true or false"), ("zh", "true 或 false")])
def test_says_in_the_language(lang: Language, said: str) -> None:
    assert Catalog(lang).say("config.expect_bool") == said


def test_values_are_put_in_and_never_read_as_templates() -> None:
    said = Catalog("en").say("config.file_unreadable", file="{why}", why="{file}")
    assert said == "{why} cannot be read: {file}."


def test_missing_in_chinese_is_said_in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(catalogue("zh", "config."), "config.expect_bool")
    assert Catalog("zh", strict=True).say("config.expect_bool") == "true or false"


def test_missing_everywhere_is_a_fault_in_tests_and_the_key_for_a_person() -> None:
    with pytest.raises(KeyError):
        Catalog("en", strict=True).say("no.such.key")
    assert Catalog("en", strict=False).say("no.such.key") == "no.such.key"


def test_missing_value_is_a_fault_in_tests_and_the_template_for_a_person() -> None:
    with pytest.raises(KeyError):
        Catalog("en", strict=True).say("config.file_missing")
    assert Catalog("en", strict=False).say("config.file_missing") == "{file} does not exist."


def test_strictness_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODER_STRICT_TEXTS", "1")
    with pytest.raises(KeyError):
        Catalog("zh").say("no.such.key")
    monkeypatch.delenv("CODER_STRICT_TEXTS")
    assert Catalog("zh").say("no.such.key") == "no.such.key"


def test_singular_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MAIN_ENGLISH, "test.files", "{n} files")
    monkeypatch.setitem(MAIN_ENGLISH, "test.files.one", "{n} file")
    texts = Catalog("en")
    assert [texts.say("test.files", n=n) for n in (0, 1, 2)] == ["0 files", "1 file", "2 files"]


def test_chinese_needs_no_singular(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MAIN_ENGLISH, "test.files", "{n} files")
    monkeypatch.setitem(MAIN_ENGLISH, "test.files.one", "{n} file")
    monkeypatch.setitem(MAIN_CHINESE, "test.files", "{n} 个文件")
    assert Catalog("zh").say("test.files", n=1) == "1 个文件"


def test_phrases_are_compared_by_what_they_say() -> None:
    assert Text("policy.why.writes", path="a") == Text("policy.why.writes", path="a")
    assert Text("policy.why.writes", path="a") != Text("policy.why.writes", path="b")
    assert len({Text("policy.why.writes", path="a"), Text("policy.why.writes", path="a")}) == 1


def test_phrases_within_phrases_are_said_in_the_same_language() -> None:
    phrase = Text("config.bad_value", where="x", found="1", allowed=Text("config.expect_bool"))
    assert phrase.text(Catalog("zh")) == "x 的值是 1；可用：true 或 false。"
    assert str(phrase) == "x is 1; allowed: true or false."


@pytest.mark.parametrize(
    ("flag", "config", "environ", "lang"),
    [
        ("", "", {}, "en"),
        ("zh", "en", {"LANG": "en_US.UTF-8"}, "zh"),
        ("en", "zh", {"LANG": "zh_CN.UTF-8"}, "en"),
        ("", "zh", {"LANG": "en_US.UTF-8"}, "zh"),
        ("", "", {"LANG": "zh_CN.UTF-8"}, "zh"),
        ("", "", {"LANG": "zh_TW"}, "zh"),
        ("", "", {"LANG": "zh"}, "zh"),
        ("", "", {"LANG": "zh.UTF-8"}, "zh"),
        ("", "", {"LANG": "zha_CN.UTF-8"}, "en"),
        ("", "", {"LC_ALL": "C", "LANG": "zh_CN.UTF-8"}, "en"),
        ("", "", {"LC_ALL": "POSIX", "LANGUAGE": "zh"}, "en"),
        ("", "", {"LC_ALL": "", "LC_MESSAGES": "zh_CN", "LANG": "de_DE"}, "zh"),
        ("", "", {"LANGUAGE": "zh_CN:en"}, "zh"),
        ("", "", {"LANGUAGE": "en:zh_CN"}, "en"),
    ],
)
def test_picks_the_language(flag: str, config: str, environ: dict[str, str], lang: str) -> None:
    assert pick_language(flag, config, environ) == lang


@pytest.mark.parametrize(("lang", "other"), [("en", "zh"), ("zh", "en")])
def test_only_the_language_in_use_is_imported(lang: str, other: str) -> None:
    """And of it only the part that is asked for."""
    code = (
        "import sys; from coder.texts import Catalog;"
        f"Catalog({lang!r}).say('config.expect_bool');"
        "found = {name for name in sys.modules if name.startswith('coder.texts.')};"
        f"sys.exit(found != {{'coder.texts.{lang}', 'coder.texts.{lang}.cli'}})"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
