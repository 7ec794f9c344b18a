"""What was typed before, across sessions, kept for one project and readable by its person alone."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
from prompt_toolkit.history import History

from coder.fs.atomic import write_all, write_atomically

KEPT_BYTES = 1_000_000  # of a file that has grown past twice as much; older entries are forgotten
LONGEST = 20_000  # characters of an entry worth keeping: more is data, not something to recall
_PRIVATE = 0o600


class ProjectHistory(History):
    """One JSON text a line. A history that cannot be read or written is an empty one."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def append_string(self, string: str) -> None:
        """Kept once where it is said twice in a row, and not at all where it begins with a space: as in a
        shell, that is how a person says that a line is nobody's business."""
        if not is_private(string) and self._loaded_strings[:1] != [string]:
            super().append_string(string)

    def remember(self, string: str) -> None:
        """For this session alone."""
        self._loaded_strings.insert(0, string)

    def load_history_strings(self) -> Iterator[str]:
        """Newest first."""
        try:
            data = _end_of(self._path)
        except OSError:
            return
        last = None
        for line in reversed(data.split(b"\n")):
            with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
                text = msgspec.json.decode(line, type=str)
                if text != last:
                    yield text
                last = text

    def store_string(self, string: str) -> None:
        if len(string) > LONGEST:
            return
        line = msgspec.json.encode(string.encode("utf-8", "replace").decode("utf-8")) + b"\n"
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _append(self._path, line)


def is_private(text: str) -> bool:
    return text.startswith(" ")


def _end_of(path: Path) -> bytes:
    """Whole lines from the end of the file."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - KEPT_BYTES))
        data = file.read(KEPT_BYTES)
    return data if size <= KEPT_BYTES else data.partition(b"\n")[2]


def _append(path: Path, line: bytes) -> None:
    """Add a line whole, whoever else is writing, and cut the file where it has grown too long."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _PRIVATE)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if not _is_still(path, fd):  # another session has cut it while we waited
                continue
            os.fchmod(fd, _PRIVATE)  # it may come from a backup, or from a careless umask
            size = os.fstat(fd).st_size
            torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
            write_all(fd, b"\n" * torn + line)
            if size > 2 * KEPT_BYTES:
                write_atomically(path, _end_of(path), _PRIVATE)
            return
        finally:
            os.close(fd)


def _is_still(path: Path, fd: int) -> bool:
    try:
        now = path.stat()
    except FileNotFoundError:
        return False
    held = os.fstat(fd)
    return (now.st_dev, now.st_ino) == (held.st_dev, held.st_ino)
