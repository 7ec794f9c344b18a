"""The table of shell lines, line by line, and bash's own opinion of which of them are shell lines."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from coder.policy.shell.judge import judge
from coder.policy.shell.verdict import ShellVerdict

from .place import Row, make_workspace, rows


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_workspace(tmp_path_factory.mktemp("lines"))


def summary(verdict: ShellVerdict) -> str:
    if verdict.read_only:
        return "read+risk" if verdict.risks else "read"
    return "risk" if verdict.risks else "ask"


def test_the_table_is_big_enough_and_has_every_kind() -> None:
    kinds = Counter(row.expected for row in rows())
    assert sum(kinds.values()) >= 400
    assert all(kinds[kind] >= 10 for kind in ("read", "ask", "risk", "read+risk"))
    lines = [row.line for row in rows()]
    assert len(lines) - len(set(lines)) < 10  # a line may show two things, not many


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.line.replace("\n", "␤"))
def test_verdict(row: Row, workspace: Path) -> None:
    verdict = judge(row.line, workspace)
    assert summary(verdict) == row.expected, [segment.rule for segment in verdict.segments]
    assert verdict.read_only == all(segment.read_only for segment in verdict.segments)
    if not verdict.parsed:
        assert verdict.risks
        assert not verdict.read_only


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("bash"), reason="no bash on this machine")
def test_bash_agrees_on_what_is_a_line() -> None:
    """`bash -n` for every line, all started from one bash."""
    table = rows()
    script = "\n".join(f"check {shlex.quote(row.line)}" for row in table)
    check = 'check() { if bash -n -c "$1" 2>/dev/null; then echo y; else echo n; fi; }\n'
    result = subprocess.run(
        ["bash"], input=check + script, capture_output=True, text=True, encoding="utf-8", check=True
    )
    answers = result.stdout.split()
    assert len(answers) == len(table)
    wrong = [row.line for row, answer in zip(table, answers, strict=True) if (answer == "y") != row.valid]
    assert wrong == []


def test_a_line_that_bash_rejects_is_never_let_through(workspace: Path) -> None:
    for row in rows():
        if not row.valid:
            assert not judge(row.line, workspace).read_only
