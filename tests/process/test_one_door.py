"""Programs are started by `coder.process.programs` alone, and whoever starts one says how it is confined."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from coder.process.programs import Runs

SOURCE = Path(__file__).parent.parent.parent / "src" / "coder"
FILES = sorted(SOURCE.rglob("*.py"))
DOOR = SOURCE / "process" / "programs.py"
# Functions of `os` and of event loops that start a program or another process, and modules that exist for it.
STARTS = re.compile(
    r"(?:exec|spawn)[lv]p?e?|posix_spawnp?|system|popen|fork|forkpty|create_subprocess_(?:exec|shell)"
    r"|subprocess_(?:exec|shell)|fork_exec|ProcessPoolExecutor"
)
MODULES = {"subprocess", "webbrowser", "pty", "multiprocessing", "_posixsubprocess", "popen2", "commands"}
# Who else may, and why. The list may get shorter, not longer.
ALLOWED = {
    (
        "policy/sandbox/launch.py",
        "fork",
    ): "Landlock's launcher: a small program of its own",
    ("policy/sandbox/launch.py", "execvp"): "the same, which becomes the command",
    ("batch/nursery.py", "fork"): "forks task processes of coder's own, warm",
}


def around(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every line that starts a program by itself, or could: with the name that does it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name.partition(".")[0] for alias in node.names]
            yield from ((node.lineno, name) for name in names if name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").partition(".")[0]
            names = [module, *(alias.name for alias in node.names if module in ("os", "posix", "asyncio"))]
            yield from ((node.lineno, name) for name in names if name in MODULES or STARTS.fullmatch(name))
        elif isinstance(node, ast.Attribute) and STARTS.fullmatch(node.attr):
            if ast.unparse(node) == "platform.system":
                continue
            yield node.lineno, node.attr
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in (
            "__import__",
            "importlib.import_module",
        ):
            named = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
            yield from ((node.lineno, str(name)) for name in named if name in MODULES)


def test_no_module_starts_a_program_by_itself() -> None:
    found, used = [], set()
    for file in FILES:
        if file == DOOR:
            continue
        name = file.relative_to(SOURCE).as_posix()
        for line, what in around(ast.parse(file.read_text(encoding="utf-8"))):
            used.add((name, what))
            if (name, what) not in ALLOWED:
                found.append(f"{name}:{line}: {what}")
    assert found == [], "start it by coder.process.programs"
    assert used >= set(ALLOWED), "what nobody does any more needs no leave"


@pytest.mark.parametrize(
    "line",
    [
        "import subprocess",
        "import asyncio.subprocess as s; from subprocess import run",
        "from os import execv",
        "import os; os.system('x')",
        "import os; run = os.posix_spawn",
        "import asyncio; asyncio.create_subprocess_exec('x')",
        "loop.subprocess_shell(None, 'x')",
        "import webbrowser",
        "from concurrent.futures import process; process.ProcessPoolExecutor()",
        "__import__('pty')",
    ],
)
def test_whoever_tries_is_found(line: str) -> None:
    assert list(around(ast.parse(line)))


def test_every_reason_is_somebody_s() -> None:
    """Mypy sees to it that nobody starts a program without one: it is a required argument."""
    text = "".join(file.read_text(encoding="utf-8") for file in FILES)
    assert {reason.name for reason in Runs} == set(re.findall(r"\bRuns\.([A-Z_]+)", text))
