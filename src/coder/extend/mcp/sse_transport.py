"""The HTTP+SSE transport of 2024-11-05: one event stream for all server messages, and POSTs beside it.

Deprecated, but some URLs that end in `/sse` still have it. Unlike Streamable HTTP it has a connection to
lose.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from coder.base.http.address import parse_address
from coder.base.http.client import HttpClient, Response
from coder.base.http.errors import HttpError
from coder.base.http.sse import LineTooLong
from coder.base.rpc import RpcError
from coder.extend.mcp import jsonrpc
from coder.extend.mcp.http_transport import HttpTransport, events
from coder.extend.mcp.jsonrpc import Listener, Progress
from coder.extend.mcp.shapes import HttpEndpoint, Json, McpError
from coder.texts import Text


class SseTransport(HttpTransport):
    """One server. Call `open` first; when its stream ends, all pending requests fail."""

    def __init__(
        self,
        name: str,
        endpoint: HttpEndpoint,
        listener: Listener,
        http: HttpClient | None,
        on_closed: Callable[[Text], None],
    ) -> None:
        super().__init__(name, endpoint, listener, http)
        self._posts = ""
        self._fault: McpError | None = None
        self._on_closed = on_closed
        self._opened: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def open(self) -> None:
        """Connect and wait for the URL to post to; raises `McpError`."""
        self._stream = asyncio.create_task(self._read_all())
        self._posts = await self._opened

    @property
    def _target(self) -> str:
        return self._posts

    async def _request(
        self,
        method: str,
        params: Json,
        headers: dict[str, str] | None,
        on_progress: Progress | None,
        *,
        courtesy: bool,
    ) -> Json:
        if self._fault is not None:
            raise McpError(self._fault.phrase)

        cancelled = self._post_in_background if courtesy else None
        with self._waiting.asking(method, params, on_progress, cancelled) as (message, answer):
            (await self._post(message, {})).abort()
            return jsonrpc.result_of(self._name, await answer)

    async def _read_all(self) -> None:
        fault = McpError("mcp.cut_off", name=self._name)
        try:
            await self._read_events()
        except (McpError, RpcError) as exc:
            fault = (
                exc
                if isinstance(exc, McpError)
                else McpError("mcp.refused", name=self._name, why=exc.message)
            )
        except LineTooLong:
            fault = self._too_long()
        except HttpError as exc:
            fault = self._unreachable(exc)
        self._fault = fault
        if not self._opened.done():
            self._opened.set_exception(fault)
            return
        self._waiting.end(fault)
        self._on_closed(fault.phrase)

    async def _read_events(self) -> None:
        headers = self._all_headers({"Accept": "text/event-stream"})
        response = await self._http.request("GET", self._url, headers)
        try:
            if response.status >= 300:
                await self._refused(response, "")
            await self._handle_events(response)
        finally:
            response.abort()

    async def _handle_events(self, response: Response) -> None:
        """The first event is the URL to post to; all others are messages."""
        async for data in events(response):
            if not self._opened.done():
                self._opened.set_result(self._resolve_endpoint(data.strip()))
                continue
            for message in jsonrpc.decode(data.encode("utf-8")):
                self._handle(message)

    def _resolve_endpoint(self, location: str) -> str:
        """The absolute URL. It must have the same origin, since our headers are sent to it."""
        here = f"{self._address.scheme}://{self._address.host_header}"
        if "://" not in location:
            directory = self._address.target.partition("?")[0].rpartition("/")[0]
            location = here + (location if location.startswith("/") else f"{directory}/{location}")
        if parse_address(location).origin != self._address.origin:
            raise McpError("mcp.elsewhere", name=self._name)
        return location
