"""JSON-RPC 2.0 between two equals: requests, answers and notifications, in both directions.

A message that is wrong is answered with what is wrong about it and ends nothing. The part of a handler that
runs before its first `await` runs in the order in which messages came.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from coder.record.files import encode, valid_text
from coder.servers.stdio import Outbox, TooLong

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
NO_METHOD = -32601
INVALID_PARAMS = -32602
INTERNAL = -32603
AUTH_REQUIRED = -32000
NOT_FOUND = -32002

_STDERR = 2
_LONGEST_LOG = 1000  # characters

Id = int | str | float | None


class RpcError(Exception):
    """What a request is answered with instead of a result."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def as_object(self) -> dict[str, Any]:
        told = {"code": self.code, "message": valid_text(self.message)}
        return told if self.data is None else {**told, "data": self.data}


class Gone(Exception):
    """The other side is no longer there to answer."""


class Answered(msgspec.Struct, frozen=True):
    """A result, and what is to be done once it is on its way."""

    result: Any
    then: Callable[[], None]


class Method(msgspec.Struct, frozen=True):
    """What a method takes, and who does it."""

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


class Peer:
    """The other side of the line."""

    def __init__(self, outbox: Outbox, methods: Mapping[str, Method]) -> None:
        self.outbox = outbox
        self._methods = methods
        self._asked: dict[int, asyncio.Future[Raw]] = {}
        self._last_id = 0
        self._running: dict[asyncio.Task[None], str] = {}
        self._decoder = msgspec.json.Decoder(_Incoming)

    # what comes in

    def take(self, line: bytes | TooLong) -> None:
        """One line, whatever is in it."""
        if isinstance(line, TooLong):
            self._refuse(None, INVALID_REQUEST, "the message is longer than 32 MiB")
            return
        if not line.strip():
            return
        try:
            message = self._decoder.decode(line)
        except msgspec.ValidationError as error:
            self._refuse(_id_of(line), INVALID_REQUEST, f"not a JSON-RPC message: {error}")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            mended = _with_valid_text(line)
            if mended is None:
                self._refuse(None, PARSE_ERROR, f"not JSON: {error}")
            else:
                self.take(mended)
        else:
            self._dispatch(message)

    def _dispatch(self, message: _Incoming) -> None:
        if message.jsonrpc != "2.0":
            self._refuse(_known(message.id), INVALID_REQUEST, "jsonrpc is not 2.0")
        elif isinstance(message.method, str):
            self._called(message.method, message)
        elif isinstance(message.id, int) and (message.error is not UNSET or message.result is not UNSET):
            self._answered(message.id, message)
        elif message.id is UNSET or (message.error is UNSET and message.result is UNSET):
            self._refuse(_known(message.id), INVALID_REQUEST, "neither a method nor an answer")

    def _answered(self, number: int, message: _Incoming) -> None:
        future = self._asked.pop(number, None)
        if future is None or future.done():
            return  # asked for nothing, or no longer
        if message.error is UNSET or message.error is None:
            future.set_result(message.result if isinstance(message.result, Raw) else Raw(b"null"))
        else:
            future.set_exception(RpcError(INTERNAL, str(message.error)[:500]))

    def _called(self, name: str, message: _Incoming) -> None:
        try:
            work = self._begun(name, message.params)
        except RpcError as error:
            self._fail(message.id, name, error)
            return
        task = asyncio.get_running_loop().create_task(self._finish(work, message.id, name))
        self._running[task] = name
        task.add_done_callback(self._running.pop)

    def _begun(self, name: str, params: Raw | UnsetType) -> Awaitable[Any]:
        method = self._methods.get(name)
        if method is None:
            raise RpcError(NO_METHOD, f"there is no method {name[:100]!r}", {"method": name[:100]})
        raw = params if isinstance(params, Raw) and bytes(params) != b"null" else Raw(b"{}")
        try:
            given = msgspec.json.decode(raw, type=method.params)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RpcError(INVALID_PARAMS, f"wrong params: {error}") from error
        return method.run(given)

    async def _finish(self, work: Awaitable[Any], number: Id | UnsetType, name: str) -> None:
        then: Callable[[], None] | None = None
        try:
            result = await work
            if isinstance(result, Answered):
                result, then = result.result, result.then
            if not isinstance(number, UnsetType):
                self.outbox.put(encode({"jsonrpc": "2.0", "id": number, "result": result}))
        except RpcError as error:
            self._fail(number, name, error)
        except (
            Exception
        ) as error:  # the last line of defence: a sentence for the other side, a line for the log
            words = f"{type(error).__name__}: {error}"[:500]
            self._fail(number, name, RpcError(INTERNAL, f"{name} failed inside coder: {words}"))
        if then is not None:
            then()

    def _fail(self, number: Id | UnsetType, name: str, error: RpcError) -> None:
        if isinstance(number, UnsetType):  # nobody waits for an answer to a notification
            log(f"{name[:100]!r}: {error.message}")
        else:
            self._refuse(number, error.code, error.message, error.data)

    def _refuse(self, number: Id, code: int, message: str, data: Any = None) -> None:
        error = RpcError(code, message, data).as_object()
        self.outbox.put(encode({"jsonrpc": "2.0", "id": number, "error": error}))

    # what goes out

    async def ask(self, method: str, params: Any, session: str) -> Raw:
        """Their answer. Raises `RpcError` where it is an error, `Gone` where none can come any more."""
        self._last_id += 1
        number = self._last_id
        future: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        self._asked[number] = future
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.outbox.put(encode(request), session)
        try:
            return await future
        finally:
            self._asked.pop(number, None)

    def tell(self, method: str, params: Any, session: str) -> None:
        self.outbox.put(notification(method, params), session)

    # the end

    def hang_up(self) -> None:
        """Nothing comes in any more: who waits for an answer waits in vain."""
        for future in self._asked.values():
            if not future.done():
                future.set_exception(Gone())
        self._asked.clear()

    async def settled(self, seconds: float, but: str = "") -> None:
        """Until what was asked of us is answered, but no longer than this."""
        if running := [task for task, name in self._running.items() if name != but]:
            await asyncio.wait(running, timeout=seconds)


def notification(method: str, params: Any) -> bytes:
    return encode({"jsonrpc": "2.0", "method": method, "params": params})


def log(text: str) -> None:
    """For whoever reads the editor's log. Where nobody does it is dropped: all sessions would wait for it."""
    line = f"coder acp: {text[:_LONGEST_LOG]}\n".encode("ascii", "backslashreplace")
    with contextlib.suppress(OSError):
        if select.select([], [_STDERR], [], 0)[1]:
            os.write(_STDERR, line[: select.PIPE_BUF])


def _known(number: Id | UnsetType) -> Id:
    return None if isinstance(number, UnsetType) else number


def _with_valid_text(line: bytes) -> bytes | None:
    r"""The message with half characters (`\ud83d` alone, from editors that cut text by UTF-16) spelt out: it
    is JSON, and whoever sent it waits for an answer. None where it is wrong in another way."""
    if b"\\u" not in line:
        return None
    import json

    try:
        mended = encode(json.loads(line))
        msgspec.json.decode(mended, type=Raw)
    except (ValueError, OverflowError, RecursionError):
        return None
    return mended if mended != line else None


def _id_of(line: bytes) -> Id:
    try:
        return msgspec.json.decode(line, type=_OnlyId).id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
