"""Layers, and the one sentence that a wrong value gets."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coder.config import ConfigError
from coder.config.errors import all_keys
from coder.config.load import home_directory
from coder.config.schema import Config, NetworkRules
from coder.texts import Catalog
from config.place import Place

SPEC_TABLE = {
    "provider": "base_url api_key model wire dialect effort max_output_tokens timeout_ms headers models",
    "routing": "fast strong",
    "runtime": "max_steps context_window max_session_turns max_continuations next_speaker loop_guard",
    "compaction": "auto threshold keep",
    "workflow": (
        "require_todo_for_complex auto_verify_after_edit max_verify_attempts verify_commands verify_allow"
    ),
    "approval": "interactive auto_approve_ask",
    "permission": "preset tools command_allowlist",
    "safety": "command_timeout_ms output_limit_bytes redact_secrets",
    "sandbox": "mode backend network writable",
    "budget": "max_usd warn_at prices",
    "skills": "paths",
    "mcp": "servers",
    "hooks": "SessionStart UserPromptSubmit PreToolUse PostToolUse Stop PreCompact Notification",
    "ide": "enabled",
    "ui": "vim theme plain lang title bell bell_seconds notify thinking output_lines statusline keys",
}
DEFAULTS = {
    "ui.title": True,
    "ui.bell": True,
    "ui.bell_seconds": 20,
    "ui.notify": False,
    "provider.wire": "auto",
    "provider.dialect": "auto",
    "provider.timeout_ms": 120000,
    "runtime.max_steps": 100,
    "runtime.max_session_turns": -1,
    "runtime.max_continuations": 100,
    "runtime.next_speaker": "auto",
    "runtime.loop_guard": True,
    "compaction.auto": True,
    "compaction.threshold": 0.7,
    "compaction.keep": 0.3,
    "workflow.require_todo_for_complex": True,
    "workflow.auto_verify_after_edit": True,
    "workflow.max_verify_attempts": 2,
    "workflow.verify_commands": [],
    "workflow.verify_allow": [],
    "approval.interactive": True,
    "approval.auto_approve_ask": False,
    "permission.preset": "balanced",
    "permission.command_allowlist": [],
    "safety.command_timeout_ms": 120000,
    "safety.output_limit_bytes": 1048576,
    "safety.redact_secrets": True,
    "sandbox.mode": "auto",
    "sandbox.backend": "auto",
    "sandbox.network": True,
    "sandbox.writable": [],
    "budget.max_usd": None,
    "budget.warn_at": 0.8,
    "ui.vim": False,
    "ui.plain": False,
}


def test_every_key_of_the_table_exists_and_no_other() -> None:
    expected = set(SPEC_TABLE) | {
        f"{section}.{key}" for section, keys in SPEC_TABLE.items() for key in keys.split()
    }
    assert set(all_keys()) == expected


def test_defaults() -> None:
    plain = msgspec.to_builtins(Config())
    assert {key: plain[key.split(".")[0]][key.split(".")[1]] for key in DEFAULTS} == DEFAULTS


def test_nothing_configured_is_the_defaults(place: Place) -> None:
    loaded = place.load()
    assert loaded.config == Config()
    assert (loaded.ignored, loaded.sources, loaded.relevant) == ([], [], {})


def test_layers_in_order(place: Place, tmp_path: Path) -> None:
    """Each layer sets its own key and all those of the layers above it, so each wins exactly once."""
    place.person(
        {"provider": {"model": "home", "base_url": "http://home"}, "ui": {"vim": True, "plain": True}}
    )
    place.project({"provider": {"model": "project"}, "ui": {"plain": False}, "routing": {"fast": "project"}})
    named = tmp_path / "named.json"
    named.write_text('{"provider": {"model": "named"}, "routing": {"fast": "named"}}', encoding="utf-8")
    assert place.load().config.provider.model == "project"
    assert place.load(config_file=named).config.provider.model == "named"
    environ = {"CODER_MODEL": "env", "CODER_BASE_URL": "http://env/v1", "CODER_API_KEY": " k\n"}
    loaded = place.load(environ, config_file=named)
    assert loaded.config.provider.model == "env"
    assert loaded.config.provider.base_url == "http://env/v1"
    assert loaded.config.provider.api_key == "k"
    assert place.load(environ, {"provider.model": "flag"}, named).config.provider.model == "flag"
    assert (loaded.config.ui.vim, loaded.config.ui.plain) == (True, False)
    assert loaded.config.routing.fast == "named"
    assert [source.origin for source in loaded.sources] == ["home", "project", "file", "environment"]


def test_where_a_value_came_from(place: Place) -> None:
    place.person({"ui": {"vim": True}})
    place.project({"permission": {"preset": "yolo"}, "ui": {"plain": True}})
    loaded = place.load({"CODER_MODEL": "m"}, {"runtime.max_steps": 7})
    assert loaded.origin_of("ui.vim") == str(place.home_file)
    assert loaded.origin_of("ui.plain") == ".coder/config.json"
    assert loaded.origin_of("provider.model") == "environment"
    assert loaded.origin_of("runtime.max_steps") == "command line"
    assert loaded.origin_of("ui.lang") == ""
    assert loaded.origin_of("permission.preset") == ""  # it was ignored


def test_objects_merge_and_lists_replace(place: Place) -> None:
    place.person({"permission": {"tools": {"bash": "ask", "fetch": "deny"}}, "skills": {"paths": ["a", "b"]}})
    place.project({"permission": {"tools": {"bash": "deny"}}, "skills": {"paths": ["c"]}})
    config = place.load().config
    assert config.permission.tools == {"bash": "deny", "fetch": "deny"}
    assert config.skills.paths == ["c"]


def test_unset_flags_and_empty_variables_set_nothing(place: Place) -> None:
    place.person({"provider": {"model": "mine"}})
    loaded = place.load({"CODER_MODEL": "", "CODER_API_KEY": "  "}, {"provider.model": None})
    assert loaded.config.provider.model == "mine"
    assert [source.origin for source in loaded.sources] == ["home"]


def test_in_the_home_directory_the_file_is_the_persons_own(place: Place) -> None:
    place.person({"permission": {"preset": "yolo"}})
    place.cwd = place.home.parent
    loaded = place.load()
    assert loaded.config.permission.preset == "yolo"
    assert loaded.ignored == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '{"permission": {"preset": "yoloo"}}',
            'permission.preset is "yoloo"; allowed: strict, balanced, auto-edit, yolo.',
        ),
        (
            '{"permission": {"tools": {"bash": "no"}}}',
            'permission.tools.bash is "no"; allowed: allow, ask, deny.',
        ),
        ('{"runtime": {"max_steps": 0}}', "runtime.max_steps is 0; allowed: a whole number, 1 or more."),
        ('{"runtime": {"max_steps": 1.5}}', "runtime.max_steps is 1.5; allowed: a whole number, 1 or more."),
        (
            '{"runtime": {"max_steps": true}}',
            "runtime.max_steps is true; allowed: a whole number, 1 or more.",
        ),
        (
            '{"runtime": {"context_window": "big"}}',
            'runtime.context_window is "big"; allowed: a whole number, 1 or more.',
        ),
        (
            '{"safety": {"command_timeout_ms": 9999999999999999999}}',
            "safety.command_timeout_ms is 9999999999999999999; allowed: a whole number from 1 to 2147483647.",
        ),
        ('{"compaction": {"threshold": 1.2}}', "compaction.threshold is 1.2; allowed: a number from 0 to 1."),
        ('{"compaction": {"keep": 1}}', "compaction.keep is 1; allowed: a number from 0 to below 1."),
        ('{"budget": {"max_usd": -1}}', "budget.max_usd is -1; allowed: a number, 0 or more."),
        (
            '{"budget": {"prices": {"m": {"input": "1"}}}}',
            'budget.prices.m.input is "1"; allowed: a number, 0 or more.',
        ),
        ('{"ui": {"theme": null}}', "ui.theme is null; allowed: auto, dark, light, none."),
        ('{"ui": {"lang": "xx"}}', 'ui.lang is "xx"; allowed: "", en, zh.'),
        ('{"ui": {"vim": "yes"}}', 'ui.vim is "yes"; allowed: true or false.'),
        ('{"ui": []}', "ui is […]; allowed: an object {…}."),
        ('{"skills": {"paths": "x"}}', 'skills.paths is "x"; allowed: a list of texts in quotes.'),
        ('{"skills": {"paths": ["x", 3]}}', "skills.paths[1] is 3; allowed: a text in quotes."),
        ('{"mcp": {"servers": {"s": "npx"}}}', "mcp.servers.s is …; allowed: an object {…}."),
        ('{"provider": {"api_key": 12345}}', "provider.api_key is …; allowed: a text in quotes."),
    ],
)
def test_a_wrong_value_names_file_key_value_and_choices(place: Place, text: str, said: str) -> None:
    place.project(text)
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert str(caught.value) == f".coder/config.json:1: {said}"


def test_the_whole_file_must_be_an_object(place: Place) -> None:
    place.project("[1]")
    with pytest.raises(ConfigError, match=re.escape(".coder/config.json is […]; allowed: an object {…}.")):
        place.load()


@pytest.mark.parametrize(
    ("text", "key", "nearest"),
    [
        ('{"permision": {}}', "permision", "permission"),
        ('{"permission": {"presett": "yolo"}}', "permission.presett", "permission.preset"),
        ('{"model": "x"}', "model", "provider.model"),
        ('{"runtime": {"timeout_ms": 5}}', "runtime.timeout_ms", "provider.timeout_ms"),
    ],
)
def test_an_unknown_key_names_the_nearest(place: Place, text: str, key: str, nearest: str) -> None:
    place.project(text)
    with pytest.raises(ConfigError) as caught:
        place.load()
    said = str(caught.value)
    assert said.startswith(f".coder/config.json:1: unknown key {key} (nearest: ")
    assert nearest in said.partition("; allowed here: ")[0]


def test_an_unknown_key_like_no_other_names_what_is_allowed(place: Place) -> None:
    place.person({"ui": {"zzzzzz": 1}})
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert (
        str(caught.value) == f"{place.home_file}:1: unknown key ui.zzzzzz; allowed here: "
        "vim, theme, plain, lang, title, bell, bell_seconds, notify, thinking, output_lines, "
        "statusline, keys."
    )


def test_all_errors_are_told_with_their_lines(place: Place) -> None:
    place.project(
        """// "presett": a comment
{
  "permission": {
    /* two
       lines */ "presett": "yolo",
    "tools": {"bash": "no"},
  },
  "skills": {"paths": [
    "x",
    3
  ]},
  "provider": {"wire": "openai",
    "base_url": "ftp://host"}
}
"""
    )
    place.person('{\n"ui": {"thme": "dark"}}')
    with pytest.raises(ConfigError) as caught:
        place.load({"CODER_BASE_URL": "zzz"})
    told = [line.partition(" is ")[0].partition(" (nearest")[0] for line in str(caught.value).split("\n")]
    assert told == [
        f"{place.home_file}:2: unknown key ui.thme",
        ".coder/config.json:5: unknown key permission.presett",
        ".coder/config.json:6: permission.tools.bash",
        ".coder/config.json:8: skills.paths[1]",
        ".coder/config.json:12: provider.wire",
        ".coder/config.json:13: provider.base_url",
        "CODER_BASE_URL",
    ]
    place.project({"ui": {f"key{n}": 1 for n in range(15)}})
    with pytest.raises(ConfigError) as caught:
        place.load()
    *told, more = str(caught.value).split("\n")
    assert (len(told), more) == (10, "… and 6 more errors; `coder doctor` lists all.")


def test_the_sentence_is_there_in_chinese(place: Place) -> None:
    place.project({"runtime": {"max_steps": 0}})
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert (
        caught.value.text(Catalog("zh"))
        == ".coder/config.json:1: runtime.max_steps 的值是 0；可用：不小于 1 的整数。"
    )


def test_text_of_a_file_cannot_control_the_terminal(place: Place) -> None:
    place.project('{"\\u001b[31m\\u202e": 1}')
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert str(caught.value).isprintable()
    place.project('{"ui": {"theme": "\\u009b2J"}}')
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert str(caught.value).isprintable()


def test_flags_are_checked_too(place: Place) -> None:
    with pytest.raises(ConfigError, match=r"^command line: permission.preset is \"x\"; allowed: strict"):
        place.load(flags={"permission.preset": "x"})


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("localhost:11434", "must begin with http"),
        ("ftp://host/v1", "must begin with http"),
        ("http:///v1", "no host"),
        ("http://[::1/v1", "no host"),
        ("http://ho st/v1", "spaces"),
        ("http://host\n/v1", "spaces"),
        ("http://host:70000/v1", "port"),
        ("http://host:0/v1", "port"),
        ("http://host:x/v1", "port"),
    ],
)
def test_a_bad_address_is_refused_where_it_stands(place: Place, address: str, why: str) -> None:
    place.person({"provider": {"base_url": address}})
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert str(caught.value).startswith(f"{place.home_file}:1: provider.base_url is ")
    assert why in str(caught.value)
    place.home_file.unlink()
    with pytest.raises(ConfigError, match=r"^CODER_BASE_URL is "):
        place.load({"CODER_BASE_URL": address})


def test_a_password_in_a_bad_address_is_not_shown(place: Place) -> None:
    with pytest.raises(ConfigError) as caught:
        place.load({"CODER_BASE_URL": "htp://me:hunter2@host"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("headers", [{"X-A": "a\r\nB: c"}, {"X A": "b"}, {"": "b"}, {"X": "é"}])
def test_headers_that_cannot_travel_are_refused(place: Place, headers: dict[str, str]) -> None:
    place.person({"provider": {"headers": headers}})
    with pytest.raises(ConfigError, match=r"provider\.headers\..* holds a character"):
        place.load()


def test_files_that_cannot_be_read(place: Place, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.json does not exist\."):
        place.load(config_file=tmp_path / "missing.json")
    place.project_file.mkdir()
    with pytest.raises(ConfigError, match=r"^\.coder/config\.json is a folder"):
        place.load()
    place.project_file.rmdir()
    os.mkfifo(place.project_file)
    with pytest.raises(ConfigError, match=r"^\.coder/config\.json is not an ordinary file"):
        place.load()
    place.project_file.unlink()
    place.project_file.symlink_to("config.json")
    with pytest.raises(ConfigError, match=r"^\.coder/config\.json cannot be read: "):
        place.load()
    place.project_file.unlink()
    place.project_file.write_bytes(b" " * 1_048_577)
    with pytest.raises(ConfigError, match="larger than 1048576 bytes"):
        place.load()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(place: Place) -> None:
    place.project("{}")
    place.project_file.chmod(0)
    with pytest.raises(ConfigError, match=r"^\.coder/config\.json cannot be read: Permission denied\.$"):
        place.load()


def test_a_file_in_the_place_of_the_directory(place: Place) -> None:
    (place.cwd / ".coder").rmdir()
    (place.cwd / ".coder").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"^\.coder/config\.json cannot be read: Not a directory\.$"):
        place.load()


def test_home_directory() -> None:
    assert home_directory({"CODER_HOME": "/x/y", "HOME": "/home/me"}) == Path("/x/y")
    assert home_directory({"HOME": "/home/me"}) == Path("/home/me/.coder")
    assert home_directory({"CODER_HOME": "rel"}).is_absolute()


def test_secrets_are_not_in_representations(place: Place) -> None:
    place.person({"provider": {"api_key": "sk-secret", "headers": {"X": "sk-secret"}}})
    assert "sk-secret" not in repr(place.load())


ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)
SECTIONED = st.dictionaries(
    st.sampled_from(list(SPEC_TABLE)),
    st.dictionaries(st.sampled_from(" ".join(SPEC_TABLE.values()).split()), ANY_JSON, max_size=3),
    max_size=3,
)


def _fitting() -> st.SearchStrategy[dict[str, Any]]:
    """Right keys in the right sections, with values of any kind."""
    keys = [key.split(".") for key in all_keys() if "." in key]
    return st.lists(st.tuples(st.sampled_from(keys), ANY_JSON), max_size=4).map(
        lambda pairs: {section: {name: value} for (section, name), value in pairs}
    )


@pytest.mark.thorough
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(ANY_JSON | SECTIONED | _fitting(), ANY_JSON | SECTIONED | _fitting(), st.booleans())
def test_any_json_is_a_config_or_a_config_error(
    place: Place, person: Any, project: Any, trusted: bool
) -> None:
    place.home_file.write_bytes(msgspec.json.encode(_encodable(person)))
    place.project_file.write_bytes(msgspec.json.encode(_encodable(project)))
    refused = ""
    try:
        config = place.load(trusted=trusted).config
    except ConfigError as error:
        refused, config = str(error), Config()
    assert not refused or refused.startswith((".coder/config.json", str(place.home_file)))
    assert "is not a valid configuration" not in refused  # the walker found what msgspec refused
    assert msgspec.convert(msgspec.to_builtins(config), Config) == config


def _encodable(value: Any) -> Any:
    """Integers that the encoder has no room for, as raw JSON."""
    if isinstance(value, dict):
        return {key: _encodable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_encodable(inner) for inner in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return msgspec.Raw(str(value).encode())
    return value


@pytest.mark.parametrize(
    ("network", "told"),
    [
        ("yes", "sandbox.network"),
        ({"allow": "a.com"}, "sandbox.network.allow"),
        ({"allow": ["a.com", "http://b.com/"]}, "sandbox.network.allow[1]"),
        ({"allow": ["a.*.com"]}, "a host such as api.example.com"),
        ({"allow": ["localhost"]}, "localhost:5432"),
        ({"allow": ["127.0.0.1"]}, "localhost:5432"),
        ({"otherwise": "allow"}, "ask, deny"),
        ({"alow": []}, "sandbox.network.alow"),
    ],
)
def test_a_wrong_list_of_hosts_is_an_error_that_names_the_place(
    place: Place, network: Any, told: str
) -> None:
    place.project({"sandbox": {"network": network}})
    with pytest.raises(ConfigError) as error:
        place.load()
    assert told in Catalog("en").of(error.value.phrase)


def test_a_list_of_hosts_is_read(place: Place) -> None:
    hosts = ["a.com", "*.b.org:443", "localhost:5432", "10.0.0.7", "[2001:db8::1]:80"]
    place.person({"sandbox": {"network": {"allow": hosts}}})
    assert place.load().config.sandbox.network == NetworkRules(hosts)
