"""What `list` tells of one directory, and `read` where its path is one."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec

from coder.fs.safe_open import scan_directory
from coder.texts import Phrase
from coder.tools.base import ToolContext, ToolResult, Workspace, failed, summed_up
from coder.tools.list import MAX_ENTRIES
from coder.tools.paths import Stop, clean, kind_of, locate_existing, shown, size_words, status, unreachable
from coder.tools.search.ignore import Rules
from coder.tools.summaries import list_summary

HIDDEN_NAMED = 20


async def list_directory(path: str, context: ToolContext) -> ToolResult:
    try:
        return await asyncio.to_thread(_list, path, context)
    except Stop as stop:
        return stop.result


def _list(path: str, context: ToolContext) -> ToolResult:
    directory, _ = locate_existing(context, path)
    name = shown(context, directory)
    if kind_of(status(context, directory).st_mode) != "a folder":
        return failed(
            f"{name} is a file, not a folder; use read", Phrase("tool.is_file", path=name), path=name
        )
    return listed(directory, name, context)


class _Entries(msgspec.Struct, frozen=True):
    directories: list[str]
    files: list[str]
    hidden: list[str]
    closed: list[str]


def listed(directory: Path, name: str, context: ToolContext) -> ToolResult:
    """What a directory holds, as `list` and `read` tell it."""
    try:
        entries = _entries(directory, context.workspace)
    except OSError as error:
        raise Stop(unreachable(context, directory, error, "list")) from error
    lines = entries.directories + entries.files
    total, more = len(lines), max(0, len(lines) - MAX_ENTRIES)
    text = "\n".join(lines[:MAX_ENTRIES]) or "(empty folder)"
    if more:
        text += f"\n[{more} more entries not shown; use glob with a narrower pattern]"
    if entries.hidden:
        rest = len(entries.hidden) - HIDDEN_NAMED
        names = ", ".join(entries.hidden[:HIDDEN_NAMED]) + (f" and {rest} more" if rest > 0 else "")
        text += f"\n(hidden by .gitignore: {names})"
    if entries.closed:
        text += f"\n(closed to you: {', '.join(entries.closed)})"
    meta = {"path": name, "entries": total, "ignored": len(entries.hidden), "truncated": more > 0}
    return summed_up(list_summary(meta), text, meta=meta)


def _entries(directory: Path, workspace: Workspace) -> _Entries:
    rules = Rules.at(workspace.root, directory)
    directories, files, hidden, closed = [], [], [], []
    with scan_directory(directory) as (found, descriptor):
        for entry in sorted(found, key=lambda entry: entry.name.lower()):
            is_directory = entry.is_dir(follow_symlinks=False)
            if entry.name == ".git":
                continue
            if os.fspath(directory / entry.name) in workspace.closed:
                closed.append(_one_line(entry.name) + "/" * is_directory)
            elif rules.hide(os.fspath(directory / entry.name), is_directory=is_directory):
                hidden.append(_one_line(entry.name) + "/" * is_directory)
            elif is_directory:
                directories.append(f"{_one_line(entry.name)}/")
            else:
                files.append(_file_line(entry, descriptor))
    return _Entries(directories, files, hidden, closed)


def _file_line(entry: os.DirEntry[str], directory: int) -> str:
    name = _one_line(entry.name)
    try:
        if entry.is_symlink():
            return f"{name} -> {_one_line(os.readlink(entry.name, dir_fd=directory))}"
        info = entry.stat(follow_symlinks=False)
    except OSError:
        return name
    return f"{name} ({kind_of(info.st_mode) or size_words(info.st_size)})"


def _one_line(name: str) -> str:
    """A name that holds a newline must not look like two entries."""
    return clean(name).replace("\n", "\\n")
