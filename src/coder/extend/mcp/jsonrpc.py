"""JSON-RPC as MCP uses it: what a server's bytes say, its answers and progress, and what it may ask of us.

No bytes are read or written here; the transports do that.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from coder.base.rpc import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Pending,
    RpcError,
    error,
    notification,
    request,
    result,
)
from coder.extend.mcp.shapes import Json, McpError, single_line
from coder.protocol.structs import whole_characters

MAX_MESSAGE = 16 * 1024 * 1024  # bytes of one message; a result that large would fill any context many times
_COUNTLESS = 10**18  # JSON has whole numbers that no float can hold


ListKind = Literal["tools", "prompts", "resources"]  # what a server lists, and says that it has changed


class Listener(Protocol):
    """Who is told what a server says by itself, outside of any answer."""

    root: Path
    on_list_changed: Callable[[ListKind], None]


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
        """Send a request and return its result; no time-out. Raises `RpcError`, `McpError`. On cancellation
        the server is notified if `courtesy`: the protocol forbids that during the handshake."""

    async def notify(self, method: str, params: Json | None = None) -> None: ...

    def settle(self, version: str, *, modern: bool) -> None:
        """Use this protocol version from now on."""

    def unread(self) -> bool:
        """Whether the server has read nothing from its stdin, or exited so: no message of ours can be the
        cause."""

    def stderr_tail(self) -> str: ...

    async def close(self) -> None: ...


def decode(data: bytes) -> list[Json]:
    """The messages of a line or body: one object, or a batch of 2025-03-26. What is neither gives none."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        value = _decode_leniently(data)
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict)]


def _decode_leniently(data: bytes) -> Any:
    if data.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        return msgspec.json.decode(whole_characters(data))
    except (ValueError, RecursionError, msgspec.DecodeError):
        return None


def encode_message(message: Json) -> bytes:
    """One line without its end; JSON has no raw line breaks."""
    try:
        return msgspec.json.encode(message)
    except UnicodeEncodeError:  # half a character, as models write them
        return json.dumps(message).encode("ascii")


def result_of(name: str, message: Json) -> Json:
    """The result of an answer; raises `RpcError`, or `McpError` where it is neither result nor error."""
    wrong = message.get("error")
    if isinstance(wrong, dict):
        code = wrong.get("code")
        words = single_line(wrong.get("message"), 500) or f"error {code}"
        raise RpcError(code if isinstance(code, int) else 0, words, wrong.get("data"))
    told = message.get("result")
    if not isinstance(told, dict):
        raise McpError("mcp.invalid", name=name)
    return told


class Waiting(Pending[Json]):
    """The requests that are out, who waits for each and who is told how far it is."""

    def __init__(self) -> None:
        super().__init__()
        self._progress: dict[int, Progress] = {}

    @contextmanager
    def asking(
        self,
        method: str,
        params: Json,
        on_progress: Progress | None,
        cancelled: Callable[[Json], None] | None,
    ) -> Iterator[tuple[Json, asyncio.Future[Json]]]:
        """The request and its answer to come; `cancelled` is given what a server is told then."""
        number, answer = self.open()
        if on_progress is not None:
            self._progress[number] = on_progress
            params = {**params, "_meta": {**params.get("_meta", {}), "progressToken": number}}
        try:
            yield request(number, method, params), answer
        except asyncio.CancelledError:
            if cancelled is not None:
                cancelled(notification("notifications/cancelled", {"requestId": number}))
            raise
        finally:
            self._progress.pop(number, None)
            self.close(number)

    def progress(self, params: Json) -> None:
        number = _number(params.get("progressToken"))
        heard = self._progress.get(number) if number is not None else None
        if heard is not None and (text := progress_text(params)):
            heard(text)

    def end(self, fault: McpError) -> None:
        self.fail(lambda: McpError(fault.phrase))


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
    number, method = message.get("id"), message.get("method")
    if method == "ping":
        return result(number, {})
    if method == "roots/list":
        return result(number, {"roots": [{"uri": root.as_uri(), "name": root.name}]})
    known = method in ("sampling/createMessage", "elicitation/create")
    words = f"{single_line(method, 100)} is not supported by this client"
    return error(number, INVALID_REQUEST if known else METHOD_NOT_FOUND, words)


def hear(message: Json, waiting: Waiting, listener: Listener) -> Json | None:
    """Take in one message of a server; the reply, where it asks for one."""
    method = message.get("method")
    if not isinstance(method, str):
        waiting.answer(_number(message.get("id")), message)
        return None
    if "id" in message:
        return reply_to(message, listener.root)
    params = message.get("params")
    if method == "notifications/progress" and isinstance(params, dict):
        waiting.progress(params)
    elif method == "notifications/tools/list_changed":
        listener.on_list_changed("tools")
    elif method == "notifications/prompts/list_changed":
        listener.on_list_changed("prompts")
    return None
