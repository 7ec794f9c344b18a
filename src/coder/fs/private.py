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
    """Replace a file atomically: after a crash at any point it is the old one or the new one."""
    temporary = _written_beside(path, data, mode)
    try:
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def create_whole(path: Path, data: bytes, mode: int = PRIVATE) -> None:
    """As `write_whole`, but what is there already stays: raises `FileExistsError`. Not waited for until it is
    on the disk: for what can be made again at any time."""
    temporary = _written_beside(path, data, mode, sync=False)
    try:
        os.link(temporary, path)  # unlike a rename it replaces nothing
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _written_beside(path: Path, data: bytes, mode: int, *, sync: bool = True) -> Path:
    # A name nobody can have prepared, and O_EXCL: a link planted in a project must not be followed
    temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fchmod(descriptor, mode)  # whatever the umask says
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


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
