"""Connects to an MCP server, lists its tools, calls them.

`connect` handles every protocol version and transport and returns a uniform `Connection`. Every wait has a
timeout; every failure is an `McpError`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coder.base.rpc import RpcError
from coder.extend.mcp.http_transport import HttpTransport
from coder.extend.mcp.jsonrpc import ListKind, Progress, Transport
from coder.extend.mcp.listing import Listing, list_tools
from coder.extend.mcp.offers import list_prompts, list_resources, prompt_text, read_result, resource_text
from coder.extend.mcp.shapes import (
    CallOutcome,
    Endpoint,
    Hello,
    HttpEndpoint,
    Json,
    McpError,
    RemoteTool,
    StdioEndpoint,
    error_line,
)
from coder.extend.mcp.sse_transport import SseTransport
from coder.extend.mcp.stdio_transport import StdioTransport
from coder.extend.mcp.versions import (
    legacy_handshake,
    marked_parameters,
    modern_headers,
    modern_params,
    negotiate,
    param_headers,
)
from coder.texts import Text

if TYPE_CHECKING:
    from coder.base.http.client import HttpClient
    from coder.extend.mcp.offers import RemotePrompt, RemoteResource

__all__ = [
    "CallOutcome",
    "Connection",
    "Endpoint",
    "HttpEndpoint",
    "McpError",
    "RemoteTool",
    "StdioEndpoint",
    "connect",
]

_PROBE = 2.0  # seconds before the legacy handshake is tried beside an unanswered probe
_FIRST_TRY = 2 / 3  # of the startup timeout, after which a silent program is restarted
_TAKES_NO_POSTS = (400, 404, 405)
_LIST = 30.0  # seconds for a list that has changed
_LISTS: tuple[ListKind, ...] = ("tools", "prompts")
_LISTEN_TRIES = 3  # in a row
_LISTEN_REST = 1.0  # seconds between them
_LISTEN_HELD = 30.0  # a stream that lasted longer resets the count of tries


class _ServerListener:
    """Handles requests and notifications from the server."""

    def __init__(self, root: Path, on_list_changed: Callable[[ListKind], None]) -> None:
        self.root = root
        self.on_list_changed = on_list_changed


class Connection:
    """An established connection. `version` is the protocol's; `server` the server's name and version."""

    def __init__(self, name: str, wire: Transport, hello: Hello) -> None:
        self.name = name
        self.version = hello.version
        self.server = hello.server
        self.instructions = hello.instructions
        self.tools: list[RemoteTool] = []
        self.left_out = 0  # tools that cannot be used
        self._hello = hello
        self._wire = wire
        self._listing = Listing()
        self._marked: dict[str, dict[tuple[str, ...], str] | None] = {}
        self._listening: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    async def refresh_tools(self) -> list[RemoteTool]:
        """Fetch the list again; on `McpError` the old list stays."""
        try:
            async with asyncio.timeout(_LIST):
                self._listing = await list_tools(self.name, self._ask_page)
        except TimeoutError:
            raise McpError("mcp.slow_list", name=self.name, seconds=f"{_LIST:g}") from None
        except RpcError as error:
            if self._hello.can("tools"):
                raise McpError("mcp.refused", name=self.name, why=error.message) from None
            self._listing = Listing()  # the server has only resources or prompts
        self._marked = self._read_marks()
        self.tools = [
            tool for name, tool in self._listing.tools.items() if self._marked.get(name) is not None
        ]
        self.left_out = self._listing.left_out + len(self._listing.tools) - len(self.tools)
        return self.tools

    def _read_marks(self) -> dict[str, dict[tuple[str, ...], str] | None]:
        """By tool: the arguments repeated in headers; `None` if the tool must not be used."""
        if not (self._hello.modern and self._wire.repeats):
            return {name: {} for name in self._listing.tools}

        return {name: marked_parameters(schema) for name, schema in self._listing.raw_schemas.items()}

    async def _ask_page(self, params: Json) -> Json:
        return await self._ask("tools/list", params)

    async def call(
        self, tool: str, arguments: dict[str, Any], *, timeout_ms: int, on_progress: Progress
    ) -> CallOutcome:
        """Call a tool; raises `McpError`. Cancelling notifies the server and returns at once."""
        params: Json = {"name": tool, "arguments": arguments}
        result = await self._bounded("tools/call", params, tool, timeout_ms, on_progress)
        return read_result(self.name, tool, result)

    async def _bounded(
        self, method: str, params: Json, what: str, timeout_ms: int, on_progress: Progress | None = None
    ) -> Json:
        """Ask; raises `McpError` that names `what` was asked for."""
        seconds = timeout_ms / 1000
        try:
            async with asyncio.timeout(seconds):
                return await self._ask(method, params, on_progress)
        except TimeoutError:
            raise McpError("mcp.slow_call", name=self.name, tool=what, seconds=f"{seconds:g}") from None
        except RpcError as error:
            raise McpError("mcp.call_refused", name=self.name, tool=what, why=error.message) from None

    async def read_resource(self, uri: str, *, timeout_ms: int) -> str:
        result = await self._bounded("resources/read", {"uri": uri}, uri, timeout_ms)
        return resource_text(self.name, uri, result)

    async def prompts(self, *, timeout_ms: int) -> list[RemotePrompt]:
        """Listed when asked for; none where the server has no prompts."""
        if not self._hello.can("prompts"):
            return []

        async def ask(params: Json) -> Json:
            return await self._bounded("prompts/list", params, "prompts", timeout_ms)

        return await list_prompts(self.name, ask)

    async def resources(self, *, timeout_ms: int) -> list[RemoteResource]:
        """As `prompts`."""
        if not self._hello.can("resources"):
            return []

        async def ask(params: Json) -> Json:
            return await self._bounded("resources/list", params, "resources", timeout_ms)

        return await list_resources(self.name, ask)

    async def get_prompt(self, prompt: str, arguments: dict[str, str], *, timeout_ms: int) -> str:
        params: Json = {"name": prompt, "arguments": arguments}
        return prompt_text(self.name, prompt, await self._bounded("prompts/get", params, prompt, timeout_ms))

    async def _ask(self, method: str, params: Json, on_progress: Progress | None = None) -> Json:
        if not self._hello.modern:
            return await self._wire.request(method, params, on_progress=on_progress)
        headers = modern_headers(method, params)
        if marked := self._marked.get(params.get("name", "")):
            headers |= param_headers(marked, params.get("arguments", {}))
        return await self._wire.request(
            method, modern_params(params), headers=headers, on_progress=on_progress
        )

    def stderr_tail(self) -> str:
        """The last stderr output of a local server; empty for a remote one."""
        return self._wire.stderr_tail()

    def listen(self) -> None:
        """Subscribe to changes, which modern servers only report on request."""
        wanted = {f"{kind}ListChanged": True for kind in _LISTS if self._hello.can(kind, "listChanged")}
        if self._hello.modern and wanted:
            self._listening = asyncio.create_task(self._listen(wanted))

    async def _listen(self, wanted: Json) -> None:
        """Best effort: a failure only leaves the list stale. Proxies close idle streams, so it reconnects."""
        tries, loop = 0, asyncio.get_running_loop()
        with contextlib.suppress(RpcError):
            while tries < _LISTEN_TRIES:
                started = loop.time()
                with contextlib.suppress(McpError):
                    await self._ask("subscriptions/listen", {"notifications": wanted})
                tries = 0 if loop.time() - started > _LISTEN_HELD else tries + 1
                await asyncio.sleep(_LISTEN_REST)

    async def close(self) -> None:
        """Close, and end a local server. Idempotent, also when called concurrently."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait({self._listening})
        await self._wire.close()


async def connect(
    name: str,
    endpoint: Endpoint,
    *,
    root: Path,
    startup_timeout_ms: int,
    http: HttpClient | None = None,
    on_list_changed: Callable[[ListKind], None],
    on_closed: Callable[[Text], None],
) -> Connection:
    """Connect to a server and list its tools; on `McpError` everything started is cleaned up.

    `http` is a client from `http_transport.http_client` that remote servers share; without it each has its
    own. `on_closed` is called once if a local server exits by itself; the calls of a remote one fail
    individually.
    """
    listener = _ServerListener(root, on_list_changed)
    seconds = startup_timeout_ms / 1000
    attempt = _ConnectAttempt(name, listener, on_closed, seconds)
    try:
        async with asyncio.timeout(seconds):
            hello = await attempt.run(endpoint, http)
            assert attempt.wire is not None
            attempt.connection = connection = Connection(name, attempt.wire, hello)
            connection.listen()  # before listing, so that no change is missed
            await connection.refresh_tools()
            attempt.established()
    except BaseException as exc:
        tail = await attempt.give_up()
        if isinstance(exc, TimeoutError):
            raise McpError("mcp.slow", name=name, seconds=f"{seconds:g}", said=_said(tail)) from None
        raise
    return connection


class _ConnectAttempt:
    """A connection attempt: tracks what was started, for cleanup on failure."""

    def __init__(
        self, name: str, listener: _ServerListener, on_closed: Callable[[Text], None], seconds: float
    ) -> None:
        self.name = name
        self.listener = listener
        self.wire: Transport | None = None
        self.connection: Connection | None = None
        self._established = False
        self._ended: Text | None = None
        self._on_closed = on_closed
        self._seconds = seconds
        self._patience = min(_PROBE, seconds / 4)

    async def run(self, endpoint: Endpoint, http: HttpClient | None) -> Hello:
        if isinstance(endpoint, StdioEndpoint):
            return await self._stdio(endpoint)
        return await self._http(endpoint, http)

    async def _http(self, endpoint: HttpEndpoint, http: HttpClient | None) -> Hello:
        """Falls back to the SSE transport of 2024-11-05 if POST is rejected, as the specification says."""
        if endpoint.legacy_sse:
            return await self._old_sse(endpoint, http)

        self.wire = wire = HttpTransport(self.name, endpoint, self.listener, http)
        try:
            return await negotiate(self.name, wire, self._patience)
        except McpError as fault:
            if wire.refused_with not in _TAKES_NO_POSTS:
                raise
            refused = fault
        await wire.close()
        try:
            async with asyncio.timeout(self._patience):
                return await self._old_sse(endpoint, http)
        except (McpError, TimeoutError):
            raise refused from None

    async def _old_sse(self, endpoint: HttpEndpoint, http: HttpClient | None) -> Hello:
        self.wire = wire = SseTransport(self.name, endpoint, self.listener, http, self._closed)
        await wire.open()
        return await legacy_handshake(self.name, wire)

    async def _stdio(self, endpoint: StdioEndpoint) -> Hello:
        """A server that exits or hangs on the probe is restarted with the legacy handshake only. One that
        has not read its stdin yet is left alone: `npx` may still be downloading it."""
        self.wire = wire = self._start(endpoint)
        agreeing = asyncio.create_task(negotiate(self.name, wire, self._patience))
        try:
            await asyncio.wait({agreeing}, timeout=self._seconds * _FIRST_TRY)
            if agreeing.done() or wire.unread():
                return await agreeing
        except McpError:
            if wire.fault is None or wire.unread():
                raise
        finally:
            agreeing.cancel()
            await asyncio.wait({agreeing})
        await wire.close(leave=0)
        self.wire = wire = self._start(endpoint)
        return await legacy_handshake(self.name, wire)

    def _start(self, endpoint: StdioEndpoint) -> StdioTransport:
        self._ended = None
        return StdioTransport(self.name, endpoint, self.listener, self._closed)

    def established(self) -> None:
        """From now on an exit is reported to `on_closed`; an earlier one fails the attempt."""
        if self._ended is not None:
            raise McpError(self._ended)
        self._established = True

    def _closed(self, reason: Text) -> None:
        if self._established:
            self._on_closed(reason)
        else:
            self._ended = reason

    async def give_up(self) -> str:
        """Close everything, shielded from cancellation; returns the tail of stderr."""
        if self.wire is None:
            return ""
        opened = self.connection or self.wire
        await asyncio.shield(asyncio.ensure_future(opened.close()))
        return self.wire.stderr_tail()


def _said(tail: str) -> Text:
    words = error_line(tail)
    return Text("mcp.said", words=words) if words else Text("mcp.said_nothing")
