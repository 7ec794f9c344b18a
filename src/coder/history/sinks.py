"""Where history events go: a JSONL file by default, XML for old readers."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from pathlib import Path
from typing import Any, Protocol

import msgspec

from coder.base.files import write_all
from coder.base.safe_open import open_file, parent_of, real_path
from coder.protocol.history import HistoryEvent
from coder.texts import CoderError, Text

_APPEND_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
_LOCK_SECONDS = 1.0


class HistorySink(Protocol):
    """Receives the events of a session in order. An optional `close()` is called at its end."""

    def append(self, event: HistoryEvent) -> None: ...

    def flush(self) -> None: ...


def close_sink(sink: HistorySink) -> None:
    """Close; flush where that is all there is."""
    close = getattr(sink, "close", sink.flush)
    close()


class JsonlHistorySink:
    """Appends one line per event. An advisory lock keeps a second process out while the file is open."""

    def __init__(self, path: Path, *, resolved: bool = False) -> None:
        """`resolved`: a directory of it that becomes a symlink is not followed."""
        self.path = path
        self._resolved = resolved
        self._fd = -1
        self._size = 0

    def open(self) -> None:
        """Open and lock the file; the first `append` does it too."""
        try:
            # Never through a symlink: its target would be appended to and its last line truncated.
            path = self.path
            if not self._resolved:
                path = Path(real_path(path.parent)) / path.name
            with parent_of(path, make=True, mode=0o700):
                self._fd = open_file(path, _APPEND_FLAGS, 0o600)
        except OSError as error:
            raise HistoryError("record.no_folder", directory=self.path.parent, why=error.strerror) from error
        try:
            _lock(self._fd)
        except BlockingIOError as error:
            self.close()
            raise HistoryError("record.in_use", id=self.path.stem) from error
        self._size = _drop_torn_tail(self._fd)

    def append(self, event: HistoryEvent) -> None:
        if self._fd < 0:
            self.open()
        line = encode(event) + b"\n"
        try:
            write_all(self._fd, line)
        except OSError as error:
            with contextlib.suppress(OSError):  # readers skip a torn line
                os.ftruncate(self._fd, self._size)
            why = Text("record.full") if error.errno == errno.ENOSPC else str(error.strerror)
            raise HistoryError("record.not_written", path=self.path, why=why) from error
        self._size += len(line)

    def flush(self) -> None:
        if self._fd >= 0:
            os.fsync(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _lock(descriptor: int) -> None:
    """Raise `BlockingIOError` where another process has the file open. A child of a session that was killed
    holds the lock as well, from its fork until its exec: that short while is waited for."""
    until = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise
            time.sleep(0.01)
        except OSError:  # a file system without locks
            return
        else:
            return


def _create_private(path: Path) -> int:
    """Open truncated and with mode 0600, whatever was there before."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor


def _drop_torn_tail(fd: int) -> int:
    """Truncate a last line torn by a kill. Returns the size."""
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
    """The legacy `history.xml`: one element per event, its `meta` as JSON."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _create_private(path)
        self._file = os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="\n")
        self._file.write('<?xml version="1.0" encoding="UTF-8"?>\n<history>\n')

    def append(self, event: HistoryEvent) -> None:
        attributes = {"type": event.type, "ts": event.ts, "session_id": event.session_id}
        attributes |= {"turn": str(event.turn), "step": str(event.step)}
        if event.role:
            attributes["role"] = event.role
        if tool := event.meta.get("tool"):
            attributes["tool"] = str(tool)
        if event.meta:
            attributes["meta"] = encode(event.meta).decode("utf-8")
        rendered = "".join(
            f' {name}="{_strip_control(value).translate(_IN_ATTRIBUTE)}"'
            for name, value in attributes.items()
        )
        self._write(f"  <event{rendered}>{_escape(event.content)}</event>\n")

    def _write(self, text: str) -> None:
        try:
            self._file.write(text)
        except OSError as error:
            raise HistoryError("record.no_history", path=self.path, why=error.strerror) from error

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        if not self._file.closed:
            try:
                self._write("</history>\n")
            finally:
                self._file.close()


def _escape(text: str) -> str:
    """Escape for XML 1.0; drops control characters, which it cannot represent."""
    return _strip_control(text).translate(_IN_TEXT)


def _strip_control(text: str) -> str:
    return "".join(c for c in text if c in "\t\n\r" or (c >= " " and c not in "\ufffe\uffff"))


_IN_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
_IN_ATTRIBUTE = {**_IN_TEXT, ord('"'): "&quot;", ord("\n"): "&#10;", ord("\t"): "&#9;"}


class HistoryError(CoderError):
    """The record could not be written or read."""


def encode(value: Any) -> bytes:
    """JSON; undecodable bytes (of a file name) are written as `\\xNN`."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_valid(msgspec.to_builtins(value)))


def _valid(value: Any) -> Any:
    if isinstance(value, str):
        return valid_text(value)
    if isinstance(value, list | tuple):
        return [_valid(v) for v in value]
    if isinstance(value, dict):
        return {_valid(k): _valid(v) for k, v in value.items()}
    return value


def valid_text(text: str) -> str:
    """`text` with lone surrogates escaped."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        pass
    else:
        return text
    try:
        return text.encode("utf-8", errors="surrogateescape").decode("utf-8", errors="backslashreplace")
    except UnicodeEncodeError:  # a surrogate that stands for no byte
        return text.encode("utf-8", errors="backslashreplace").decode("utf-8")
