"""An editor's companion as the published extensions run it: MCP over HTTP and SSE on the loopback.

Strict where they are strict: host, origin, token, session id, accepted types. It speaks the protocol by
itself and shares no code with the client under test.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

Json = dict[str, Any]
TOKEN = "a-very-secret-token"


class FakeEditor:
    """`state` is what it tells of its files."""

    def __init__(self, workspace: Path, token: str = TOKEN, *, plain_json: bool = False) -> None:
        self.workspace = workspace
        self.token = token
        self.plain_json = plain_json  # answer posts with JSON instead of an event stream
        self.greets = True  # answers the handshake
        self.state: Json = {"workspaceState": {"openFiles": []}}
        self.posts: list[Json] = []
        self.heads: list[dict[str, str]] = []
        self.refused: list[int] = []
        self.port = 0
        self.changed = asyncio.Event()
        self._sessions: set[str] = set()
        self._streams: list[asyncio.StreamWriter] = []
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    # the editor's life

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """As an editor that is closed: every connection ends, sessions are forgotten."""
        assert self._server is not None
        self._server.close()
        for writer in list(self._open):
            writer.close()
        self._streams.clear()
        self._sessions.clear()
        await asyncio.sleep(0.01)

    def announce(self, temporary: Path, pid: int | None = None, **changes: Any) -> Path:
        """Write the discovery file."""
        directory = temporary / "gemini" / "ide"
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"gemini-ide-server-{os.getppid() if pid is None else pid}-{self.port}.json"
        content = {
            "port": self.port,
            "workspacePath": str(self.workspace),
            "authToken": self.token,
            "ideInfo": {"name": "vscode", "displayName": "VS Code"},
            **changes,
        }
        path.write_text(json.dumps(content), encoding="utf-8")
        return path

    async def show(self, *files: Json) -> None:
        """The person does something: these files are open now."""
        self.state = {"workspaceState": {"openFiles": list(files), "isTrusted": True}}
        await self.say("ide/contextUpdate", self.state)

    async def say(self, method: str, params: Json, **more: Any) -> None:
        await self.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more}))

    async def send(self, data: str) -> None:
        for stream in list(self._streams):
            try:
                stream.write(_chunk(f"event: message\ndata: {data}\n\n"))
                await stream.drain()
            except ConnectionError:  # who listened has left
                self._streams.remove(stream)

    async def cut_streams(self) -> None:
        """The connection breaks; the editor itself goes on."""
        for stream in self._streams:
            stream.close()
        self._streams.clear()

    def calls(self, method: str) -> list[Json]:
        return [post for post in self.posts if post.get("method") == method]

    # the protocol

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, path, _ = head[0].split(" ")
                headers = {
                    k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:]) if k
                }
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                self.heads.append({**headers, ":method": method})
                await self._answer(method, path, headers, body, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()
            self.changed.set()

    async def _answer(
        self, method: str, path: str, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter
    ) -> None:
        status = self._refusal(path, headers)
        if status:
            self.refused.append(status)
            self._plain(writer, status, b"refused", "text/plain")
        elif method == "GET":
            await self._stream(headers, writer)
        elif method == "POST":
            self._post(headers, json.loads(body), writer)
        else:
            self._plain(writer, 404, b"", "text/plain")
        self.changed.set()

    def _refusal(self, path: str, headers: dict[str, str]) -> int:
        if path != "/mcp":
            return 404
        if headers.get("host") != f"127.0.0.1:{self.port}" or "origin" in headers:
            return 403
        return 0 if headers.get("authorization") == f"Bearer {self.token}" else 401

    def _post(self, headers: dict[str, str], message: Json, writer: asyncio.StreamWriter) -> None:
        accepted = headers.get("accept", "")
        if "application/json" not in accepted or "text/event-stream" not in accepted:
            self._plain(writer, 406, b"not acceptable", "text/plain")
            return
        session = headers.get("mcp-session-id", "")
        if message.get("method") == "initialize" and not session:
            session = f"session-{len(self.posts)}"
            self._sessions.add(session)
        elif session not in self._sessions:
            self._plain(writer, 400, b"no valid session", "text/plain")
            return
        self.posts.append(message)
        if "id" not in message or "method" not in message:
            self._plain(writer, 202, b"", "")
            return
        answer = {"jsonrpc": "2.0", "id": message["id"], **self._result(message)}
        text = json.dumps(answer)
        if self.plain_json:
            self._plain(writer, 200, text.encode(), "application/json", session)
        else:
            self._head(writer, 200, "text/event-stream", session)
            writer.write(_chunk(f"event: message\ndata: {text}\n\n") + b"0\r\n\r\n")

    def _result(self, message: Json) -> Json:
        params = message.get("params", {})
        match message["method"]:
            case "initialize" if self.greets:
                info = {"name": "gemini-cli-companion-mcp-server", "version": "1.0.0"}
                capabilities = {"logging": {}, "tools": {"listChanged": True}}
                version = params["protocolVersion"]
                return {
                    "result": {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
                }
        return {"error": {"code": -32601, "message": "Method not found"}}

    async def _stream(self, headers: dict[str, str], writer: asyncio.StreamWriter) -> None:
        if headers.get("mcp-session-id", "") not in self._sessions:
            self._plain(writer, 400, b"Invalid or missing session ID", "text/plain")
            return
        self._head(writer, 200, "text/event-stream", headers["mcp-session-id"])
        self._streams.append(writer)
        await self.say("ide/contextUpdate", self.state)

    def _plain(
        self, writer: asyncio.StreamWriter, status: int, body: bytes, kind: str, session: str = ""
    ) -> None:
        extra = f"Mcp-Session-Id: {session}\r\n" if session else ""
        kind = f"Content-Type: {kind}\r\n" if kind else ""
        writer.write(
            f"HTTP/1.1 {status} X\r\n{kind}{extra}Content-Length: {len(body)}\r\n\r\n".encode() + body
        )

    def _head(self, writer: asyncio.StreamWriter, status: int, kind: str, session: str) -> None:
        writer.write(
            f"HTTP/1.1 {status} OK\r\nContent-Type: {kind}\r\nCache-Control: no-cache\r\n"
            f"mcp-session-id: {session}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        )


def _chunk(text: str) -> bytes:
    data = text.encode("utf-8")
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"
