"""One door for paths: what a project or a model can influence is opened by `coder.fs`, not through links.

Every other module that opens, lists, creates, renames or removes something by its path is listed here, with
the reason why nobody else can exchange that path or why it does not matter. A new one belongs behind
`fs/safe_open.py` or `fs/atomic.py`; only where its paths are nobody else's, on this list. Looking whether
something is there (`exists`, `is_dir`, `stat`) is not counted: it hands on no content and changes nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "src" / "coder"

THE_DOOR = ("fs/atomic.py", "fs/private.py", "fs/safe_open.py")
MAY: dict[str, tuple[str, ...]] = {
    "only $CODER_HOME, which commands cannot write": (
        *("config/files.py", "engine/crashes.py", "engine/isolation.py", "engine/redact.py"),
        *("lookback/index/database.py", "lookback/projects.py", "mcp/tools.py", "record/seal.py"),
        *("record/tree/index.py", "record/tree/store.py", "record/undo/files.py", "record/undo/journal.py"),
        *("record/undo/others.py", "record/undo/overlap.py", "record/undo/tidy.py"),
        *("terminal/input/history.py", "terminal/render/recorded.py", "tools/shell/command.py"),
        *("process/background.py", "process/output.py", "process/run.py", "batch/home.py"),
        *("model/local/fetch.py", "model/local/server.py", "policy/sandbox/caches.py"),
    ),
    "a path that the person, or the program that embeds us, chose": (
        *("batch/tasks.py", "cli/apply.py", "record/sinks.py", "policy/sandbox/grants.py"),
    ),
    "directories of a batch, which its tasks cannot write": (
        *("batch/attempt.py", "batch/cut.py", "batch/mirror.py", "batch/results.py", "batch/root.py"),
        *("batch/runner.py", "batch/status.py", "batch/workspace.py"),
    ),
    "a new directory in the temporary one, for this process": (
        *("cli/common.py", "cli/demo.py", "cli/tuning/run.py", "policy/sandbox/probe.py"),
        *("terminal/input/external.py", "policy/scratch.py"),
    ),
    "lists names alone; what is read is opened by the door": (
        *("context/prompt.py", "context/skills.py", "engine/verify/choice.py", "lookback/index/update.py"),
        *("modes/discover.py", "modes/importing.py", "policy/secrets/home.py", "record/tree/scan.py"),
        *("tools/paths.py", "policy/sandbox/servers.py"),
    ),
    "opens without following a link, and checks what it got": (
        *("context/ide/discovery.py", "tools/search/ignore.py", "record/undo/apply.py"),
    ),
    "files of the system or of our own package": (
        *("batch/nursery.py", "batch/page.py", "cli/streams.py", "engine/setup.py", "process/child.py"),
        *(
            "process/binaries.py",
            "config/installed.py",
            "process/own_process.py",
            "servers/stdio.py",
            "terminal/render/sanitize.py",
            "view/export.py",
        ),
        *("view/server.py", "policy/sandbox/mounts.py", "policy/sandbox/connect.py"),
        *("policy/sandbox/seatbelt.py", "process/programs.py"),
    ),
    "prepares the sandbox, or runs inside it": (
        *("policy/sandbox/ladder.py", "policy/sandbox/launch.py"),
        *("policy/sandbox/places.py", "policy/sandbox/repositories.py", "policy/network/door.py"),
    ),
}

# Of these modules, what opens, lists or changes something by its path. Of the rest of a module's users the
# import alone counts.
_FUNCTIONS = {
    "os": """
        open listdir scandir walk fwalk unlink remove rename renames replace makedirs mkdir rmdir removedirs
        link symlink readlink chmod lchmod chown lchown chflags utime truncate
        mkfifo mknod setxattr removexattr
    """,
    "shutil": "copy copy2 copyfile copymode copystat copytree move rmtree chown make_archive unpack_archive",
    "io": "open open_code FileIO",
    "codecs": "open",
    "builtins": "open",
    "glob": "glob iglob",
    "linecache": "getline getlines",
    **dict.fromkeys(["gzip", "bz2", "lzma"], "open GzipFile BZ2File LZMAFile"),
    "tarfile": "open TarFile",
    "zipfile": "ZipFile PyZipFile",
    "sqlite3": "connect",
    **dict.fromkeys(["fileinput", "shelve", "dbm", "runpy", "zipimport", "filecmp"], "*"),
}
_PATH = """
    read_text read_bytes write_text write_bytes unlink mkdir rmdir iterdir glob rglob rename touch chmod
    lchmod symlink_to hardlink_to readlink
"""
_BY_DESCRIPTOR = {"dir_fd", "src_dir_fd", "dst_dir_fd"}


def path_calls(source: str) -> Iterator[str]:
    """What opens by path, called or handed on, under whatever name it was imported."""
    tree = ast.parse(source)
    calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    modules = {name: name for name in ("os", "shutil", "io", "codecs")}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name: alias.name for alias in node.names}
    for node in ast.walk(tree):
        call = calls.get(id(node))
        if call and {keyword.arg for keyword in call.keywords} & _BY_DESCRIPTOR:
            continue
        match node:
            case ast.Import() | ast.ImportFrom():
                yield from _imported(node)
            case ast.Name("open", ast.Load()):
                yield "open"
            case ast.Call(ast.Name("getattr"), [ast.Name(name), ast.Constant(str(word)), *_]):
                yield from _one_of(modules.get(name, ""), word)
            case ast.Attribute(ast.Name(name), word) if modules.get(name) in _FUNCTIONS:
                yield from _one_of(modules[name], word)
            case ast.Attribute(value, "open") if call and (_has_mode(call) or _is_path(value)):
                yield ".open"
            case ast.Attribute(value, name) if name in _PATH.split() and (call or _is_path(value)):
                yield f".{name}"


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    for one in node.names:
        if isinstance(node, ast.ImportFrom):
            yield from _one_of(node.module or "", one.name)
        elif _FUNCTIONS.get(one.name) == "*":
            yield one.name


def _one_of(module: str, name: str) -> Iterator[str]:
    named = _FUNCTIONS.get(module, "").split()
    if named and (name in named or "*" in (name, *named)):
        yield f"{module}.{name}"


def _is_path(value: ast.expr) -> bool:
    """`Path.unlink`, `Path(p).unlink`: handed on."""
    return ast.unparse(value).partition("(")[0] in ("Path", "pathlib.Path")


def _has_mode(call: ast.Call) -> bool:
    """`path.open("rb")`, not `sink.open()` or another method of ours."""
    first = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
    given = isinstance(first, str) and set(first) <= set("rwxabt+")
    return given or any(keyword.arg in ("mode", "encoding") for keyword in call.keywords)


def test_paths_are_opened_behind_the_door_or_for_a_reason() -> None:
    listed = [*THE_DOOR, *(module for modules in MAY.values() for module in modules)]
    assert len(listed) == len(set(listed)), "a module has one reason"
    users = {
        path.relative_to(ROOT).as_posix(): calls
        for path in sorted(ROOT.rglob("*.py"))
        if (calls := sorted(set(path_calls(path.read_text(encoding="utf-8")))))
    }
    new = {module: calls for module, calls in users.items() if module not in listed}
    assert not new, f"use coder.fs.safe_open or coder.fs.atomic: {new}"
    assert not set(listed) - users.keys(), "these need no reason any more"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("open(p)", ["open"]),
        ("os.open(p, f)", ["os.open"]),
        ("os.open(n, f, dir_fd=d)", []),
        ("os.rename(a, b, src_dir_fd=d, dst_dir_fd=d)", []),
        ("shutil.rmtree(p)", ["shutil.rmtree"]),
        ("Path(a).read_text(encoding='utf-8')", [".read_text"]),
        ("p.open('rb')", [".open"]),
        ("p.open(encoding='utf-8')", [".open"]),
        ("sink.open()", []),
        ("Path(p).open()", [".open"]),
        ("from os import unlink as u", ["os.unlink"]),
        ("from shutil import rmtree", ["shutil.rmtree"]),
        ("from os import path, fspath", []),
        ("from os import *", ["os.*"]),
        ("import os as o\no.remove(p)", ["os.remove"]),
        ("map(os.unlink, ps)", ["os.unlink"]),
        ("f = open", ["open"]),
        ("getattr(os, 'rename')(a, b)", ["os.rename"]),
        ("import io\nio.open(p)", ["io.open"]),
        ("import gzip as g\ng.open(p)", ["gzip.open"]),
        ("from zipfile import ZipFile", ["zipfile.ZipFile"]),
        ("import fileinput", ["fileinput"]),
        ("map(Path.unlink, ps)", [".unlink"]),
        ("f = Path(p).read_bytes", [".read_bytes"]),
        ("p.exists() and os.path.isdir(p)", []),
    ],
)
def test_what_counts(source: str, found: list[str]) -> None:
    assert list(path_calls(source)) == found
