"""Persistent input history per project, readable by its owner only."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
from prompt_toolkit.history import History

from coder.base.files import make_private, write_all, write_atomically

KEPT_BYTES = 1_000_000  # kept when the file exceeds twice this size
LONGEST = 20_000  # characters; longer entries are not stored
_PRIVATE = 0o600


class _Entry(msgspec.Struct):
    text: str
    pastes: list[str]


class ProjectHistory(History):
    """One JSON string per line, or an object if something was pasted. I/O errors are ignored."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self.pastes: dict[str, list[str]] = {}  # by text: the parts that were pasted

    def append_string(self, string: str) -> None:
        """As with `HISTCONTROL=ignoreboth`: skip repetitions and text that starts with a space."""
        if not is_private(string) and self._loaded_strings[:1] != [string]:
            super().append_string(string)

    def remember(self, string: str) -> None:
        """Keep in memory only."""
        self._loaded_strings.insert(0, string)

    def load_history_strings(self) -> Iterator[str]:
        """Newest first."""
        try:
            data = _tail_of(self._path)
        except OSError:
            return
        last = None
        for line in reversed(data.split(b"\n")):
            with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
                entry = msgspec.json.decode(line, type=str | _Entry)
                text = entry if isinstance(entry, str) else entry.text
                if isinstance(entry, _Entry):
                    self.pastes.setdefault(text, entry.pastes)
                if text != last:
                    yield text
                last = text

    def store_string(self, string: str) -> None:
        if len(string) > LONGEST:
            return
        pastes = self.pastes.get(string)
        entry = _Entry(_valid(string), [_valid(paste) for paste in pastes]) if pastes else _valid(string)
        line = msgspec.json.encode(entry) + b"\n"
        with contextlib.suppress(OSError):
            make_private(self._path.parent)
            _append(self._path, line)


def _valid(text: str) -> str:
    """Without lone surrogates, which no file can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def is_private(text: str) -> bool:
    return text.startswith(" ")


def _tail_of(path: Path) -> bytes:
    """Complete lines from the end of the file."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - KEPT_BYTES))
        data = file.read(KEPT_BYTES)
    return data if size <= KEPT_BYTES else data.partition(b"\n")[2]


def _append(path: Path, line: bytes) -> None:
    """Append under an advisory lock, and truncate the file by atomic replace when it is too long."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _PRIVATE)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if not _same_inode(path, fd):  # another session replaced it while we waited for the lock
                continue
            os.fchmod(fd, _PRIVATE)  # the file may predate this rule
            size = os.fstat(fd).st_size
            torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
            write_all(fd, b"\n" * torn + line)
            if size > 2 * KEPT_BYTES:
                write_atomically(path, _tail_of(path), _PRIVATE)
            return
        finally:
            os.close(fd)


def _same_inode(path: Path, fd: int) -> bool:
    try:
        now = path.stat()
    except FileNotFoundError:
        return False
    opened = os.fstat(fd)
    return (now.st_dev, now.st_ino) == (opened.st_dev, opened.st_ino)
