"""Private files: atomic replacement, and advisory locks where other processes write them too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

PRIVATE: Final = 0o600


def write_durably(path: Path, data: bytes, mode: int = PRIVATE, *, resolved: bool = False) -> None:
    """Replace a file atomically, after the new content is on disk (fsync). `resolved`: see
    `write_atomically`."""
    from coder.fs.atomic import write_atomically

    # a name that `_remove_leftovers` recognises
    beside = f".{path.name}.{os.urandom(6).hex()}.tmp"
    write_atomically(path, data, mode, beside=beside, sync=True, resolved=resolved)


def make_private(directory: Path) -> None:
    """Create a directory with mode 0700, its missing parents too (`mkdir(parents=True)` gives those 0777)."""
    if not directory.is_dir():
        make_private(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file beside `path`, so that read-modify-replace is one transaction among processes."""
    make_private(path.parent)
    lock = path.with_name(f"{path.name}.lock")
    with _flock(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)):
        _remove_leftovers(path)
        yield


@contextmanager
def locked_by_directory(path: Path, *, make: bool = False) -> Iterator[None]:
    """The same with the parent directory of a resolved path as the lock: a lock file would litter a project.
    `make`: create that directory."""
    from coder.fs.atomic import wait_for_lock
    from coder.fs.safe_open import parent_of

    with parent_of(path, make=make) as parent:
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
    try:
        wait_for_lock(descriptor)  # not for ever: whoever can read the directory can hold this lock
        _remove_leftovers(path)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _flock(descriptor: int) -> Iterator[None]:
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # releases the lock


def _remove_leftovers(path: Path) -> None:
    """Remove temporary files of a process killed while writing. We hold the lock, so none is in use."""
    with os.scandir(path.parent) as entries:
        left = [e.name for e in entries if e.name.startswith(f".{path.name}.") and e.name.endswith(".tmp")]
    for name in left:
        path.with_name(name).unlink(missing_ok=True)


def set_aside(path: Path) -> None:
    """Rename an unreadable file before it is recreated, so that its content can still be inspected."""
    path.replace(path.with_name(f"{path.name}.damaged"))
