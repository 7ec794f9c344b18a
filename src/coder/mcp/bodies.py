"""Decodes the JSON-RPC messages of a response body: one object, a batch, or an event stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from coder.mcp import jsonrpc
from coder.mcp.shapes import Json
from coder.model.http.client import Response
from coder.model.http.sse import LineTooLong, SseParser


class Position:
    """How far a server's event stream was read, so that it can be resumed (`Last-Event-ID`)."""

    def __init__(self) -> None:
        self.last_id = ""
        self.wait = 1.0  # seconds before resuming

    def note(self, parser: SseParser) -> None:
        self.last_id = parser.last_id or self.last_id
        if parser.retry_ms is not None:
            self.wait = min(parser.retry_ms / 1000, _LONGEST_WAIT)

    def headers(self) -> dict[str, str]:
        plain = self.last_id.isascii() and self.last_id.isprintable()
        return {"Last-Event-ID": self.last_id} if self.last_id and plain else {}


_LONGEST_WAIT = 30.0


async def messages(response: Response, position: Position | None = None) -> AsyncGenerator[Json, None]:
    """Yields messages as they arrive; raises `HttpFault`, and `LineTooLong` past the limit."""
    if "text/event-stream" not in response.headers.get("content-type", "").lower():
        body = await response.read(jsonrpc.MAX_MESSAGE + 1)
        if len(body) > jsonrpc.MAX_MESSAGE:
            raise LineTooLong("fault.line_long", limit=jsonrpc.MAX_MESSAGE)
        for message in jsonrpc.decode(body):
            yield message
        return
    async for data in events(response, position):
        for message in jsonrpc.decode(data.encode("utf-8")):
            yield message


async def events(response: Response, position: Position | None = None) -> AsyncGenerator[str, None]:
    """The data of an SSE stream's events; `position` follows."""
    parser = SseParser(jsonrpc.MAX_MESSAGE)
    async for chunk in response.chunks():
        found = parser.feed(chunk)
        if position is not None:
            position.note(parser)
        for data in found:
            yield data
    for data in parser.finish():
        yield data
