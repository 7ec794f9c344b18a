"""Implements `glob` and `list`: files whose paths match, newest first; what a folder holds."""

from __future__ import annotations

import asyncio
import os
from itertools import islice
from pathlib import Path

import msgspec

from coder.base.ignore import IgnoreRules, SearchRoot
from coder.base.safe_open import scan_directory
from coder.base.text import utf8_safe
from coder.texts import Text
from coder.tools import paths
from coder.tools.glob import MAX_SHOWN
from coder.tools.list import MAX_ENTRIES
from coder.tools.paths import Stop, shown
from coder.tools.search.find import Outcome, files_there, find_files
from coder.tools.search.globs import BadGlob, matcher
from coder.tools.tool import ToolContext, ToolResult, Workspace, failed, glob_summary, list_summary, summed_up

MAX_DATED = 10_000  # more matches than this are not asked for their dates
MAX_FOUND = 200_000


async def files_matching(pattern: str, path: str, context: ToolContext) -> ToolResult:
    try:
        return await _glob(pattern, path, context)
    except Stop as stop:
        return stop.result
    except BadGlob as bad:
        return failed(utf8_safe(str(bad)), pattern=utf8_safe(pattern))


async def _glob(pattern: str, path: str, context: ToolContext) -> ToolResult:
    directory, _ = paths.locate_existing(context, path)
    if paths.kind_of((await asyncio.to_thread(paths.status, context, directory)).st_mode) != "a folder":
        name = shown(context, directory)
        return failed(f"{name} is not a folder; give the folder to search as path", path=name)
    pattern = _relative(pattern, directory)
    place = SearchRoot(context.workspace.root, directory, context.workspace.closed)
    note = ""
    found, ordered = await _find(pattern, place, context)
    if not ordered and "/" not in pattern:
        pattern, note = f"**/{pattern}", "[nothing at this level; these lie deeper]"
        found, ordered = await _find(pattern, place, context)
    names = [shown(context, place.base / path) for path in ordered]
    return _result(pattern, names, found, note, context, place)


def _relative(pattern: str, directory: Path) -> str:
    """The pattern below `directory`; models also give whole paths."""
    pattern = pattern.strip()
    while pattern.startswith("./"):
        pattern = pattern[2:]
    if pattern.startswith("/"):
        prefix = f"{directory}/"
        if not pattern.startswith(prefix):
            raise BadGlob(f"the pattern is relative to path; {pattern!r} is not below {directory}")
        pattern = pattern.removeprefix(prefix)
    if not pattern:
        raise BadGlob("the pattern is empty; * matches every file of the folder, ** every file below it")
    if ".." in pattern.split("/"):
        raise BadGlob("the pattern cannot go up with ..; give the folder to search as path")
    return pattern


async def _find(pattern: str, place: SearchRoot, context: ToolContext) -> tuple[Outcome, list[str]]:
    match = matcher(pattern)
    skip = len(os.fspath(place.start)) - len(os.fspath(place.base))
    found = await find_files(context, place, lambda path: match(path[skip:]), MAX_FOUND)
    return found, await asyncio.to_thread(_ordered, found, place.base)


def _ordered(found: Outcome, base: Path) -> list[str]:
    """The paths to show: newest first, or by path if there are too many to stat. Leaves out files reached
    only through a link that was swapped in meanwhile (TOCTOU)."""
    if len(found.paths) > MAX_DATED:
        found.paths.sort()
        return sorted(files_there(base, islice(found.paths, 4 * MAX_SHOWN)))[:MAX_SHOWN]
    there = files_there(base, found.paths)
    found.paths = list(there)
    return sorted(there, key=lambda path: (-there[path], path))[:MAX_SHOWN]


def _result(
    pattern: str, names: list[str], found: Outcome, note: str, context: ToolContext, place: SearchRoot
) -> ToolResult:
    total, where = len(found.paths), shown(context, place.start)
    lines = [note] if note and names else []
    lines += [path.replace("\n", "\\n") for path in names]
    if not names:
        lines.append(f"no files match {utf8_safe(pattern)} in {where}")
    if total > len(names):
        dated = total <= MAX_DATED
        order = "newest" if dated else "first by path"
        count = str(total) if dated else f"more than {MAX_DATED}"  # not each of very many was looked up
        part = f"the {len(names)} {order} are shown"
        lines.append(f"[{count} files match; {part}; narrow the pattern to see others]")
    if found.timed_out:
        lines.append("[the search took too long and was ended; give a narrower path]")
    lines += paths.closed_note(context, place)
    meta = {
        "pattern": utf8_safe(pattern),
        "path": where,
        "matches": total,
        "shown": len(names),
        "truncated": total > len(names),
        "timed_out": found.timed_out,
        "engine": found.engine,
    }
    return summed_up(glob_summary(meta), "\n".join(lines), meta=meta)


HIDDEN_NAMED = 20


async def list_directory(path: str, context: ToolContext) -> ToolResult:
    try:
        return await asyncio.to_thread(_list, path, context)
    except Stop as stop:
        return stop.result


def _list(path: str, context: ToolContext) -> ToolResult:
    directory, _ = paths.locate_existing(context, path)
    name = shown(context, directory)
    if paths.kind_of(paths.status(context, directory).st_mode) != "a folder":
        return failed(f"{name} is a file, not a folder; use read", Text("tool.is_file", path=name), path=name)
    return listed(directory, name, context)


class _Entries(msgspec.Struct, frozen=True):
    directories: list[str]
    files: list[str]
    hidden: list[str]
    closed: list[str]


def listed(directory: Path, name: str, context: ToolContext) -> ToolResult:
    """What a directory holds, for `list` and `read`."""
    try:
        entries = _entries(directory, context.workspace)
    except OSError as error:
        raise Stop(paths.unreachable(context, directory, error, "list")) from error
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
    rules = IgnoreRules.at(workspace.root, directory)
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
    return f"{name} ({paths.kind_of(info.st_mode) or paths.size_words(info.st_size)})"


def _one_line(name: str) -> str:
    """A name that holds a newline must not look like two entries."""
    return utf8_safe(name).replace("\n", "\\n")
