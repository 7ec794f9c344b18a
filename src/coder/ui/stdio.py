"""JSON-RPC on stdin and stdout, one JSON text per line.

The protocol owns both streams: everything else prints to stderr. Output is queued, and coalesced for a slow
reader: streamed text is joined, and only the newest of a replaceable state is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol

import msgspec

from coder.base.process.own_process import STOP_OR_INTERRUPT, on_signals
from coder.base.rpc import INVALID_REQUEST, Json, LineSplitter, Method, Outbox, Peer, QueuedLine, notification

LONGEST_LINE = 32 << 20  # bytes of one message; more is thrown away unread
AUTH_REQUIRED = -32000  # the protocol's own codes of errors
NOT_FOUND = -32002
_READ = 1 << 18
_FULL = 8 << 20  # bytes that wait for the reader; above it no input is read
_LONGEST_CHUNK = 8_000  # characters: some clients read lines of at most 64 KiB
_STDERR = 2
_LONGEST_LOG = 1000  # characters
FLUSHING = 1.0  # seconds for the last answers to be written
_CANCELLED = 130


def take_over_streams() -> tuple[int, int]:
    """Our own descriptors of stdin and stdout. Others read an empty stdin from now on, and their stdout is
    stderr."""
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


async def lines(fd: int) -> AsyncIterator[bytes | None]:
    """Until the other side closes; None for one that is too long."""
    splitter = LineSplitter(LONGEST_LINE)
    while data := await _read(fd):
        for line in splitter.feed(data):
            yield line
    for line in splitter.finish():
        yield line


async def _read(fd: int) -> bytes:
    """The next bytes; empty at the end."""
    while True:
        await _readable(fd)
        try:
            return os.read(fd, _READ)
        except BlockingIOError:
            continue
        except OSError:  # the other side of a terminal or socket has closed
            return b""


async def _readable(fd: int) -> None:
    """Wait for input; regular files are always readable."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(fd, ready.set)
    except PermissionError:
        await asyncio.sleep(0)
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)


def encode_message(value: Any) -> bytes:
    """JSON, also of invalid Unicode."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        from coder.history.sinks import encode as encode_leniently

        return encode_leniently(value)


def encoded(method: str, params: Any) -> bytes:
    return encode_message(notification(method, params))


class _Chunk(QueuedLine):
    """Streamed text that may grow until it is written."""

    def __init__(self, text: str, made: Callable[[str], bytes]) -> None:
        super().__init__()
        self.open = True
        self._parts = [text]
        self._encode = made
        self.size = len(text)

    def add(self, text: str) -> None:
        self._parts.append(text)
        self.size += len(text)

    def made(self) -> bytes:
        self.open = False
        text, self._parts = "".join(self._parts), []
        return self._encode(text)


class _Latest(QueuedLine):
    """A message that a newer one may replace while it waits."""

    def __init__(self, data: bytes, forget: Callable[[], object]) -> None:
        super().__init__(data)
        self._forget = forget

    def made(self) -> bytes:
        self._forget()
        return self.data


class EditorOutbox(Outbox):
    """Messages for the editor; those of a session stay in order."""

    def __init__(self, fd: int, lost: Callable[[OSError], None]) -> None:
        super().__init__(fd, lost)
        self._chunks: dict[str, tuple[object, _Chunk]] = {}  # by session: the one that may still grow
        self._latest: dict[tuple[str, str], _Latest] = {}

    def put(self, data: bytes, session: str = "") -> None:
        self._chunks.pop(session, None)
        self.enqueue(QueuedLine(data))

    def put_text(self, session: str, key: object, text: str, made: Callable[[str], bytes]) -> None:
        """Streamed text: joined to waiting text with the same `key`, if nothing came in between."""
        if self.gone:
            return
        last_key, last = self._chunks.get(session, (None, None))
        if last is not None and last_key == key and last.open and last.size + len(text) <= _LONGEST_CHUNK:
            last.add(text)
            self.waiting += len(text)
            return
        for at in range(0, len(text), _LONGEST_CHUNK):
            chunk = _Chunk(text[at : at + _LONGEST_CHUNK], made)
            self._chunks[session] = (key, chunk)
            self.enqueue(chunk)

    def put_latest(self, session: str, key: str, data: bytes) -> None:
        """A state: replaces a waiting one with the same `key`."""
        if self.gone:
            return
        older = self._latest.get((session, key))
        if older is not None:
            self.waiting += len(data) - older.size
            older.data, older.size = data, len(data)
            return
        self._chunks.pop(session, None)
        self._latest[session, key] = latest = _Latest(data, lambda: self._latest.pop((session, key), None))
        self.enqueue(latest)

    async def room(self) -> None:
        """Until the reader has caught up."""
        await self.drained(_FULL)


class EditorPeer(Peer):
    """The client at the other end of the line."""

    def __init__(self, outbox: EditorOutbox, methods: Mapping[str, Method]) -> None:
        super().__init__(methods)
        self.outbox = outbox
        self.has_forms = False  # it can show `elicitation/create`

    def send(self, message: Json, session: str = "") -> None:
        self.outbox.put(encode_message(message), session)

    def repaired(self, line: bytes) -> bytes | None:
        """The message with lone surrogates (from editors that cut text by UTF-16) replaced, so that it can be
        answered; None if it is invalid otherwise."""
        if b"\\u" not in line:
            return None
        import json

        try:
            fixed = encode_message(json.loads(line))
            msgspec.json.decode(fixed, type=msgspec.Raw)
        except (ValueError, OverflowError, RecursionError):
            return None
        return fixed if fixed != line else None

    def log(self, text: str) -> None:
        log(text)

    def withdraw(self, number: int, session: str) -> None:
        self.tell("$/cancel_request", {"requestId": number}, session)

    async def read_messages(self, fd: int) -> None:
        """Read input to its end, as fast as answers are read."""
        async for line in lines(fd):
            if line is None:
                self.refuse(None, INVALID_REQUEST, f"the message is longer than {LONGEST_LINE >> 20} MiB")
            else:
                self.take(line)
            await self.outbox.room()


def log(text: str) -> None:
    """Write to the editor's log; dropped if nobody reads it, since all sessions would wait."""
    line = f"coder acp: {text[:_LONGEST_LOG]}\n".encode("ascii", "backslashreplace")
    with contextlib.suppress(OSError):
        if select.select([], [_STDERR], [], 0)[1]:
            os.write(_STDERR, line[: select.PIPE_BUF])


def log_loss(error: OSError) -> None:
    if error.errno not in (errno.EPIPE, errno.ECONNRESET, errno.EBADF):
        log(f"cannot write: {error.strerror}")


class StdioServer(Protocol):
    """A protocol's server."""

    peer: EditorPeer

    async def close(self) -> None:
        """End what runs, after the last input."""


async def serve_on_stdio(server_on: Callable[[EditorOutbox], StdioServer]) -> int:
    """Serve until EOF, a signal or the loss of the reader; returns the exit status."""
    over = asyncio.Event()
    signals: list[int] = []

    def stopped(number: int) -> None:
        signals.append(number)
        over.set()

    on_signals(stopped, STOP_OR_INTERRUPT)
    given, taken = take_over_streams()

    def lost(error: OSError) -> None:
        log_loss(error)
        over.set()

    os.set_blocking(taken, False)
    outbox = EditorOutbox(taken, lost)
    server = server_on(outbox)
    reading = asyncio.create_task(server.peer.read_messages(given))
    reading.add_done_callback(lambda _: over.set())
    await over.wait()
    reading.cancel()
    await server.close()
    await asyncio.wait([asyncio.create_task(outbox.empty())], timeout=FLUSHING)
    outbox.close()
    with contextlib.suppress(OSError):
        os.set_blocking(taken, True)  # the stream is handed back as it was
        os.close(taken)
    return _CANCELLED if signals else 0
