"""The batch's directory on a machine: mirrors and the attempts' own directories, for this user alone.

Every supervisor there (the driver, or each of Ray's worker processes) holds a shared lock in it, which the
kernel releases when the process dies. Whoever can then lock it exclusively is the last one, and removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import time
from collections.abc import Callable
from pathlib import Path

from coder.policy.scratch import private_base

_LOCK = "alive.lock"


def batch_root(batch: str) -> Path:
    return private_base() / f"batch-{batch}"


class Root:
    """A supervisor's claim on the directory, for as long as its process lives."""

    def __init__(self, batch: str) -> None:
        """Removes what a killed run of the batch left. Raises OSError."""
        self.path = batch_root(batch)
        remove_unused(self.path)
        while True:
            self.path.mkdir(mode=0o700, exist_ok=True)
            try:
                self._lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:  # removed in between
                continue
            fcntl.flock(self._lock, fcntl.LOCK_SH)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat((self.path / _LOCK).stat(), os.fstat(self._lock)):
                    return
            os.close(self._lock)

    def leave(self) -> None:
        os.close(self._lock)
        remove_unused(self.path)


def remove_unused(path: Path) -> None:
    """Remove the directory unless a supervisor still uses it. It is moved away first, so that a supervisor
    that starts meanwhile makes its own."""
    for left in path.parent.glob(f"{path.name}.gone-*"):  # of a removal that was cut off
        remove_tree(left)
    try:
        descriptor = os.open(path / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        pass
    else:
        gone = path.with_name(f"{path.name}.gone-{os.getpid()}")
        with contextlib.suppress(OSError):
            path.rename(gone)
        remove_tree(gone)
    finally:
        os.close(descriptor)


def remove_tree(path: Path) -> None:
    """Also where a task took away its own permissions, or something still writes while it is being ended."""

    def again(function: Callable[..., object], name: str, _error: object) -> None:
        with contextlib.suppress(OSError):
            for directory in (Path(name).parent, Path(name)):
                if not directory.is_symlink() and directory.is_dir():
                    directory.chmod(stat.S_IRWXU)
            function(name)

    for _ in range(5):
        if not os.path.lexists(path):
            return
        shutil.rmtree(path, onerror=again)
        if os.path.lexists(path):
            time.sleep(0.05)
