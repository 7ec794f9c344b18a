"""Private files, replaced whole or not at all, under a lock where other processes write them too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

PRIVATE: Final = 0o600


def write_whole(path: Path, data: bytes, mode: int = PRIVATE) -> None:
    """Replace a file atomically, and only once the new one is on the disk."""
    from coder.fs.atomic import write_atomically

    # a name that `_tidy` knows for this file's
    write_atomically(path, data, mode, beside=f".{path.name}.{os.urandom(6).hex()}.tmp", sync=True)


def make_private(folder: Path) -> None:
    """A folder for the person alone, as are those above it that were missing; `mkdir` opens them to all."""
    if not folder.is_dir():
        make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock beside `path`, so that read, change and replace is one act among processes."""
    make_private(path.parent)
    lock = path.with_name(f"{path.name}.lock")
    with _held(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)):
        _tidy(path)
        yield


@contextmanager
def locked_by_folder(path: Path) -> Iterator[None]:
    """The same by the folder that `path` is in: in a project a file for the lock would be in the way."""
    with _held(os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)):
        _tidy(path)
        yield


@contextmanager
def _held(descriptor: int) -> Iterator[None]:
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # releases the lock


def _tidy(path: Path) -> None:
    """What a process that was killed while writing has left. Its lock is ours now, so nobody is at it."""
    with os.scandir(path.parent) as entries:
        left = [e.name for e in entries if e.name.startswith(f".{path.name}.") and e.name.endswith(".tmp")]
    for name in left:
        path.with_name(name).unlink(missing_ok=True)


def set_aside(path: Path) -> None:
    """A file that cannot be read is about to be made anew: what was in it may be worth a look."""
    path.replace(path.with_name(f"{path.name}.damaged"))
