"""ARCHITECTURE's four ways through the house are walked: every function it names is called, in that order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kit import ScriptedServer
from kit.calls import bash_step, step
from kit.driving import Project
from terminal.pty_kit import Terminal

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
ITEM = re.compile(r"^\d+\. `([\w/]+\.py)` `(\w+)`", re.MULTILINE)

# Found by Python in every process that is started with it: tells of each call into the package.
TRACER = """
import os, sys, threading
out = open(os.environ["CALLS_FILE"], "a", buffering=1)
root = os.environ["CALLS_ROOT"]

def tell(frame, what, arg):
    if what == "call" and frame.f_code.co_filename.startswith(root):
        out.write(f"{frame.f_code.co_filename[len(root):]} {frame.f_code.co_name}\\n")

sys.setprofile(tell)
threading.setprofile(tell)
"""


def ways() -> Iterator[tuple[str, list[str]]]:
    for section in PAGE.split("\n### ")[1:]:
        title, _, text = section.partition("\n")
        yield title, [f"{file} {function}" for file, function in ITEM.findall(text.split("\n## ")[0])]


WAYS = dict(ways())


@pytest.fixture
def trace(project: Project) -> Callable[[], dict[str, str]]:
    """The environment of a process whose calls are told."""
    folder = project.home / "tracer"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(TRACER, encoding="utf-8")

    def environment() -> dict[str, str]:
        return {
            "PYTHONPATH": str(folder),
            "PYTHONWARNINGS": "default",  # the file of calls stays open
            "CALLS_FILE": str(project.home / "calls"),
            "CALLS_ROOT": f"{ROOT / 'src' / 'coder'}/",
        }

    return environment


def follow(project: Project, way: list[str]) -> None:
    """Each is called after the one before it."""
    told = (project.home / "calls").read_text(encoding="utf-8").splitlines()
    at = 0
    for number, wanted in enumerate(way, 1):
        assert wanted in told[at:], f"{number}. {wanted} is not called after {way[number - 2]}"
        at = told.index(wanted, at)


def test_the_page_tells_four_ways() -> None:
    assert [len(way) >= 10 for way in WAYS.values()] == [True] * 4


def test_one_turn(project: Project, trace: Callable[[], dict[str, str]]) -> None:
    project.write("pyproject.toml", "[tool.pytest.ini_options]\n")
    project.write("tests/test_a.py", "def test_a():\n    pass\n")
    project.write("a.py", "x = 1\n")
    change = step("edit", path="a.py", old_string="x = 1", new_string="x = 2")
    script = [step("read", path="a.py"), change, {"text": "done"}]
    with ScriptedServer(script) as server:
        done = project.coder("--mode", "auto-edit", "--once", "set x to 2", url=server.url, env=trace())
    assert done.returncode == 0, done.stderr
    follow(project, WAYS["One turn: a message that leads to an edit"])


def test_a_keystroke(project: Project, trace: Callable[[], dict[str, str]]) -> None:
    with ScriptedServer([]) as server, Terminal(project, server.url, **trace()) as terminal:
        terminal.until_idle()
        terminal.type("h")
        terminal.until("> h")
    follow(project, WAYS["A keystroke: from the terminal's bytes to a row"])


def test_a_shell_line(project: Project, trace: Callable[[], dict[str, str]]) -> None:
    project.configure(permission={"command_allowlist": ["touch"]})
    with ScriptedServer([bash_step("touch a.py && ls"), {"text": "made"}]) as server:
        done = project.coder("--once", "make a.py", url=server.url, env=trace())
    assert done.returncode == 0, done.stderr
    follow(project, WAYS["A shell line: from the model's call to its result"])


def test_undo(project: Project, trace: Callable[[], dict[str, str]]) -> None:
    project.write("a.py", "x = 1\n")
    change = step("edit", path="a.py", old_string="x = 1", new_string="x = 2")
    with ScriptedServer([step("read", path="a.py"), change, {"text": "done"}]) as server:
        project.coder("--mode", "yolo", "--once", "set x", url=server.url)
        done = project.coder("--continue", "--once", "/undo", url=server.url, env=trace())
    assert done.returncode == 0, done.stderr
    assert (project.cwd / "a.py").read_text(encoding="utf-8") == "x = 1\n"
    follow(project, WAYS["`/undo`"])
