"""Streaming parser for server-sent events: bytes in, the data of each event out.

Parses all complete lines of a chunk at once. The events do not depend on how the bytes are chunked.
"""

from __future__ import annotations

from coder.texts import CoderError

_BOM = b"\xef\xbb\xbf"
_LONGEST_ID = 1_024  # bytes: it is sent back in a header


class LineTooLong(CoderError):
    """A line, or the data of an event, exceeds the limit."""


class SseParser:
    """`feed` bytes, then `finish` once."""

    def __init__(self, limit: int = 32 * 1024 * 1024) -> None:
        self._limit = limit
        self._partial: list[bytes] = []  # pieces of the unfinished line
        self._partial_size = 0
        self._after_cr = False
        self._first = True
        self._data: list[bytes] = []
        self._data_size = 0
        self._id: bytes | None = None
        self.last_id = ""  # of the last complete event that had one
        self.retry_ms: int | None = None  # when to reconnect, as the server says

    def feed(self, data: bytes) -> list[str]:
        if self._after_cr and data:
            self._after_cr = False
            if data[:1] == b"\n":
                data = data[1:]
        if not data:
            return []
        end = max(data.rfind(b"\n"), data.rfind(b"\r"))
        if end < 0:
            self._buffer_partial(data)
            return []
        self._after_cr = data[-1:] == b"\r"
        head, tail = data[: end + 1], data[end + 1 :]
        if self._partial:
            head = b"".join([*self._partial, head])
            self._partial, self._partial_size = [], 0
        if tail:
            self._buffer_partial(tail)
        return self._lines(head)

    def finish(self) -> list[str]:
        """The last event, if its closing blank line is missing; servers often omit it."""
        last = b"".join(self._partial)
        self._partial, self._partial_size = [], 0
        return self._lines(last + b"\n\n")

    def _buffer_partial(self, piece: bytes) -> None:
        self._partial_size += len(piece)
        if self._partial_size > self._limit:
            raise LineTooLong("fault.line_long", limit=self._limit)
        self._partial.append(piece)

    def _lines(self, text: bytes) -> list[str]:
        if self._first:
            self._first = False
            text = text.removeprefix(_BOM)
        events: list[str] = []
        for line in text.splitlines():  # of bytes: breaks at CR, LF and CRLF only
            if line.startswith(b"data:"):
                self._add(line[6:] if line[5:6] == b" " else line[5:])
            elif not line:
                if self._data:
                    events.append(b"\n".join(self._data).decode("utf-8", "replace"))
                    self._data, self._data_size = [], 0
                if self._id is not None:
                    self.last_id, self._id = self._id.decode("utf-8", "replace"), None
            elif line == b"data":
                self._add(b"")
            elif line.startswith((b"id:", b"retry:")):
                self._field(line)
        return events

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"id" and b"\0" not in value and len(value) <= _LONGEST_ID:
            self._id = value
        elif name == b"retry" and value.isdigit() and len(value) < 9:
            self.retry_ms = int(value)

    def _add(self, value: bytes) -> None:
        self._data_size += len(value)
        if self._data_size > self._limit:
            raise LineTooLong("fault.event_long", limit=self._limit)
        self._data.append(value)
