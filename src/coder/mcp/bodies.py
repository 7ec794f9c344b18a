"""Decodes the JSON-RPC messages of a response body: one object, a batch, or an event stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from coder.mcp import jsonrpc
from coder.mcp.shapes import Json
from coder.model.http.client import Response
from coder.model.http.sse import LineTooLong, SseParser


async def messages(response: Response) -> AsyncGenerator[Json, None]:
    """Yields messages as they arrive; raises `HttpFault`, and `LineTooLong` past the limit."""
    if "text/event-stream" not in response.headers.get("content-type", "").lower():
        body = await response.read(jsonrpc.MAX_MESSAGE + 1)
        if len(body) > jsonrpc.MAX_MESSAGE:
            raise LineTooLong("fault.line_long", limit=jsonrpc.MAX_MESSAGE)
        for message in jsonrpc.decode(body):
            yield message
        return
    async for data in events(response):
        for message in jsonrpc.decode(data.encode("utf-8")):
            yield message


async def events(response: Response) -> AsyncGenerator[str, None]:
    """The data of an SSE stream's events."""
    parser = SseParser(jsonrpc.MAX_MESSAGE)
    async for chunk in response.chunks():
        for data in parser.feed(chunk):
            yield data
    for data in parser.finish():
        yield data
