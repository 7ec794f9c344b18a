"""JSON-RPC as MCP uses it: lines to messages, requests to their answers, and what a server may ask of us.

No bytes are read or written here; `stdio.py` and `http.py` do that. Any chunking of the same bytes gives the
same messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec

from coder.mcp.shapes import Json, McpFault, single_line
from coder.texts import Phrase

MAX_MESSAGE = 16 * 1024 * 1024  # bytes of one message; a result that large would fill any context many times
METHOD_NOT_FOUND = -32601
_INVALID_REQUEST = -32600
_COUNTLESS = 10**18  # JSON has whole numbers that no float can hold


class RpcError(Exception):
    """A server's answer is an error. Its message is the server's own, as one line, or a status in words."""

    def __init__(self, code: int, message: str | Phrase, data: object = None) -> None:
        super().__init__(str(message))
        self.code = code
        self.message = message
        self.data = data


class Listener(Protocol):
    """Who is told what a server says by itself, outside of any answer."""

    root: Path
    on_tools_changed: Callable[[], None]


Progress = Callable[[str], None]


class Transport(Protocol):
    """A way to a server: stdio or HTTP."""

    repeats: bool  # whether headers go with a request, and repeat some of it

    async def request(
        self,
        method: str,
        params: Json,
        *,
        headers: dict[str, str] | None = None,
        on_progress: Progress | None = None,
        courtesy: bool = True,
    ) -> Json:
        """The result. Raises `RpcError` and `McpFault`; waits as long as nobody cancels it, and then tells
        the server, unless it is no `courtesy` (the protocol forbids it for its opening requests)."""

    async def notify(self, method: str, params: Json | None = None) -> None: ...

    def settle(self, version: str, *, modern: bool) -> None:
        """From now on this version is spoken."""

    def unread(self) -> bool:
        """Whether the server has not even begun to read (or ended so): it starts, or fails, for itself, and
        no message of ours has to do with it."""

    def stderr_tail(self) -> str: ...

    async def close(self) -> None: ...


class LineSplitter:
    """Bytes in, lines out. A line past the bound is thrown away, and its place taken by `None`."""

    def __init__(self, limit: int = MAX_MESSAGE) -> None:
        self._limit = limit
        self._held: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes | None]:
        *complete, rest = data.split(b"\n")
        lines = [self._line(piece) for piece in complete]
        self._hold(rest)
        return lines

    def _line(self, last: bytes) -> bytes | None:
        self._hold(last)
        line = None if self._size > self._limit else b"".join(self._held)
        self._held, self._size = [], 0
        return line

    def _hold(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            self._held = []
        elif piece:
            self._held.append(piece)


def decode(data: bytes) -> list[Json]:
    """The messages of a line or body: one object, or a batch of 2025-03-26. What is neither gives none."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        value = _decode_leniently(data)
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict)]


def _decode_leniently(data: bytes) -> Any:
    """JavaScript cuts text in the middle of a character and sends the half, which is no Unicode."""
    if data.lstrip()[:1] not in (b"{", b"["):
        return None
    import json

    try:
        text = json.dumps(json.loads(data), ensure_ascii=False)
        return msgspec.json.decode(text.encode("utf-8", "replace"))
    except (ValueError, RecursionError, msgspec.DecodeError):
        return None


def encode(message: Json) -> bytes:
    """One line without its end; JSON has no raw line breaks."""
    try:
        return msgspec.json.encode(message)
    except UnicodeEncodeError:  # half a character, as models write them
        import json

        return json.dumps(message).encode("ascii")


def request(number: int, method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def notification(method: str, params: Json | None = None) -> Json:
    message: Json = {"jsonrpc": "2.0", "method": method}
    return message if params is None else {**message, "params": params}


def result_of(name: str, message: Json) -> Json:
    """The result of an answer; raises `RpcError`, or `McpFault` where it is neither result nor error."""
    error = message.get("error")
    if isinstance(error, dict):
        code = error.get("code")
        words = single_line(error.get("message"), 500) or f"error {code}"
        raise RpcError(code if isinstance(code, int) else 0, words, error.get("data"))
    result = message.get("result")
    if not isinstance(result, dict):
        raise McpFault("mcp.invalid", name=name)
    return result


class Waiting:
    """The requests that are out, and who waits for each."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last = 0
        self._answers: dict[int, asyncio.Future[Json]] = {}
        self._progress: dict[int, Progress] = {}

    def open(self, on_progress: Progress | None) -> tuple[int, asyncio.Future[Json]]:
        self._last += 1
        answer = self._answers[self._last] = asyncio.get_running_loop().create_future()
        if on_progress is not None:
            self._progress[self._last] = on_progress
        return self._last, answer

    def close(self, number: int) -> None:
        self._progress.pop(number, None)
        answer = self._answers.pop(number, None)
        if answer is not None and not answer.cancel() and not answer.cancelled():
            answer.exception()  # looked at, so that a fault nobody waited for is not complained of

    def answer(self, message: Json) -> None:
        """Hand an answer to whoever waits for it; nobody may (it was cancelled, or it is not ours)."""
        number = _number(message.get("id"))
        future = self._answers.get(number) if number is not None else None
        if future is not None and not future.done():
            future.set_result(message)

    def progress(self, params: Json) -> None:
        number = _number(params.get("progressToken"))
        heard = self._progress.get(number) if number is not None else None
        if heard is not None and (text := progress_text(params)):
            heard(text)

    def fail(self, fault: McpFault) -> None:
        """Nobody will be answered any more."""
        for future in self._answers.values():
            if not future.done():
                future.set_exception(McpFault(fault.phrase))


def _number(value: object) -> int | None:
    """An id of ours; some servers give it back as text."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def progress_text(params: Json) -> str:
    """`3/10 reading`, as far as the server tells."""
    counted, total = _counted(params.get("progress")), _counted(params.get("total"))
    if counted and total:
        counted += f"/{total}"
    return " ".join(part for part in (counted, single_line(params.get("message"), 200)) if part)


def _counted(value: object) -> str:
    """A number in short; nothing for what is none, or larger than anything that could be counted."""
    if not isinstance(value, int | float) or not abs(value) < _COUNTLESS:
        return ""
    return f"{value:g}"


def reply_to(message: Json, root: Path) -> Json:
    """Our answer to a server's request: it may ask whether we live and where we work, and nothing else."""
    answer: Json = {"jsonrpc": "2.0", "id": message.get("id")}
    method = message.get("method")
    if method == "ping":
        return {**answer, "result": {}}
    if method == "roots/list":
        return {**answer, "result": {"roots": [{"uri": root.as_uri(), "name": root.name}]}}
    code = (
        _INVALID_REQUEST if method in ("sampling/createMessage", "elicitation/create") else METHOD_NOT_FOUND
    )
    words = f"{single_line(method, 100)} is not supported by this client"
    return {**answer, "error": {"code": code, "message": words}}


def hear(message: Json, waiting: Waiting, listener: Listener) -> Json | None:
    """Take in one message of a server; the reply, where it asks for one."""
    method = message.get("method")
    if not isinstance(method, str):
        waiting.answer(message)
        return None
    if "id" in message:
        return reply_to(message, listener.root)
    params = message.get("params")
    if method == "notifications/progress" and isinstance(params, dict):
        waiting.progress(params)
    elif method == "notifications/tools/list_changed":
        listener.on_tools_changed()
    return None
