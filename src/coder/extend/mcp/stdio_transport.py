"""The stdio transport: a server as a child process, one JSON message a line on its stdin and stdout.

The end of its stderr is kept to explain why it exited, and never shown unasked. The event loop watches the
pipes; a server that does not read blocks only its own callers.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import signal
import sys
import termios
from collections.abc import Callable

from coder.base.process.child import STDOUT, Child, shell_status
from coder.base.process.programs import Runs
from coder.base.rpc import LineSplitter, Outbox, QueuedLine, notification
from coder.extend.mcp import jsonrpc
from coder.extend.mcp.jsonrpc import Listener, Progress, Waiting
from coder.extend.mcp.shapes import Json, McpError, StdioEndpoint, error_line
from coder.texts import Text

_STDERR_KEPT = 16_384  # bytes; enough for a traceback
_UNASKED = 1 << 20  # bytes of replies and notifications that a server may leave unread
_LAST_WORDS = 0.2  # seconds for what a server that has ended still has in its pipes
_LEAVE = 1.0  # seconds for a server to go by itself once its input has ended
_TERM = 0.5  # and after SIGTERM


class StdioTransport:
    """One server process. When it ends, every request that waits fails with the reason."""

    repeats = False

    def __init__(
        self, name: str, endpoint: StdioEndpoint, listener: Listener, on_closed: Callable[[Text], None]
    ) -> None:
        """Starts it; raises `McpError` where that cannot be done."""
        self.skipped = 0  # lines that were no messages: banners, logs
        self._name = name
        self._listener = listener
        self._on_closed = on_closed
        self._lines = LineSplitter(jsonrpc.MAX_MESSAGE)
        self._waiting = Waiting()
        self._stderr = bytearray()
        self._banner = b""
        self._over = asyncio.Event()
        self.fault: McpError | None = None
        self._closing = False
        self._never_read = False
        try:
            self._child = Child(
                endpoint.argv,
                runs=Runs.IN_SANDBOX,
                cwd=endpoint.cwd,
                environment=endpoint.environment,
                sink=self._printed,
                with_stdin=True,
            )
        except (OSError, ValueError) as exc:
            raise _start_fault(name, endpoint, exc) from None
        self._outbox = Outbox(self._child.stdin, lambda _: self._over.set())
        self._watch = asyncio.create_task(self._watch_end())

    # what is asked of it

    async def request(
        self,
        method: str,
        params: Json,
        *,
        headers: dict[str, str] | None = None,
        on_progress: Progress | None = None,
        courtesy: bool = True,
    ) -> Json:
        if self.fault is not None:
            raise McpError(self.fault.phrase)

        def cancelled(note: Json) -> None:
            if not self._outbox.take_back(line) and courtesy:
                self._post(note)

        with self._waiting.asking(method, params, on_progress, cancelled) as (message, answer):
            written = asyncio.Event()
            line = QueuedLine(jsonrpc.encode_message(message), written.set)
            self._outbox.enqueue(line)
            await written.wait()
            return jsonrpc.result_of(self._name, await answer)

    async def notify(self, method: str, params: Json | None = None) -> None:
        self._post(notification(method, params))

    def settle(self, version: str, *, modern: bool) -> None:
        """Nothing to remember: on this wire the version is in the messages."""

    def unread(self) -> bool:
        if self._child.stdin < 0:
            return self._never_read

        try:
            waiting = fcntl.ioctl(self._child.stdin, termios.FIONREAD, bytes(4))
        except OSError:
            return False
        return self._outbox.written <= int.from_bytes(waiting, sys.byteorder)

    def stderr_tail(self) -> str:
        return bytes(self._stderr[-_STDERR_KEPT:]).decode("utf-8", "replace")

    @property
    def pid(self) -> int:
        return self._child.pid

    async def close(self, leave: float = _LEAVE) -> None:
        """End its input, give it a moment to go, then end it and whatever it started."""
        self._closing = True
        self._outbox.pump()  # a cancellation may be among what was said last
        self._outbox.close()
        if not self._watch.done():
            self._child.close_stdin()
            for patience, number in ((leave, signal.SIGTERM), (_TERM, signal.SIGKILL)):
                if await _within(self._child.exited, patience):
                    break
                self._child.signal_group(number)
        self._over.set()
        await asyncio.shield(self._watch)

    # what it does

    def _post(self, message: Json) -> None:
        self._outbox.post(jsonrpc.encode_message(message), _UNASKED)

    def _printed(self, stream: int, data: bytes) -> None:
        if stream != STDOUT:
            self._stderr += data
            if len(self._stderr) > 4 * _STDERR_KEPT:  # trimmed in large bites
                del self._stderr[:-_STDERR_KEPT]
        elif not data:
            self._over.set()
        else:
            for line in self._lines.feed(data):
                self._line(line)

    def _line(self, line: bytes | None) -> None:
        if line is None:
            self._waiting.end(
                McpError("mcp.long_message", name=self._name, limit=jsonrpc.MAX_MESSAGE // (1024 * 1024))
            )
            return
        if not line.strip():
            return
        messages = jsonrpc.decode(line)
        if not messages:
            self.skipped += 1
            self._banner = line[:1000]
        for message in messages:
            reply = jsonrpc.hear(message, self._waiting, self._listener)
            if reply is not None:
                self._post(reply)

    async def _watch_end(self) -> None:
        """Until the server ends, ends its output, or stops taking input; then nothing of it is left."""
        exited = asyncio.ensure_future(self._child.exited.wait())
        over = asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait({exited, over}, return_when=asyncio.FIRST_COMPLETED)
            if await _within(self._child.exited, _LAST_WORDS):
                await _within(self._child.drained, _LAST_WORDS)
        finally:
            exited.cancel()
            over.cancel()
            by_itself = self._child.exited.is_set()
            self._never_read = self.unread()
            self._outbox.close()
            status = self._child.end()
            self._over.set()
            self._ended(status if by_itself else None)

    def _ended(self, status: int | None) -> None:
        if self._closing:
            self.fault = McpError("mcp.closed", name=self._name)
        else:
            self.fault = _death(self._name, status, self._last_words())
        self._waiting.end(self.fault)
        if not self._closing:
            self._on_closed(self.fault.phrase)

    def _last_words(self) -> str:
        """What it said of its end; a program that is no server at all says it on stdout."""
        return error_line(self.stderr_tail()) or error_line(self._banner.decode("utf-8", "replace"))


async def _within(event: asyncio.Event, seconds: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


def _death(name: str, status: int | None, words: str) -> McpError:
    said = Text("mcp.said", words=words) if words else Text("mcp.said_nothing")
    if status is None:
        return McpError("mcp.hung_up", name=name, said=said)
    return McpError("mcp.died", name=name, status=shell_status(status), said=said)


def _start_fault(name: str, endpoint: StdioEndpoint, exc: Exception) -> McpError:
    program = endpoint.argv[0] if endpoint.argv else ""
    if isinstance(exc, FileNotFoundError) and endpoint.cwd.is_dir():
        return McpError("mcp.no_program", name=name, program=program)
    why = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
    return McpError("mcp.no_start", name=name, program=program, why=why)
