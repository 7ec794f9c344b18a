"""Reading settings files within bounds, and writing private ones whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from coder.config.errors import ConfigError, shown

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES: Final = 1_048_576  # a configuration is written by a person; more is a mistake or an attack
PRIVATE: Final = 0o600


def read_bounded(path: Path, label: str) -> bytes | None:
    """The bytes of an ordinary file, `None` where there is none; `label` is how errors name it."""
    try:
        # Never wait on a FIFO that somebody put in the place of a file
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigError("config.file_unreadable", file=label, why=reason(error)) from None
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise ConfigError("config.file_directory", file=label)
        if not stat.S_ISREG(mode):
            raise ConfigError("config.file_irregular", file=label)
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError("config.file_unreadable", file=label, why=reason(error)) from None
    finally:
        os.close(descriptor)
    if len(data) > MAX_BYTES:
        raise ConfigError("config.file_too_big", file=label, limit=MAX_BYTES)
    return data


def write_whole(path: Path, data: bytes, mode: int = PRIVATE) -> None:
    """Replace a file atomically: after a crash at any point it is the old one or the new one."""
    # A name nobody can have prepared, and O_EXCL: a link planted in a project must not be followed
    temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fchmod(descriptor, mode)  # whatever the umask says
            os.fsync(descriptor)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock beside `path`, so that read, change and replace is one act among processes."""
    import fcntl

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = path.with_name(f"{path.name}.lock")
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # releases the lock


def reason(error: Exception) -> str:
    """Why the system refused, without the path, which the sentence around it names already."""
    return shown((error.strerror if isinstance(error, OSError) else None) or str(error))
