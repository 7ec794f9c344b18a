"""One door for paths: what a project or a model can influence is opened without following links.

Every other module that opens, lists, creates, renames or removes something by its path is listed here, with
the reason why nobody else can exchange that path or why it does not matter. A new one belongs behind
`base/safe_open.py` or `base/files.py`; only where its paths are nobody else's, on this list. Looking whether
something is there (`exists`, `is_dir`, `stat`) is not counted: it hands on no content and changes nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "src" / "coder"

THE_DOOR = (
    "base/files.py",
    "base/safe_open.py",
)
MAY: dict[str, tuple[str, ...]] = {
    "only $CODER_HOME, which commands cannot write": (
        "addons/batch/workspace_of_task.py",
        "addons/local/fetch_model.py",
        "addons/local/local_server.py",
        "base/process/jobs.py",
        "base/process/output.py",
        "base/process/run.py",
        "config/files.py",
        "engine/engine.py",
        "engine/isolation.py",
        "engine/redactor.py",
        "extend/mcp/mcp_tools.py",
        "history/search/database.py",
        "history/search/projects.py",
        "history/signature.py",
        "history/tree/index.py",
        "history/tree/scan_cache.py",
        "history/undo/command_changes.py",
        "history/undo/journal.py",
        "history/undo/journal_files.py",
        "history/undo/running_commands.py",
        "policy/sandbox/caches.py",
        "tools/shell.py",
        "ui/terminal/input/input_history.py",
        "history/entries_to_events.py",
    ),
    "a path that the person, or the program that embeds us, chose": (
        "addons/batch/task_file.py",
        "addons/batch/apply_patch.py",
        "history/sinks.py",
        "policy/sandbox/grants.py",
    ),
    "directories of a batch, which its tasks cannot write": (
        "addons/batch/attempt.py",
        "addons/batch/batch_directory.py",
        "addons/batch/mirror.py",
        "addons/batch/results.py",
        "addons/batch/runner.py",
    ),
    "a new directory in the temporary one, for this process": (
        "addons/tune/tune_run.py",
        "cli/common.py",
        "cli/demo.py",
        "policy/sandbox/probe.py",
        "policy/workspace.py",
        "ui/terminal/input/actions.py",
    ),
    "lists names alone; what is read is opened by the door": (
        "context/prompt.py",
        "engine/verify/choice.py",
        "extend/modes/discover.py",
        "extend/modes/importing.py",
        "extend/skills.py",
        "history/search/index.py",
        "history/tree/scan.py",
        "policy/sandbox/backends.py",
        "policy/secrets/secret_places.py",
        "tools/paths.py",
    ),
    "opens without following a link, and checks what it got": (
        "addons/ide/discovery.py",
        "base/ignore.py",
        "history/undo/apply_steps.py",
    ),
    "files of the system or of our own package": (
        "addons/batch/batch_page.py",
        "addons/batch/fork_server.py",
        "base/addons.py",
        "base/process/binaries.py",
        "base/process/child.py",
        "base/process/own_process.py",
        "base/process/programs.py",
        "config/distribution.py",
        "engine/setup.py",
        "policy/sandbox/connect.py",
        "policy/sandbox/places.py",
        "policy/sandbox/seatbelt.py",
        "ui/browser/export_file.py",
        "ui/browser/web_server.py",
        "ui/stdio.py",
        "ui/streams.py",
        "ui/terminal/render/escapes.py",
    ),
    "prepares the sandbox, or runs inside it": (
        "policy/sandbox/launch.py",
        "policy/sandbox/repositories.py",
        "policy/network/door.py",
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
    assert not new, f"use coder.base.safe_open or coder.base.files: {new}"
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
