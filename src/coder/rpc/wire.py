"""Lines in and out of file descriptors: split within a size limit, and queued with back-pressure.

The loop watches the descriptors, so that a reader that is slow makes only those wait who wait for it.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable

_WRITE = 1 << 16  # bytes in one write


class LineSplitter:
    """Bytes in, lines out. A line past the limit is thrown away, and its place taken by `None`."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._held: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes | None]:
        *complete, rest = data.split(b"\n")
        lines = [self._line(piece) for piece in complete]
        self._hold(rest)
        return lines

    def finish(self) -> list[bytes | None]:
        """A last line without its end is a line as well."""
        return [self._line(b"")] if self._size else []

    def _line(self, last: bytes) -> bytes | None:
        self._hold(last)
        line = None if self._size > self.limit else b"".join(self._held)
        self._held, self._size = [], 0
        return line

    def _hold(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self.limit:
            self._held = []
        elif piece:
            self._held.append(piece)


class Line:
    """A queued line. `done` is called when it was written or dropped; a line with `done` is awaited by its
    sender, so that it is not counted for back-pressure. Subclasses may encode theirs lazily."""

    def __init__(self, data: bytes = b"", done: Callable[[], object] | None = None) -> None:
        self.data = data
        self.size = 0 if done else len(data)
        self.done = done
        self.begun = False  # some of it is written

    def made(self) -> bytes:
        return self.data


class Outbox:
    """Lines waiting to be written, in order. A line that was begun is finished, whatever becomes of its
    sender. `lost` is called once, with the reason, where nobody reads any more."""

    def __init__(self, fd: int, lost: Callable[[OSError], None]) -> None:
        self.gone = False
        self.written = 0
        self.waiting = 0  # bytes that nobody waits for
        self._fd = fd  # does not block
        self._lost = lost
        self._queue: deque[Line] = deque()
        self._rest: memoryview | None = None  # of the first
        self._due = False
        self._watching = False
        self._moved = asyncio.Event()

    def enqueue(self, line: Line) -> None:
        """Written once the loop comes round: until then more may join it."""
        self._queue.append(line)
        self.waiting += line.size
        if self.gone:
            self.close()
        elif not self._due and not self._watching:
            self._due = True
            asyncio.get_running_loop().call_soon(self.pump)

    def post(self, data: bytes, limit: int) -> None:
        """A line that is dropped where more than this is left unread."""
        if self.waiting < limit:
            self.enqueue(Line(data))

    def take_back(self, line: Line) -> bool:
        """Whether the other side will never see it."""
        if line.begun or line not in self._queue:
            return False
        if line is self._queue[0]:
            self._rest = None
        self._queue.remove(line)
        self.waiting -= line.size
        return True

    async def drained(self, limit: int) -> None:
        """Back-pressure: until no more than this waits."""
        while self.waiting > limit:
            self._moved.clear()
            await self._moved.wait()

    async def empty(self) -> None:
        while self._queue:
            self._moved.clear()
            await self._moved.wait()

    def close(self) -> None:
        """Nothing more is written; whoever waits is let go."""
        self._watch(False)
        self.gone = True
        while self._queue:
            self._pop()

    def pump(self) -> None:
        """Write what the other side takes without being waited for."""
        self._due = False
        while self._queue:
            line = self._queue[0]
            if self._rest is None:
                self._rest = memoryview(line.made() + b"\n")
            try:
                written = os.write(self._fd, self._rest[:_WRITE])
            except BlockingIOError:
                self._watch(True)
                return
            except OSError as error:
                self.close()
                self._lost(error)
                return
            line.begun = True
            self.written += written
            self._rest = self._rest[written:]
            if not self._rest:
                self._pop()
        self._watch(False)

    def _pop(self) -> None:
        line = self._queue.popleft()
        self._rest = None
        self.waiting -= line.size
        self._moved.set()
        if line.done is not None:
            line.done()

    def _watch(self, wanted: bool) -> None:
        if wanted and not self._watching:
            asyncio.get_running_loop().add_writer(self._fd, self.pump)
        elif self._watching and not wanted:
            asyncio.get_running_loop().remove_writer(self._fd)
        self._watching = wanted
