"""The batch's directory on a machine: mirrors and the attempts' own directories, for this user alone.

Every supervisor there (the driver, or each of Ray's worker processes) and its fork server hold a shared lock
in it, which the kernel releases when both are dead. Whoever can then lock it exclusively is the last one, and
removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from pathlib import Path

from coder import private_base
from coder import remove_tree as remove_directory

_LOCK = "alive.lock"
_GONE = ".gone-"


def batch_root(batch: str) -> Path:
    return private_base() / f"batch-{batch}"


class Root:
    """A claim on the directory, for as long as a process has `lock` open."""

    def __init__(self, batch: str) -> None:
        """Removes what killed batches left. Raises OSError."""
        self.path = batch_root(batch)
        for path in self.path.parent.glob("batch-*"):
            remove_unused(path)
        while True:
            self.path.mkdir(mode=0o700, exist_ok=True)
            try:
                self.lock = _opened(self.path)
            except FileNotFoundError:  # removed in between
                continue
            fcntl.flock(self.lock, fcntl.LOCK_SH)
            if _is_lock_of(self.path, self.lock):
                return
            os.close(self.lock)

    def leave(self) -> None:
        os.close(self.lock)
        remove_unused(self.path)


def remove_unused(path: Path) -> None:
    """Remove the directory unless somebody has a claim on it. It is moved away first, so that whoever
    starts meanwhile makes its own."""
    if _GONE in path.name:  # a removal that was cut off
        remove_tree(path)
        return
    for left in path.parent.glob(f"{path.name}{_GONE}*"):
        remove_tree(left)
    try:
        descriptor = _opened(path)
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        pass
    else:
        end_strays(path)
        gone = path.with_name(f"{path.name}{_GONE}{os.getpid()}")
        if _is_lock_of(path, descriptor):
            with contextlib.suppress(OSError):
                path.rename(gone)
        remove_tree(gone)
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    return os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _is_lock_of(path: Path, descriptor: int) -> bool:
    """Not where another removed the directory, and its lock, between our opening and locking it."""
    try:
        return os.path.samestat((path / _LOCK).stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def end_strays(directory: Path) -> None:
    """Kill what commands of tasks in this directory have left running, which their environment tells. For
    where the fork server is dead that would have known them as its children. Linux only."""
    mark = os.fsencode(directory) + b"/"
    for _ in range(100):
        found = False
        for entry in Path("/proc").glob("[1-9]*"):
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)
                    found = True
        if not found:
            return
        time.sleep(0.01)


def remove_tree(path: Path) -> None:
    """Also where something still writes while it is being ended, or another removes it too. What cannot be
    removed stays."""
    for _ in range(5):
        remove_directory(path)
        if not os.path.lexists(path):
            return
        time.sleep(0.05)
