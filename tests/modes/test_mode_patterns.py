"""A variable's `pattern`: what it lets through, and that none can hold up a session."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from modeshop import Shop, switch, target

from coder.extend import patterns
from coder.extend.patterns import is_quick, matches

RUNAWAYS = [
    (r"^(a+)+$", "a" * 60 + "!"),
    (r"^(a|aa)*$", "a" * 60 + "!"),
    (r"(?x) ^ ( a + ) # so that nobody sees it" "\n" r" + $", "a" * 60 + "!"),
    (r"^" + r"(?:a|a)" * 60 + r"$", "a" * 60 + "!"),
    (r"^" + r"[ab]?" * 40 + "[ab]" * 40 + "$", "a" * 40 + "!"),
    (r"^\d*\d*\d*\d*\d*\d*x", "1" * 2_000),
]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "_runaways", [])
    patterns._found_in_child.cache_clear()


@pytest.mark.parametrize(("pattern", "value"), RUNAWAYS)
def test_a_pattern_that_would_never_end_is_given_up(pattern: str, value: str) -> None:
    assert not is_quick(pattern, len(value))
    assert matches(pattern, value) is None


@pytest.mark.parametrize("pattern", [r"^[a-z]+(\.[a-z]+)*$", r"^[A-Z]+-\d+$", r"\(?x\)?", r"^(?!main$)\w+$"])
@pytest.mark.parametrize("value", ["", "a.b.c", "ABC-12", "main", "x" * 3_000, "é\udc80"])
def test_any_other_means_what_re_says(pattern: str, value: str) -> None:
    assert matches(pattern, value) is (re.search(pattern, value) is not None)


def test_a_sign_after_an_escaped_bracket_counts() -> None:
    assert not is_quick(r"\(?" * 40, 40)


def test_ordinary_ones_need_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "_found_in_child", None)
    assert matches(r"^[A-Z]+-\d+$", "ABC-12" * 10) is False
    assert matches(r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$", "0" * 36) is False


def test_after_many_of_them_no_more_time_is_spent() -> None:
    patterns._runaways.extend(["x"] * patterns.MOST_RUNAWAYS)
    assert matches("^(b+)+$", "b") is None


def test_the_mode_says_so_and_the_last_good_state_stays(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.persistent("m", "{{x}}", "variables:\n  - name: x\n    pattern: '^(a+)+$'\n")
    keeper = shop.keeper()
    assert switch(keeper, target("m", x="aa")).errors == []
    told = switch(keeper, target("m", x="a" * 60 + "!"))
    assert [(error.code, error.variable) for error in told.errors] == [("invalid", "x")]
    assert "takes too long" in str(told.errors[0].message)
    assert told.enabled_modes[0].variables[0].value == "aa"


def test_reading_the_files_waits_for_no_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(tmp_path)
    value = "a" * 60 + "!"
    shop.persistent(
        "m", "{{x}}", f"variables:\n  - name: x\n    pattern: '^(a+)+$'\n    default: '{value}'\n"
    )
    with monkeypatch.context() as patch:
        patch.setattr(patterns, "_found_in_child", None)
        assert shop.one().error is None
    assert [error.code for error in switch(shop.keeper(), "m").errors] == ["invalid"]


@pytest.mark.filterwarnings("error")
def test_a_doubtful_bracket_warns_nobody(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.persistent("m", "{{x}}", "variables:\n  - name: x\n    pattern: '[[a]+'\n")
    assert shop.one().error is None
