"""What was typed before, across sessions, kept for one project and readable by its person alone."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
from prompt_toolkit.history import History

_KEPT = 1_000_000  # bytes from the end of the file that are read; older entries are forgotten
_LONGEST = 20_000  # characters of an entry worth keeping: more is data, not something to recall


class ProjectHistory(History):
    """One JSON text a line. A history that cannot be read or written is an empty one."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterator[str]:
        """Newest first."""
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _KEPT))
                lines = file.read(_KEPT).split(b"\n")
        except OSError:
            return
        last = None
        for line in reversed(lines):
            with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
                text = msgspec.json.decode(line, type=str)
                if text != last:
                    yield text
                last = text

    def store_string(self, string: str) -> None:
        if len(string) > _LONGEST:
            return
        line = msgspec.json.encode(string.encode("utf-8", "replace").decode("utf-8")) + b"\n"
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(fd, line)
            finally:
                os.close(fd)
