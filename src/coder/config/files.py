"""Bounded reading of settings files, and the project's `.coder/` directory."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec

from coder import base
from coder.base.files import locked, set_aside, write_atomically, write_durably
from coder.base.safe_open import parent_of
from coder.base.text import shown
from coder.config import ConfigError
from coder.texts import Text

Form = TypeVar("Form", bound=msgspec.Struct)

DIRECTORY: Final = ".coder"
IGNORED_BY_GIT: Final = "/.gitignore\n/history/\n/sessions/\n"  # itself too: `git status` stays as it was
MAX_BYTES: Final = 1_048_576  # written by hand: more is a mistake or an attack


def is_own(home: Path) -> bool:
    """Whether no other user could write $CODER_HOME. Root may use another's, but not one made in /tmp."""
    me = os.getuid()
    try:
        found = [home.lstat(), home.stat()]
        above = home.parent.stat()
    except OSError:
        return True  # not there, or not to be read
    if me != 0:
        return not found[1].st_mode & stat.S_IWOTH and all(one.st_uid in (0, me) for one in found)
    return not above.st_mode & stat.S_IWOTH or all(one.st_uid == 0 for one in found)


def read_bounded(path: Path, label: str, bound: Path | None = None) -> bytes | None:
    """The bytes of a regular file, None if absent. `bound`: the project that it must not lead out of."""
    try:
        # Do not block on a FIFO
        if bound is None:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        else:
            path.stat()  # a missing file is no error, wherever a link leads
            descriptor = base.safe_open.open_beneath(path, bound)
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
    """The system's error message without the path."""
    return shown((error.strerror if isinstance(error, OSError) else None) or str(error))


def ensure_directory(cwd: Path) -> Path:
    """Create `.coder/` with its `.gitignore` if missing (idempotent). Raises `OSError`."""
    directory = cwd.resolve() / DIRECTORY
    real = directory.resolve()
    if not real.is_relative_to(cwd.resolve()):
        return directory  # a symlink out of the project: write nothing there
    ignoring = real / ".gitignore"
    with parent_of(real) as parent:
        try:
            os.mkdir(real.name, dir_fd=parent)
        except FileExistsError:
            if not real.is_dir():
                raise
    if not ignoring.is_symlink() and not ignoring.exists():
        with contextlib.suppress(FileExistsError):  # lost the race to another process
            write_atomically(ignoring, IGNORED_BY_GIT.encode("ascii"), 0o644, new=True, resolved=True)
    return directory


class JsonFile(Generic[Form]):
    """A JSON file in $CODER_HOME. `problem` says why the last `read` found it unreadable."""

    def __init__(self, path: Path, form: type[Form], not_saved: str) -> None:
        """`not_saved`: key of the error message for a failed `change`."""
        self.path = path
        self.problem: Text | None = None
        self._form, self._not_saved = form, not_saved

    def read(self) -> Form:
        """The content; the default if it is missing or unreadable."""
        self.problem = None
        try:
            data = read_bounded(self.path, str(self.path))
            return self._form() if data is None else msgspec.json.decode(data, type=self._form)
        except ConfigError as error:
            self.problem = error.phrase
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self.problem = Text("config.corrupt_store", file=str(self.path), why=reason(error))
        return self._form()

    def change(self, change: Callable[[Form], Form]) -> None:
        """Read, modify and replace it under a lock. An unreadable file is renamed. Raises `ConfigError`."""
        try:
            with locked(self.path):
                after = change(self.read())
                if self.problem is not None:
                    set_aside(self.path)
                write_durably(self.path, msgspec.json.format(msgspec.json.encode(after)))
        except OSError as error:
            raise ConfigError(self._not_saved, file=str(self.path), why=reason(error)) from None
