"""Text made to be slow: four times as much takes about four times as long, not sixteen times."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from coder.base.ignore import IgnoreRules
from coder.engine.verify.choice import asked_for, refused
from coder.models.guided.state import task_of
from coder.models.salvage.find_calls import find_calls
from coder.policy.secrets.formats import find_secrets
from coder.policy.shell import tree
from coder.policy.shell.judge import judge
from coder.tools.patching.formats import parse_envelope

SIZE = 6000


def cost(work: Callable[[str], object], text: str) -> float:
    """Processor time."""
    begun = time.process_time()
    work(text)
    return time.process_time() - begun


def patch(text: str) -> object:
    return parse_envelope(["*** Begin Patch", "*** Add File: a", *text.split("\n")])


def salvaged(text: str) -> object:
    return find_calls(text + "{", [], lambda _name, _arguments: False)


@pytest.mark.parametrize(
    ("work", "unit", "size"),
    [
        *((task_of, unit, 2 * SIZE) for unit in (" ", "<note>")),
        *((salvaged, unit, SIZE // 4) for unit in (" ", "\n", "<|im_end|>")),
        *((refused, unit, SIZE) for unit in ("don't ", "verify with ", "不要", "skip the ")),
        *((asked_for, unit, SIZE) for unit in ("don't ", "verify with ", "不要再", "a.", "跑测试的", "1. ")),
        *((find_secrets, unit, 10 * SIZE) for unit in ("ghp_", "sk-", "eyJ", "api_key=")),
        (patch, "+a\n", 10 * SIZE),
    ],
)
def test_time_grows_with_the_text_alone(work: Callable[[str], object], unit: str, size: int) -> None:
    short, long = ((unit * (n // len(unit) + 1))[:n] for n in (size, 4 * size))
    work(short)  # patterns are compiled
    # On a busy machine one measurement says little: of what is quadratic, none of twenty is below.
    assert any(cost(work, long) < 8 * max(cost(work, short), 0.001) for _ in range(20))


def test_an_ignore_pattern_of_many_stars_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text(
        "*a*a*a*a*a*a*b\n**/a/**/a/**/a/**/a/**/b\n*.l*g\n", encoding="utf-8"
    )
    rules = IgnoreRules.at(tmp_path, tmp_path)
    assert not rules.hide(f"{tmp_path}/{'a' * 250}", is_directory=False)
    assert not rules.hide(f"{tmp_path}/{'a/' * 1500}c", is_directory=False)
    assert rules.hide(f"{tmp_path}/x.log", is_directory=False)


@pytest.mark.parametrize(
    "line",
    [
        "ls | " * 8000 + "ls",
        "ls " + "${" * 30000,
        "a=(" * 20000,
        "a=(" * 9000 + ")" * 9000,
        "cat <<E\nE\n" * 6000,
        "ls " + "2>&1 " * 12000,
        "env " * 15000 + "ls",
        "git " + "-C a " * 12000 + "status",
        "! " * 30000 + "ls",
    ],
    ids=lambda line: line[:9],
)
def test_a_shell_line_beyond_its_bounds_is_asked_about_before_it_is_parsed(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tree-sitter and the rules of programs are quadratic in some of these."""

    def parse(_line: str) -> None:
        raise AssertionError("parsed")

    monkeypatch.setattr(tree, "parse", parse)
    verdict = judge(line, tmp_path)
    assert not verdict.parsed
    assert not verdict.read_only
    assert verdict.risks


def test_a_long_document_in_a_line_is_still_read(tmp_path: Path) -> None:
    body = "if (a | b; ${c}) > d && $(e) " * 1500
    verdict = judge(f"cat > made.py <<'END'\n{body}\nEND\n", tmp_path)
    assert verdict.parsed
