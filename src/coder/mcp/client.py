"""The door of the room: connect to a server, know its tools, call them, close.

`connect` takes whatever era and transport a server has and gives a `Connection` that looks the same for all.
Every wait is bounded by what the caller says; whatever goes wrong is an `McpFault`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coder.mcp.jsonrpc import Progress, Transport
from coder.mcp.listing import Listing, list_tools
from coder.mcp.results import read_result
from coder.mcp.shapes import (
    CallOutcome,
    Endpoint,
    Hello,
    HttpEndpoint,
    Json,
    McpFault,
    RemoteTool,
    StdioEndpoint,
    telling_line,
)
from coder.mcp.stdio_transport import StdioTransport
from coder.mcp.versions import agree, modern_headers, modern_params, shake_hands
from coder.rpc.peer import RpcError
from coder.texts import Phrase

if TYPE_CHECKING:
    from coder.model.http.client import HttpClient

__all__ = [
    "CallOutcome",
    "Connection",
    "Endpoint",
    "HttpEndpoint",
    "McpFault",
    "RemoteTool",
    "StdioEndpoint",
    "connect",
]

_PROBE = 2.0  # seconds before a silent server is offered the old handshake as well
_FIRST_TRY = 2 / 3  # of the time to start, before a silent program is started again
_TAKES_NO_POSTS = (400, 404, 405)
_LIST = 30.0  # seconds for a list that has changed
_LISTEN_TRIES = 3  # in a row
_LISTEN_REST = 1.0  # seconds between them
_LISTEN_HELD = 30.0  # seconds after which a stream that ended was none of them


class _Ears:
    """Who listens to what a server says by itself."""

    def __init__(self, root: Path, on_tools_changed: Callable[[], None]) -> None:
        self.root = root
        self.on_tools_changed = on_tools_changed


class Connection:
    """A server that answers. `version` is the protocol's; `server` is its own name and version."""

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
        """Ask for the list again; raises `McpFault`, and then the old list holds."""
        try:
            async with asyncio.timeout(_LIST):
                self._listing = await list_tools(self.name, self._ask_page)
        except TimeoutError:
            raise McpFault("mcp.slow_list", name=self.name, seconds=f"{_LIST:g}") from None
        except RpcError as error:
            if self._hello.can("tools"):
                raise McpFault("mcp.refused", name=self.name, why=error.message) from None
            self._listing = Listing()  # a server of resources or prompts alone
        self._marked = self._read_marks()
        self.tools = [
            tool for name, tool in self._listing.tools.items() if self._marked.get(name) is not None
        ]
        self.left_out = self._listing.left_out + len(self._listing.tools) - len(self.tools)
        return self.tools

    def _read_marks(self) -> dict[str, dict[tuple[str, ...], str] | None]:
        """Of each tool, the arguments that are repeated in headers; `None` where it must not be used."""
        if not (self._hello.modern and self._wire.repeats):
            return {name: {} for name in self._listing.tools}
        from coder.mcp.param_headers import marked_parameters

        return {name: marked_parameters(schema) for name, schema in self._listing.raw_schemas.items()}

    async def _ask_page(self, params: Json) -> Json:
        return await self._ask("tools/list", params)

    async def call(
        self, tool: str, arguments: dict[str, Any], *, timeout_ms: int, on_progress: Progress
    ) -> CallOutcome:
        """Run a tool. Cancelling tells the server and returns at once; raises `McpFault`."""
        seconds = timeout_ms / 1000
        params: Json = {"name": tool, "arguments": arguments}
        try:
            async with asyncio.timeout(seconds):
                result = await self._ask("tools/call", params, on_progress)
        except TimeoutError:
            raise McpFault("mcp.slow_call", name=self.name, tool=tool, seconds=f"{seconds:g}") from None
        except RpcError as error:
            raise McpFault("mcp.call_refused", name=self.name, tool=tool, why=error.message) from None
        return read_result(self.name, tool, result)

    async def _ask(self, method: str, params: Json, on_progress: Progress | None = None) -> Json:
        if not self._hello.modern:
            return await self._wire.request(method, params, on_progress=on_progress)
        headers = modern_headers(method, params)
        if marked := self._marked.get(params.get("name", "")):
            from coder.mcp.param_headers import param_headers

            headers |= param_headers(marked, params.get("arguments", {}))
        return await self._wire.request(
            method, modern_params(params), headers=headers, on_progress=on_progress
        )

    def stderr_tail(self) -> str:
        """What a server that runs here printed last on stderr; nothing for one elsewhere."""
        return self._wire.stderr_tail()

    def listen(self) -> None:
        """In the new era a server tells of changes only where it is asked to."""
        if self._hello.modern and self._hello.can("tools", "listChanged"):
            self._listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        """Without it the list is merely not kept up to date. Proxies end quiet streams: then again."""
        tries, loop = 0, asyncio.get_running_loop()
        with contextlib.suppress(RpcError):
            while tries < _LISTEN_TRIES:
                begun = loop.time()
                with contextlib.suppress(McpFault):
                    await self._ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
                tries = 0 if loop.time() - begun > _LISTEN_HELD else tries + 1
                await asyncio.sleep(_LISTEN_REST)

    async def close(self) -> None:
        """End the conversation, and the server if it runs here. May be called again, and by several."""
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
    on_tools_changed: Callable[[], None],
    on_closed: Callable[[Phrase], None],
) -> Connection:
    """Reach a server and ask for its tools; raises `McpFault`, and then nothing of it is left.

    `http` is for servers at an address: one made by `mcp.http.http_client`, shared among them, or none, and
    then each has its own. `on_closed` is told, once, that a server which runs here has ended by itself; one
    at an address is never closed, its calls fail one by one.
    """
    ears = _Ears(root, on_tools_changed)
    seconds = startup_timeout_ms / 1000
    opening = _Opening(name, ears, on_closed, seconds)
    try:
        async with asyncio.timeout(seconds):
            hello = await opening.run(endpoint, http)
            assert opening.wire is not None
            opening.connection = connection = Connection(name, opening.wire, hello)
            connection.listen()  # before the list is asked for: no change falls in between
            await connection.refresh_tools()
            opening.established()
    except BaseException as exc:
        tail = await opening.give_up()
        if isinstance(exc, TimeoutError):
            raise McpFault("mcp.slow", name=name, seconds=f"{seconds:g}", said=_said(tail)) from None
        raise
    return connection


class _Opening:
    """A connection on its way: what was started so far, to be undone where it comes to nothing."""

    def __init__(self, name: str, ears: _Ears, on_closed: Callable[[Phrase], None], seconds: float) -> None:
        self.name = name
        self.ears = ears
        self.wire: Transport | None = None
        self.connection: Connection | None = None
        self._established = False
        self._ended: Phrase | None = None
        self._on_closed = on_closed
        self._seconds = seconds
        self._patience = min(_PROBE, seconds / 4)

    async def run(self, endpoint: Endpoint, http: HttpClient | None) -> Hello:
        if isinstance(endpoint, StdioEndpoint):
            return await self._stdio(endpoint)
        return await self._http(endpoint, http)

    async def _http(self, endpoint: HttpEndpoint, http: HttpClient | None) -> Hello:
        """An address that takes no posts may have the transport of 2024-11-05, as the specification says."""
        if endpoint.legacy_sse:
            return await self._old_sse(endpoint, http)
        from coder.mcp.http_transport import HttpTransport

        self.wire = wire = HttpTransport(self.name, endpoint, self.ears, http)
        try:
            return await agree(self.name, wire, self._patience)
        except McpFault as fault:
            if wire.refused_with not in _TAKES_NO_POSTS:
                raise
            refused = fault
        await wire.close()
        try:
            async with asyncio.timeout(self._patience):
                return await self._old_sse(endpoint, http)
        except (McpFault, TimeoutError):
            raise refused from None

    async def _old_sse(self, endpoint: HttpEndpoint, http: HttpClient | None) -> Hello:
        from coder.mcp.sse_transport import SseTransport

        self.wire = wire = SseTransport(self.name, endpoint, self.ears, http, self._closed)
        await wire.open()
        return await shake_hands(self.name, wire)

    async def _stdio(self, endpoint: StdioEndpoint) -> Hello:
        """A program that dies of the probe, or is struck dumb by it, is started again and only shaken hands
        with. One that has not begun to read is left alone: `npx` may be fetching it."""
        self.wire = wire = self._start(endpoint)
        agreeing = asyncio.create_task(agree(self.name, wire, self._patience))
        try:
            await asyncio.wait({agreeing}, timeout=self._seconds * _FIRST_TRY)
            if agreeing.done() or wire.unread():
                return await agreeing
        except McpFault:
            if wire.fault is None or wire.unread():
                raise
        finally:
            agreeing.cancel()
            await asyncio.wait({agreeing})
        await wire.close(leave=0)
        self.wire = wire = self._start(endpoint)
        return await shake_hands(self.name, wire)

    def _start(self, endpoint: StdioEndpoint) -> StdioTransport:
        self._ended = None
        return StdioTransport(self.name, endpoint, self.ears, self._closed)

    def established(self) -> None:
        """From now on its end is told; one that came before is a fault of the opening."""
        if self._ended is not None:
            raise McpFault(self._ended)
        self._established = True

    def _closed(self, reason: Phrase) -> None:
        if self._established:
            self._on_closed(reason)
        else:
            self._ended = reason

    async def give_up(self) -> str:
        """Close what was opened, whatever happens meanwhile; what it said last."""
        if self.wire is None:
            return ""
        opened = self.connection or self.wire
        await asyncio.shield(asyncio.ensure_future(opened.close()))
        return self.wire.stderr_tail()


def _said(tail: str) -> Phrase:
    words = telling_line(tail)
    return Phrase("mcp.said", words=words) if words else Phrase("mcp.said_nothing")
