"""Settings files: read within bounds; and the project's `.coder/`, where they stand."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, Final

from coder.config.errors import ConfigError, shown

if TYPE_CHECKING:
    from pathlib import Path

FOLDER: Final = ".coder"
IGNORED_BY_GIT: Final = "/history/\n/sessions/\n"
MAX_BYTES: Final = 1_048_576  # a configuration is written by a person; more is a mistake or an attack


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


def reason(error: Exception) -> str:
    """Why the system refused, without the path, which the sentence around it names already."""
    return shown((error.strerror if isinstance(error, OSError) else None) or str(error))


def ensure_folder(cwd: Path) -> Path:
    """`.coder/` with its `.gitignore`, made if missing; an existing one is left alone.

    Raises `OSError` where the folder cannot be made.
    """
    folder = cwd / FOLDER
    folder.mkdir(exist_ok=True)
    if not folder.resolve().is_relative_to(cwd.resolve()):
        return folder  # a link out of the project: nothing of ours is put there
    ignoring = folder / ".gitignore"
    if not ignoring.is_symlink() and not ignoring.exists():
        from coder.fs.atomic import write_atomically

        with contextlib.suppress(FileExistsError):  # another process was quicker
            write_atomically(ignoring, IGNORED_BY_GIT.encode("ascii"), 0o644, new=True)
    return folder
