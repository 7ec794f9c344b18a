"""Standard input and output as a line of messages: one JSON text a line, both ways.

The protocol has the two streams for itself: whoever else prints in this process, or in a child, prints to
stderr. What goes out waits in an `Outbox`, which a reader that is slow makes no longer than it must be: text
that streams is put together, and of what replaces itself only the newest is kept.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable

LONGEST_LINE = 32 << 20  # bytes of one message; more is thrown away unread
_READ = 1 << 18
_WRITE = 1 << 16
_FULL = 8 << 20  # bytes that wait for the reader: nothing more is taken in until they have gone down
_LONGEST_CHUNK = 8_000  # characters: some clients read lines of at most 64 KiB


class TooLong(Exception):
    """A line came that is longer than a message may be."""


def take_over() -> tuple[int, int]:
    """Our own ends of stdin and stdout. What anyone else reads from stdin is empty from here on, and what
    they write to stdout goes to stderr."""
    try:
        os.fstat(2)
    except OSError:  # closed: the next thing opened, the line itself, would be it
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    given, taken = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return given, taken


async def lines(fd: int) -> AsyncIterator[bytes | TooLong]:
    """Until the other side closes. A last line without its end is a message as well."""
    parts: list[bytes] = []
    size = 0
    async for data in _pieces(fd):
        *whole, rest = data.split(b"\n")
        for piece in whole:
            yield _line(parts, size, piece)
            parts, size = [], 0
        size += len(rest)
        if size <= LONGEST_LINE:
            parts.append(rest)
        else:
            parts.clear()
    if size:
        yield _line(parts, size, b"")


def _line(parts: list[bytes], size: int, piece: bytes) -> bytes | TooLong:
    if size + len(piece) > LONGEST_LINE:
        return TooLong()
    return b"".join([*parts, piece])


async def _pieces(fd: int) -> AsyncIterator[bytes]:
    while True:
        await _ready(fd, asyncio.get_running_loop().add_reader, asyncio.get_running_loop().remove_reader)
        try:
            data = os.read(fd, _READ)
        except BlockingIOError:
            continue
        except OSError:  # a terminal or a socket whose other side is gone
            return
        if not data:
            return
        yield data


async def _ready(fd: int, add: Callable[..., None], remove: Callable[[int], bool]) -> None:
    """Wait for it; a regular file need not be waited for, and cannot be."""
    loop_has_it = asyncio.Event()
    try:
        add(fd, loop_has_it.set)
    except PermissionError:
        await asyncio.sleep(0)
        return
    try:
        await loop_has_it.wait()
    finally:
        remove(fd)


class _Chunk:
    """A piece of streamed text that may still grow."""

    def __init__(self, text: str, encode: Callable[[str], bytes]) -> None:
        self.parts = [text]
        self.size = len(text)
        self.encode = encode


class _Latest:
    """Something that a newer one replaces while it waits."""

    def __init__(self, data: bytes) -> None:
        self.data = data


class Outbox:
    """What waits to be written, in order. `lost` is called once where nobody reads any more."""

    def __init__(self, fd: int, lost: Callable[[], None]) -> None:
        self._fd = fd
        self._lost = lost
        self._waiting: deque[bytes | _Chunk | _Latest] = deque()
        self._chunks: dict[str, tuple[object, _Chunk]] = {}  # by session: the one that may still grow
        self._latest: dict[tuple[str, str], _Latest] = {}
        self._bytes = 0  # about what waits
        self._more = asyncio.Event()
        self._moved = asyncio.Event()
        self._writing = False
        self.gone = False

    def put(self, data: bytes, session: str = "") -> None:
        """A message, without its end of line. It comes after all that was said in its session before."""
        if self.gone:
            return
        self._chunks.pop(session, None)
        self._wait(data, len(data))

    def put_text(self, session: str, key: object, text: str, encode: Callable[[str], bytes]) -> None:
        """Text that streams: joins what waits under the same `key`, if nothing came in between."""
        if self.gone:
            return
        last = self._chunks.get(session)
        if last is not None and last[0] == key and last[1].size + len(text) <= _LONGEST_CHUNK:
            last[1].parts.append(text)
            last[1].size += len(text)
            self._bytes += len(text)
            return
        for at in range(0, len(text), _LONGEST_CHUNK):
            chunk = _Chunk(text[at : at + _LONGEST_CHUNK], encode)
            self._chunks[session] = (key, chunk)
            self._wait(chunk, chunk.size)

    def put_latest(self, session: str, key: str, data: bytes) -> None:
        """A state: where an older one under the same `key` still waits, this takes its place."""
        if self.gone:
            return
        waiting = self._latest.get((session, key))
        if waiting is not None:
            self._bytes += len(data) - len(waiting.data)
            waiting.data = data
            return
        self._chunks.pop(session, None)
        self._latest[(session, key)] = latest = _Latest(data)
        self._wait(latest, len(data))

    def _wait(self, item: bytes | _Chunk | _Latest, size: int) -> None:
        self._waiting.append(item)
        self._bytes += size
        self._more.set()

    async def room(self) -> None:
        """Until the reader has caught up."""
        while self._bytes > _FULL and not self.gone:
            self._moved.clear()
            await self._moved.wait()

    async def empty(self) -> None:
        """Until all of it is written."""
        while (self._waiting or self._writing) and not self.gone:
            self._moved.clear()
            await self._moved.wait()

    async def run(self) -> None:
        """Write until cancelled, or until nobody reads."""
        os.set_blocking(self._fd, False)
        try:
            while not self.gone:
                await self._more.wait()
                self._writing = True
                await self._write(self._batch())
                self._writing = False
                self._moved.set()
        except OSError as error:
            self._give_up()
            if error.errno not in (errno.EPIPE, errno.ECONNRESET, errno.EBADF):
                print(f"coder acp: cannot write: {error.strerror}", file=sys.stderr)

    def _give_up(self) -> None:
        self.gone = True
        self._waiting.clear()
        self._chunks.clear()
        self._latest.clear()
        self._bytes = 0
        self._moved.set()
        self._lost()

    def _batch(self) -> bytes:
        """As much as goes into one write, from the front."""
        out: list[bytes] = []
        size = 0
        while self._waiting and size < _WRITE:
            data = self._encoded(self._waiting.popleft())
            out.append(data)
            size += len(data) + 1
        if not self._waiting:
            self._more.clear()
            self._bytes = 0
        out.append(b"")
        return b"\n".join(out)

    def _encoded(self, item: bytes | _Chunk | _Latest) -> bytes:
        if isinstance(item, _Chunk):
            self._chunks = {s: kept for s, kept in self._chunks.items() if kept[1] is not item}
            self._bytes -= item.size
            return item.encode("".join(item.parts))
        if isinstance(item, _Latest):
            self._latest = {k: kept for k, kept in self._latest.items() if kept is not item}
            item = item.data
        self._bytes -= len(item)
        return item

    async def _write(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._fd, view) :]
            except BlockingIOError:
                await _ready(self._fd, loop.add_writer, loop.remove_writer)

    def close(self) -> None:
        """The stream is handed back as it was."""
        try:
            os.set_blocking(self._fd, True)
            os.close(self._fd)
        except OSError:
            return
