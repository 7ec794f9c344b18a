"""An MCP server over HTTP for tests, on the test's own loop: strict as the protocol is, faulty where told.

It speaks the protocol by itself and shares no code with the client under test.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

Json = dict[str, Any]
META = "io.modelcontextprotocol/"
ECHO: Json = {"name": "echo", "description": "Says it again.", "inputSchema": {"type": "object"}}
Answer = Callable[["Exchange"], Any]


class Exchange:
    """One request of the client, and the way back."""

    def __init__(
        self,
        first: str,
        headers: dict[str, str],
        body: bytes,
        ends: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        method, path, _ = first.split(" ")
        self.method = method
        self.path = path
        self.headers = headers
        self.message: Json = json.loads(body) if body else {}
        self.reader, self.writer = ends
        self.streaming = False

    @property
    def rpc(self) -> str:
        return str(self.message.get("method", ""))

    def head(self, status: int, **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} Status", *(f"{k.replace('_', '-')}: {v}" for k, v in headers.items())]
        self.writer.write("\r\n".join([*lines, "", ""]).encode())

    def body(self, status: int, text: str = "", kind: str = "application/json", **headers: str) -> None:
        data = text.encode()
        self.head(status, Content_Type=kind, Content_Length=str(len(data)), **headers)
        self.writer.write(data)

    def stream(self, **headers: str) -> None:
        self.head(200, Content_Type="text/event-stream", Connection="close", **headers)
        self.streaming = True

    def event(self, message: Json | str) -> None:
        text = message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message})
        self.writer.write(f"event: message\r\ndata: {text}\r\n\r\n".encode())

    def result(self, result: Json) -> Json:
        return {"id": self.message["id"], "result": result}

    def error(self, code: int, words: str, data: Any = None) -> Json:
        return {"id": self.message.get("id"), "error": {"code": code, "message": words, "data": data}}


class HttpServer:
    """`on` says what is done instead of an answer, by RPC method, `GET` or `DELETE`."""

    def __init__(self, protocol: str = "legacy", *, events: bool = False, session: str = "s-1") -> None:
        self.protocol = protocol
        self.events = events  # answer as an event stream
        self.session = session
        self.tools: list[Json] = [ECHO]
        self.on: dict[str, Answer] = {}
        self.seen: list[Exchange] = []
        self.dropped: list[str] = []  # RPC methods whose response the client closed
        self.streams: list[Exchange] = []
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/mcp"

    def rpcs(self) -> list[str]:
        return [one.rpc or one.method for one in self.seen]

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while (exchange := await _read(reader, writer)) is not None:
                self.seen.append(exchange)
                await self._answer(exchange)
                await writer.drain()
                if exchange.streaming:
                    return
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, exchange: Exchange) -> None:
        told = self.on.get(exchange.rpc or exchange.method)
        if told is not None:
            done = told(exchange)
            if asyncio.iscoroutine(done):
                await done
            return
        if exchange.method == "GET":
            await self._keep_open(exchange)
        elif exchange.method == "DELETE":
            exchange.body(200)
        elif (wrong := self._wrong(exchange)) is not None:
            exchange.body(*wrong)
        elif "id" not in exchange.message or "method" not in exchange.message:
            exchange.body(202)
        else:
            self.say(exchange, self._result(exchange))

    async def _keep_open(self, exchange: Exchange) -> None:
        if self.protocol != "legacy":
            exchange.body(405)
            return
        exchange.stream()
        self.streams.append(exchange)
        await exchange.writer.drain()
        await asyncio.sleep(3600)

    def say(self, exchange: Exchange, message: Json) -> None:
        headers = {"Mcp_Session_Id": self.session} if exchange.rpc == "initialize" and self.session else {}
        if self.events:
            exchange.stream(**headers)
            exchange.event(message)
        else:
            exchange.body(200, json.dumps({"jsonrpc": "2.0", **message}), **headers)

    def _wrong(self, exchange: Exchange) -> tuple[int, str] | None:
        """As strict as the specification has it."""
        headers, message = exchange.headers, exchange.message
        both = {"application/json", "text/event-stream"}
        if not both <= {part.strip() for part in headers.get("accept", "").split(",")}:
            return 406, ""
        meta = (message.get("params") or {}).get("_meta", {})
        if self.protocol == "modern":
            version = meta.get(f"{META}protocolVersion")
            name = (message.get("params") or {}).get("name")
            fits = (
                headers.get("mcp-protocol-version") == version and headers.get("mcp-method") == exchange.rpc
            )
            if not fits or (exchange.rpc == "tools/call" and headers.get("mcp-name") != name):
                return 400, json.dumps({"jsonrpc": "2.0", **exchange.error(-32020, "Header mismatch")})
            return None
        if exchange.rpc == "server/discover":
            return 400, "Bad Request: no session"
        if exchange.rpc != "initialize" and self.session and headers.get("mcp-session-id") != self.session:
            return 404, ""
        if exchange.rpc != "initialize" and headers.get("mcp-protocol-version") != "2025-06-18":
            return 400, ""
        return None

    def _result(self, exchange: Exchange) -> Json:
        about: Json = {"capabilities": {"tools": {"listChanged": True}}}
        if exchange.rpc == "initialize":
            info = {"name": "http-kit", "version": "1"}
            return exchange.result({"protocolVersion": "2025-06-18", "serverInfo": info, **about})
        if exchange.rpc == "server/discover":
            return exchange.result({"resultType": "complete", "supportedVersions": ["2026-07-28"], **about})
        if exchange.rpc == "tools/list":
            return exchange.result({"tools": self.tools})
        if exchange.rpc == "tools/call":
            text = json.dumps(exchange.message["params"].get("arguments"))
            return exchange.result({"content": [{"type": "text", "text": text}]})
        return exchange.error(-32601, "Method not found")

    async def hang(self, exchange: Exchange) -> None:
        """Open an event stream and say nothing, until the client goes (by a reset if it has not read all)."""
        exchange.stream()
        with contextlib.suppress(ConnectionError):
            await exchange.writer.drain()
            await exchange.reader.read()
        self.dropped.append(exchange.rpc)


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Exchange | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip().split("\r\n")
    pairs = [line.partition(":") for line in lines]
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Exchange(first, headers, body, (reader, writer))


@asynccontextmanager
async def http_server(protocol: str = "legacy", **more: Any) -> AsyncGenerator[HttpServer, None]:
    server = HttpServer(protocol, **more)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
