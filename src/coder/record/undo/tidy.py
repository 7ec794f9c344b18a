"""Garbage collection: undo data unused for a month, temporary files left by a kill.

Copies that a forced undo made of a person's text are kept.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from coder.fs.atomic import lock_directories
from coder.fs.safe_open import parent_of, read_at, scan_directory
from coder.record.undo.apply import path_of
from coder.record.undo.plan import Change

UNUSED_SECONDS = 30 * 86_400
KEPT = "kept"
_TEMPORARY = re.compile(r"\.coder-.{12}\.tmp")


def forget_unused(directory: Path, own: str) -> None:
    """Empty stale directories in `directory`, except `own`. Ignores errors: another process may do it too."""
    oldest = time.time() - UNUSED_SECONDS
    with contextlib.suppress(OSError), os.scandir(directory) as found:
        stale = [entry.path for entry in found if entry.name != own and entry.stat().st_mtime < oldest]
        for path in stale:
            _empty(Path(path))


def _empty(directory: Path) -> None:
    if directory.is_symlink() or not directory.is_dir():
        return
    from shutil import rmtree

    for child in list(directory.iterdir()):
        if child.is_dir() and not child.is_symlink():
            if child.name != KEPT:
                rmtree(child, ignore_errors=True)
        else:
            child.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not empty: copies are kept in it
        directory.rmdir()


def remove_leftovers(moves: Iterable[Change], content: Callable[[str], bytes | None]) -> None:
    """Remove temporary files of an undo that was killed: those that hold a prefix of what it was to write."""
    directories: dict[Path, list[Change]] = {}
    for move in moves:
        directories.setdefault(path_of(move.path).parent, []).append(move)
    for directory, own in directories.items():
        found = _temporary_files(directory)
        if not found:
            continue
        blobs = {held.blob for move in own for held in (move.before, move.after) if held.blob}
        contents = [known for blob in blobs if (known := content(blob)) is not None]
        with lock_directories(found):
            for path in found:
                _remove_if_partial(path, contents)


def _temporary_files(directory: Path) -> list[Path]:
    try:
        with scan_directory(directory) as (found, _):
            return [directory / entry.name for entry in found if _TEMPORARY.fullmatch(entry.name)]
    except OSError:
        return []


def _remove_if_partial(path: Path, contents: list[bytes]) -> None:
    with contextlib.suppress(OSError), parent_of(path) as directory:
        if stat.S_ISLNK(os.stat(path.name, dir_fd=directory, follow_symlinks=False).st_mode):
            begun = os.fsencode(os.readlink(path.name, dir_fd=directory))
        else:
            begun = read_at(path.name, directory) or b""
        if any(content.startswith(begun) for content in contents):
            os.unlink(path.name, dir_fd=directory)
