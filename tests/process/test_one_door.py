"""Only `coder.base.process.programs` starts programs, and every caller says how the program is confined."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from coder.base.process.programs import Runs

SOURCE = Path(__file__).parent.parent.parent / "src" / "coder"
FILES = sorted(SOURCE.rglob("*.py"))
DOOR = SOURCE / "base" / "process" / "programs.py"
# Functions of `os`, of event loops and of the C library that start a program or another process, and modules
# that exist for it or do it on the way (`platform.processor` runs `uname`).
STARTS = re.compile(
    r"(?:exec|spawn)[lv]p?e?|fexecve|execveat|posix_spawnp?|system|popen|v?fork|forkpty|clone3?|startfile"
    r"|create_subprocess_(?:exec|shell)|subprocess_(?:exec|shell)|fork_exec|Popen|ProcessPoolExecutor"
    r"|Forking\w+|CGIHTTPRequestHandler"
)
MODULES = {
    *("subprocess", "webbrowser", "pty", "multiprocessing", "_posixsubprocess", "_multiprocessing", "popen2"),
    *("posix", "nt", "_winapi", "cffi", "ensurepip", "venv", "pydoc", "idlelib", "runpy", "xmlrpc"),
    *("ctypes", "_ctypes"),  # reaches the C library's functions by any name
}
RUNS_PROGRAMS = {
    "platform.architecture",
    "platform.processor",
    "platform.uname",
    "uuid.getnode",
    "uuid.uuid1",
}
# By these anything can be reached by its name.
BY_NAME = ("getattr", "__import__", "import_module", "attrgetter", "methodcaller", "find_spec")
# Who else may, and why. The list may get shorter, not longer.
ALLOWED = {
    ("policy/sandbox/launch.py", "fork"): "Landlock's launcher: a small program of its own",
    ("policy/sandbox/launch.py", "execvp"): "the same, which becomes the command",
    ("policy/sandbox/launch.py", "ctypes"): "the same: Landlock and seccomp have no other interface",
    ("policy/network/inside.py", "execvp"): "opens a command's sockets inside the sandbox, and becomes it",
    ("policy/sandbox/connect.py", "ctypes"): "seccomp's notifications",
    ("base/process/own_process.py", "ctypes"): "prctl",
    ("addons/batch/fork_server.py", "fork"): "forks task processes of coder's own, warm",
    ("addons/batch/fork_server.py", "ctypes"): "prctl",
    ("addons/local/serve.py", "ctypes"): "prctl",
    ("history/tree/index.py", "ctypes"): "inotify",
}


def around(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every line that starts a program by itself, or could: with the name that does it."""
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from ((node.lineno, name) for alias in node.names if (name := _module(alias.name)))
            case ast.ImportFrom():
                names = [_module(node.module or ""), *(_name(alias.name) for alias in node.names)]
                names += [alias.name for alias in node.names if (node.module, alias.name) == ("os", "*")]
                yield from ((node.lineno, name) for name in names if name)
            case ast.Attribute():
                whole = ast.unparse(node)
                named = STARTS.fullmatch(node.attr) or node.attr in (
                    "subprocess",
                    "webbrowser",
                    "multiprocessing",
                )
                if whole != "platform.system" and (named or whole in RUNS_PROGRAMS):
                    yield node.lineno, node.attr
            case ast.Call() if ast.unparse(node.func).rpartition(".")[2] in BY_NAME:
                yield from ((node.lineno, word) for word in map(_constant, node.args) if _name(word))
            case ast.Subscript() if re.search(r"modules|__dict__|vars\(|CDLL", ast.unparse(node.value)):
                if _name(word := _constant(node.slice)):
                    yield node.lineno, word


def _module(dotted: str) -> str:
    return first if (first := dotted.partition(".")[0]) in MODULES else ""


def _name(name: str) -> str:
    return name if name in MODULES or STARTS.fullmatch(name) else ""


def _constant(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


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
    assert found == [], "start it by coder.base.process.programs"
    assert used >= set(ALLOWED), "what nobody does any more needs no leave"


@pytest.mark.parametrize(
    "line",
    [
        "import subprocess",
        "import asyncio.subprocess as s; from subprocess import run",
        "from os import execv",
        "from os import system as look",
        "from os import *",
        "from posix import execve as e",
        "import os; os.system('x')",
        "import os as o; o.execvpe('x')",
        "import os; run = os.posix_spawn",
        "import os; os.startfile('x')",
        "import os; getattr(os, 'system')('x')",
        "import os; os.__dict__['popen']('x')",
        "import os; vars(os)['execv']('x')",
        "import asyncio; asyncio.create_subprocess_exec('x')",
        "import asyncio; asyncio.subprocess.create_subprocess_shell('x')",
        "from asyncio import subprocess as s",
        "from asyncio.subprocess import create_subprocess_exec as s",
        "loop.subprocess_shell(None, 'x')",
        "import webbrowser",
        "import pty as p; p.spawn('x')",
        "from multiprocessing import Process",
        "from concurrent.futures import process; process.ProcessPoolExecutor()",
        "from concurrent.futures import ProcessPoolExecutor as P",
        "from concurrent.futures.process import ProcessPoolExecutor",
        "__import__('pty')",
        "from importlib import import_module; import_module('subprocess')",
        "import sys; sys.modules['subprocess'].run('x')",
        "from coder.base.process.programs import subprocess",
        "from coder.base.process import programs; programs.subprocess.run('x')",
        "from operator import attrgetter; attrgetter('posix_spawn')(os)",
        "libc.execve(b'x')",
        "CDLL(None)['system'](b'x')",
        "getattr(libc, 'fexecve')",
        "from ctypes import CDLL",
        "import platform; platform.processor()",
        "from socketserver import ForkingTCPServer",
    ],
)
def test_whoever_tries_is_found(line: str) -> None:
    assert list(around(ast.parse(line)))


def test_every_reason_is_somebody_s() -> None:
    """Mypy sees to it that nobody starts a program without one: it is a required argument."""
    text = "".join(file.read_text(encoding="utf-8") for file in FILES)
    assert {reason.name for reason in Runs} == set(re.findall(r"\bRuns\.([A-Z_]+)", text))
