"""Where history events go: a JSONL file by default, XML for old readers."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Protocol

from coder.fs.atomic import write_all
from coder.protocol.history import HistoryEvent
from coder.record.files import RecordError, encode
from coder.texts import Phrase

_APPENDING = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class HistorySink(Protocol):
    """Takes the events of a session, in order. Any number may be plugged in."""

    def append(self, event: HistoryEvent) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class JsonlHistorySink:
    """One event a line, each line written whole and at once: appending costs the event, not the session.

    The file is locked while open, so that two processes cannot weave one session together.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1
        self._size = 0

    def open(self) -> None:
        """Take hold of the file; done by the first `append` where no one did it before."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # A link in its place is somebody else's file: it would be appended to, and its last line cut off.
            self._fd = os.open(self.path, _APPENDING | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise RecordError("record.no_folder", folder=self.path.parent, why=error.strerror) from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.close()
            raise RecordError("record.in_use", id=self.path.stem) from error
        self._size = _mend_tail(self._fd)

    def append(self, event: HistoryEvent) -> None:
        if self._fd < 0:
            self.open()
        line = encode(event) + b"\n"
        try:
            write_all(self._fd, line)
        except OSError as error:
            self._take_back()
            why = Phrase("record.full") if error.errno == errno.ENOSPC else str(error.strerror)
            raise RecordError("record.not_written", path=self.path, why=why) from error
        self._size += len(line)

    def _take_back(self) -> None:
        """A line that was written in part goes again, so that the next one starts on its own."""
        try:
            os.ftruncate(self._fd, self._size)
        except OSError:
            return  # the reader drops a torn line as well

    def flush(self) -> None:
        if self._fd >= 0:
            os.fsync(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _opened_anew(path: Path) -> int:
    """Empty, and readable by the person alone, whatever was there before."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor


def _mend_tail(fd: int) -> int:
    """Make the file end after a whole line: a last line torn by a kill is dropped. Returns the size."""
    size = os.fstat(fd).st_size
    end = size
    while end > 0:
        start = max(0, end - 65536)
        block = os.pread(fd, end - start, start)
        at = block.rfind(b"\n")
        if at >= 0:
            end = start + at + 1
            break
        end = start
    if end != size:
        os.ftruncate(fd, end)
    return end


class LegacyXmlSink:
    """The old `history.xml`: one element an event, its `meta` as JSON; the root is closed at the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _opened_anew(path)
        self._file = os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="\n")
        self._file.write('<?xml version="1.0" encoding="UTF-8"?>\n<history>\n')

    def append(self, event: HistoryEvent) -> None:
        named = {"type": event.type, "ts": event.ts, "session_id": event.session_id}
        named |= {"turn": str(event.turn), "step": str(event.step)}
        if event.role:
            named["role"] = event.role
        if tool := event.meta.get("tool"):
            named["tool"] = str(tool)
        if event.meta:
            named["meta"] = encode(event.meta).decode("utf-8")
        attributes = "".join(f" {name}={_quoted(value)}" for name, value in named.items())
        self._write(f"  <event{attributes}>{_escape(event.content)}</event>\n")

    def _write(self, text: str) -> None:
        try:
            self._file.write(text)
        except OSError as error:
            raise RecordError("record.no_history", path=self.path, why=error.strerror) from error

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        if not self._file.closed:
            try:
                self._write("</history>\n")
            finally:
                self._file.close()


def _escape(text: str) -> str:
    """XML 1.0 has no way to write most control characters, so they are left out; a carriage return is written
    as a reference, which readers do not fold into a line end."""
    return _written(text).translate(_IN_TEXT)


def _quoted(text: str) -> str:
    return f'"{_written(text).translate(_IN_ATTRIBUTE)}"'


def _written(text: str) -> str:
    return "".join(c for c in text if c in "\t\n\r" or (c >= " " and c not in "\ufffe\uffff"))


_IN_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
_IN_ATTRIBUTE = {**_IN_TEXT, ord('"'): "&quot;", ord("\n"): "&#10;", ord("\t"): "&#9;"}
