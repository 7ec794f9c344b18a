"""ARCHITECTURE.md and docs/code.md: packages and files exist, each function of a run is called in order."""

from __future__ import annotations

import re

import pytest

from kit import ScriptedServer
from kit.calls import bash_step, step
from kit.driving import Project
from kit.ways import ROOT, follow, traced, ways
from test_arrows import ORDER

CHANGE = step("edit", path="a.py", old_string="x = 1", new_string="x = 2")


def test_the_page_has_four_runs() -> None:
    assert [len(way) >= 10 for way in ways().values()] == [True] * 4


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "docs/code.md"])
def test_the_packages_are_listed_in_the_order_of_imports(page: str) -> None:
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert [name for name in ORDER if name in rows] == rows
    assert page != "ARCHITECTURE.md" or rows == list(ORDER)


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "docs/code.md"])
def test_the_files_that_are_named_exist(page: str) -> None:
    """By their path in `src/coder`, or in the package of the table's row."""
    missing = []
    for line in (ROOT / page).read_text(encoding="utf-8").splitlines():
        row = re.match(r"\| `(\w+)` \|", line)
        package = ROOT / "src" / "coder" / (row[1] if row else "")
        for name in re.findall(r"`(?:src/coder/)?([\w/]+(?:\.py|/))`", line):
            places = (package / name, ROOT / "src" / "coder" / name, ROOT / name)
            if not any(place.exists() for place in places) and not next(package.rglob(name), None):
                missing.append(name)
    assert missing == []


@pytest.mark.thorough
def test_one_turn(project: Project) -> None:
    project.write("pyproject.toml", "[tool.pytest.ini_options]\n")
    project.write("tests/test_a.py", "def test_a():\n    pass\n")
    project.write("a.py", "x = 1\n")
    with ScriptedServer([step("read", path="a.py"), CHANGE, {"text": "done"}]) as server:
        done = project.coder(
            "--mode", "auto-edit", "--once", "set x to 2", url=server.url, env=traced(project)
        )
    assert done.returncode == 0, done.stderr
    follow(project, "One turn: a message that leads to an edit")


def test_a_shell_line(project: Project) -> None:
    project.configure(permission={"command_allowlist": ["touch"]})
    with ScriptedServer([bash_step("touch a.py && ls"), {"text": "made"}]) as server:
        done = project.coder("--once", "make a.py", url=server.url, env=traced(project))
    assert done.returncode == 0, done.stderr
    follow(project, "A shell line: from the model's call to its result")


def test_undo(project: Project) -> None:
    project.write("a.py", "x = 1\n")
    with ScriptedServer([step("read", path="a.py"), CHANGE, {"text": "done"}]) as server:
        project.coder("--mode", "yolo", "--once", "set x", url=server.url)
        done = project.coder("--continue", "--once", "/undo", url=server.url, env=traced(project))
    assert done.returncode == 0, done.stderr
    assert (project.cwd / "a.py").read_text(encoding="utf-8") == "x = 1\n"
    follow(project, "`/undo`")
