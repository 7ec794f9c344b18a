"""Undo's memory is bounded: what belongs to sessions and folders that nobody has used for a month goes.

What a forced undo set aside of a person's own text stays.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

UNUSED_SECONDS = 30 * 86_400
KEPT = "kept"


def forget_unused(folder: Path, own: str) -> None:
    """Of the folders in `folder`, empty those that have not changed for so long; `own` is in use. Raises
    nothing: another process may be at the same work."""
    oldest = time.time() - UNUSED_SECONDS
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        stale = [entry.path for entry in found if entry.name != own and entry.stat().st_mtime < oldest]
        for path in stale:
            _empty(Path(path))


def _empty(folder: Path) -> None:
    if folder.is_symlink() or not folder.is_dir():
        return
    from shutil import rmtree

    for child in list(folder.iterdir()):
        if child.is_dir() and not child.is_symlink():
            if child.name != KEPT:
                rmtree(child, ignore_errors=True)
        else:
            child.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # something was kept in it
        folder.rmdir()
