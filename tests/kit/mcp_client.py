"""A client of an MCP server, the kit's or another, and whether anything of the server stays behind."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from coder.base.http.client import HttpClient
from coder.extend.mcp.client import CallOutcome, Connection, HttpEndpoint, StdioEndpoint, connect
from coder.extend.mcp.jsonrpc import ListKind
from coder.texts import Text

KIT_SERVER = Path(__file__).parent / "mcp_server.py"


def kit(root: Path, **told: Any) -> StdioEndpoint:
    """The kit's own server, told how to behave."""
    text = json.dumps(told)
    if len(text) > 50_000:  # more than an argument may hold
        (root / "told.json").write_text(text, encoding="utf-8")
        text = f"@{root / 'told.json'}"
    return program(root, sys.executable, "-I", "-S", str(KIT_SERVER), text)


def program(root: Path, *argv: str) -> StdioEndpoint:
    return StdioEndpoint(list(argv), root, {"PATH": os.environ["PATH"], "HOME": str(root)})


class McpClient:
    """A connection and what was heard of it."""

    def __init__(self, root: Path = Path()) -> None:
        self.root = root
        self.on_list_changed: Callable[[ListKind], None] = self.on_changed
        self.changed = 0
        self.kinds: set[ListKind] = set()
        self.closed: list[Text] = []
        self.connection: Connection

    def on_changed(self, kind: ListKind) -> None:
        self.changed += 1
        self.kinds.add(kind)

    async def open(
        self,
        root: Path,
        endpoint: StdioEndpoint | HttpEndpoint,
        *,
        within_ms: int = 30_000,
        http: HttpClient | None = None,
    ) -> Connection:
        self.connection = await connect(
            "kit",
            endpoint,
            root=root,
            startup_timeout_ms=within_ms,
            http=http,
            on_list_changed=self.on_changed,
            on_closed=self.closed.append,
        )
        return self.connection

    async def call(self, tool: str, *, timeout_ms: int = 30_000, **arguments: Any) -> CallOutcome:
        return await self.connection.call(
            tool, arguments, timeout_ms=timeout_ms, on_progress=lambda text: None
        )


@asynccontextmanager
async def connected(
    root: Path, endpoint: StdioEndpoint | HttpEndpoint | None = None, *, within_ms: int = 30_000, **told: Any
) -> AsyncGenerator[McpClient, None]:
    """A client of the kit's server (or another), closed at the end."""
    client = McpClient()
    await client.open(root, endpoint or kit(root, **told), within_ms=within_ms)
    try:
        yield client
    finally:
        await client.connection.close()


async def until(condition: Callable[[], object], within: float = 30.0) -> None:
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in another process
            await asyncio.sleep(0.005)


def running(pid: int) -> bool:
    """Whether a process is there and is no zombie of somebody else's."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def gone(pid: int, within: float = 20.0) -> bool:
    deadline = time.monotonic() + within
    while running(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not running(pid)
