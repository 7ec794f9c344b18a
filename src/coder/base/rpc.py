"""JSON-RPC 2.0 between two peers: messages, requests awaiting their responses, handlers for methods.

An invalid message is answered with an error and does not end the connection. The part of a handler before its
first `await` runs in the order in which messages arrive.
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from coder.texts import Text

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL = -32603
CANCELLED = -32800

Id = int | str | float | None
Json = dict[str, Any]
T = TypeVar("T")

request_id: ContextVar[Id] = ContextVar("request_id", default=None)  # of the request that a handler serves


class RpcError(Exception):
    """An error response, ours or theirs."""

    def __init__(self, code: int, message: str | Text, data: Any = None) -> None:
        super().__init__(str(message))
        self.code = code
        self.message = message
        self.data = data


class Gone(Exception):
    """The peer is gone and will not answer."""


# messages


def request(number: int, method: str, params: Any) -> Json:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def notification(method: str, params: Any = None) -> Json:
    message: Json = {"jsonrpc": "2.0", "method": method}
    return message if params is None else {**message, "params": params}


def result(number: object, value: Any) -> Json:
    return {"jsonrpc": "2.0", "id": number, "result": value}


def error(number: object, code: int, message: str, data: Any = None) -> Json:
    body: Json = {"code": code, "message": message}
    return {"jsonrpc": "2.0", "id": number, "error": body if data is None else {**body, "data": data}}


class Pending(Generic[T]):
    """Outstanding requests and their futures."""

    def __init__(self) -> None:
        self._last = 0
        self._answers: dict[int, asyncio.Future[T]] = {}

    def open(self) -> tuple[int, asyncio.Future[T]]:
        self._last += 1
        answer = self._answers[self._last] = asyncio.get_running_loop().create_future()
        return self._last, answer

    def close(self, number: int) -> None:
        answer = self._answers.pop(number, None)
        if answer is not None and not answer.cancel() and not answer.cancelled():
            answer.exception()  # looked at, so that asyncio does not report an unretrieved error

    def answer(self, number: int | None, value: T | BaseException) -> None:
        """Resolve the request's future, if it still exists."""
        waiting = self._answers.get(number) if number is not None else None
        if waiting is None or waiting.done():
            return
        if isinstance(value, BaseException):
            waiting.set_exception(value)
        else:
            waiting.set_result(value)

    def fail(self, error: Callable[[], BaseException]) -> None:
        """Fail all outstanding requests."""
        for number in self._answers:
            self.answer(number, error())


class ResultThen(msgspec.Struct, frozen=True):
    """A result, and what to do once it was sent."""

    result: Any
    then: Callable[[], None]


class Method(msgspec.Struct, frozen=True):
    """A method's parameter type and its handler."""

    params: Any
    run: Callable[[Any], Awaitable[Any]]


class _Incoming(msgspec.Struct):
    """Any of the three kinds of message."""

    id: Id | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Any = UNSET
    jsonrpc: str = "2.0"


class _OnlyId(msgspec.Struct):
    id: Id = None


class Peer(ABC):
    """A strict JSON-RPC peer. Subclasses send."""

    def __init__(self, methods: Mapping[str, Method]) -> None:
        self._methods = methods
        self._pending: Pending[Raw] = Pending()
        self._running: dict[asyncio.Task[None], str] = {}
        self._by_id: dict[Id, asyncio.Task[None]] = {}
        self._decoder = msgspec.json.Decoder(_Incoming)

    # for subclasses

    @abstractmethod
    def send(self, message: Json, session: str = "") -> None:
        """Queue a message, in order within its session."""

    def repaired(self, line: bytes) -> bytes | None:
        """Repair malformed JSON; None if that fails."""
        return None

    def log(self, text: str) -> None:  # noqa: B027 (optional)
        """Log an error that answers no request."""

    def withdraw(self, number: int, session: str) -> None:  # noqa: B027 (optional)
        """Tell the peer that our request was cancelled."""

    # what comes in

    def take(self, line: bytes) -> None:
        """Handle one line."""
        if not line.strip():
            return
        try:
            message = self._decoder.decode(line)
        except msgspec.ValidationError as wrong:
            self.refuse(_id_of(line), INVALID_REQUEST, f"not a JSON-RPC message: {wrong}")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
            repaired = self.repaired(line)
            if repaired is None:
                self.refuse(None, PARSE_ERROR, f"not JSON: {wrong}")
            else:
                self.take(repaired)
        else:
            self._dispatch(message)

    def refuse(self, number: Id, code: int, message: str, data: Any = None) -> None:
        self.send(error(number, code, message, data))

    def _dispatch(self, message: _Incoming) -> None:
        number = None if isinstance(message.id, UnsetType) else message.id
        if message.jsonrpc != "2.0":
            self.refuse(number, INVALID_REQUEST, "jsonrpc is not 2.0")
        elif isinstance(message.method, str):
            self._called(message.method, message)
        elif message.id is UNSET or (message.error is UNSET and message.result is UNSET):
            self.refuse(number, INVALID_REQUEST, "neither a method nor an answer")
        elif isinstance(number, int):
            self._pending.answer(number, _outcome(message))

    def _called(self, name: str, message: _Incoming) -> None:
        try:
            work = self._begun(name, message.params)
        except RpcError as wrong:
            self._fail(message.id, name, wrong)
            return
        number = None if isinstance(message.id, UnsetType) else message.id
        before = request_id.set(number)  # the task has a copy
        task = asyncio.get_running_loop().create_task(self._finish(work, message.id, name))
        request_id.reset(before)
        self._running[task] = name
        task.add_done_callback(self._running.pop)
        if number is not None:
            self._by_id[number] = task
            task.add_done_callback(lambda _done: self._by_id.pop(number, None))

    def cancel(self, number: Id) -> None:
        """Cancel a running request, which is then answered with an error."""
        task = self._by_id.get(number)
        if task is not None:
            task.cancel()

    def cancel_all(self) -> None:
        for task in self._running:
            task.cancel()

    def _begun(self, name: str, params: Raw | UnsetType) -> Awaitable[Any]:
        method = self._methods.get(name)
        if method is None:
            raise RpcError(METHOD_NOT_FOUND, f"there is no method {name[:100]!r}", {"method": name[:100]})
        raw = params if isinstance(params, Raw) and bytes(params) != b"null" else Raw(b"{}")
        try:
            given = msgspec.json.decode(raw, type=method.params)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
            raise RpcError(INVALID_PARAMS, f"wrong params: {wrong}") from wrong
        return method.run(given)

    async def _finish(self, work: Awaitable[Any], number: Id | UnsetType, name: str) -> None:
        then: Callable[[], None] | None = None
        try:
            value = await work
            if isinstance(value, ResultThen):
                value, then = value.result, value.then
            if not isinstance(number, UnsetType):
                self.send(result(number, value))
        except RpcError as wrong:
            self._fail(number, name, wrong)
        except asyncio.CancelledError:
            self._fail(number, name, RpcError(CANCELLED, "the request was cancelled"))
        except Exception as wrong:  # a bug must not end the connection
            words = f"{type(wrong).__name__}: {wrong}"[:500]
            self._fail(number, name, RpcError(INTERNAL, f"{name} failed inside coder: {words}"))
        if then is not None:
            then()

    def _fail(self, number: Id | UnsetType, name: str, wrong: RpcError) -> None:
        if isinstance(number, UnsetType):  # nobody waits for an answer to a notification
            self.log(f"{name[:100]!r}: {wrong.message}")
        else:
            self.refuse(number, wrong.code, str(wrong.message), wrong.data)

    # what goes out

    async def ask(self, method: str, params: Any, session: str) -> Raw:
        """Send a request and return its result. Raises `RpcError`, `Gone`."""
        number, answer = self._pending.open()
        try:
            self.send(request(number, method, params), session)
            return await answer
        except asyncio.CancelledError:
            self.withdraw(number, session)
            raise
        finally:
            self._pending.close(number)

    def tell(self, method: str, params: Any, session: str) -> None:
        self.send(notification(method, params), session)

    # the end

    def hang_up(self) -> None:
        """The input has ended: fail all outstanding requests."""
        self._pending.fail(Gone)

    async def settled(self, seconds: float, but: str = "") -> None:
        """Wait until running requests are answered, at most `seconds`."""
        if running := [task for task, name in self._running.items() if name != but]:
            await asyncio.wait(running, timeout=seconds)


def _outcome(message: _Incoming) -> Raw | RpcError:
    if message.error is UNSET or message.error is None:
        return message.result if isinstance(message.result, Raw) else Raw(b"null")
    return RpcError(INTERNAL, str(message.error)[:500])


def _id_of(line: bytes) -> Id:
    try:
        return msgspec.json.decode(line, type=_OnlyId).id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


_WRITE = 1 << 16  # bytes in one write


class LineSplitter:
    """Splits bytes into lines. A line longer than `limit` becomes None."""

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
        """The last line, if it has no newline."""
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


class QueuedLine:
    """A queued line. `done` is called when it was written or dropped; its sender waits for that."""

    def __init__(self, data: bytes = b"", done: Callable[[], object] | None = None) -> None:
        self.data = data
        self.size = 0 if done else len(data)
        self.done = done
        self.begun = False  # some of it is written

    def made(self) -> bytes:
        return self.data


class Outbox:
    """Lines waiting to be written, in order. `lost` is called once nobody reads any more."""

    def __init__(self, fd: int, lost: Callable[[OSError], None]) -> None:
        self.gone = False
        self.written = 0
        self.waiting = 0  # bytes that nobody waits for
        self._fd = fd  # does not block
        self._lost = lost
        self._queue: deque[QueuedLine] = deque()
        self._rest: memoryview | None = None  # of the first
        self._due = False
        self._watching = False
        self._moved = asyncio.Event()

    def enqueue(self, line: QueuedLine) -> None:
        """Queue a line, to be written in the next round of the loop."""
        self._queue.append(line)
        self.waiting += line.size
        if self.gone:
            self.close()
        elif not self._due and not self._watching:
            self._due = True
            asyncio.get_running_loop().call_soon(self.pump)

    def post(self, data: bytes, limit: int) -> None:
        """Queue a line, unless `limit` bytes are unread."""
        if self.waiting < limit:
            self.enqueue(QueuedLine(data))

    def take_back(self, line: QueuedLine) -> bool:
        """Remove a queued line; False if some of it was written."""
        if line.begun or line not in self._queue:
            return False
        if line is self._queue[0]:
            self._rest = None
        self._queue.remove(line)
        self.waiting -= line.size
        return True

    async def drained(self, limit: int) -> None:
        """Back-pressure: wait until at most `limit` bytes are queued."""
        while self.waiting > limit:
            self._moved.clear()
            await self._moved.wait()

    async def empty(self) -> None:
        while self._queue:
            self._moved.clear()
            await self._moved.wait()

    def close(self) -> None:
        """Drop the queue and release all waiting senders."""
        self._watch(False)
        self.gone = True
        while self._queue:
            self._pop()

    def pump(self) -> None:
        """Write as much as possible without blocking."""
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
