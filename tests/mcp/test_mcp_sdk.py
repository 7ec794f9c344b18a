"""Real servers: those of the official SDK, with both protocols, over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from coder.extend.mcp.client import Connection, HttpEndpoint, McpError, StdioEndpoint
from coder.extend.mcp.http_transport import HttpTransport
from coder.extend.mcp.stdio_transport import StdioTransport
from coder.extend.mcp.versions import legacy_handshake
from kit.mcp_client import McpClient, connected, until

SERVER = Path(__file__).parent.parent / "kit" / "mcp_sdk_server.py"


def stdio(root: Path) -> StdioEndpoint:
    return StdioEndpoint([sys.executable, str(SERVER), "stdio"], root, dict(os.environ))


@pytest.fixture(scope="module")
def address() -> Iterator[HttpEndpoint]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    argv = [sys.executable, str(SERVER), "http", str(port)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _wait_for(port)
            yield HttpEndpoint(f"http://127.0.0.1:{port}/mcp")
        finally:
            process.terminate()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


@asynccontextmanager
async def legacy_client(
    root: Path, endpoint: StdioEndpoint | HttpEndpoint
) -> AsyncGenerator[McpClient, None]:
    """The SDK's servers know both protocols; this client only the handshake of the legacy one."""
    client = McpClient(root)
    wire: StdioTransport | HttpTransport
    if isinstance(endpoint, StdioEndpoint):
        wire = StdioTransport("sdk", endpoint, client, client.closed.append)
    else:
        wire = HttpTransport("sdk", endpoint, client)
    client.connection = Connection("sdk", wire, await legacy_handshake("sdk", wire))
    await client.connection.refresh_tools()
    try:
        yield client
    finally:
        await client.connection.close()


async def work_through(client: McpClient, *, modern: bool) -> None:
    connection = client.connection
    assert connection.version == ("2026-07-28" if modern else "2025-11-25")
    assert connection.server == "sdk 9.9"
    assert connection.instructions == "Use with care."
    tools = {tool.name: tool for tool in connection.tools}
    assert tools["add"].description == "Add two numbers."
    assert tools["add"].parameters["required"] == ["a", "b"]
    assert '"total": 3' in (await client.call("add", a=1, b=2)).text
    failed = await client.call("boom")
    assert not failed.ok
    assert failed.text == "Error executing tool boom"
    assert not (await client.call("add", a="x", b=2)).ok
    assert (await client.call("picture")).text == "[image/png, 1,234 bytes, not shown]"
    heard: list[str] = []
    outcome = await connection.call("slow", {"steps": 3}, timeout_ms=30_000, on_progress=heard.append)
    assert (outcome.text, heard) == ("done", ["1/3 working", "2/3 working", "3/3 working"])
    if modern:
        with pytest.raises(McpError, match="wants an answer"):
            await client.call("question")
    await cancel_one(client)
    await client.call("grow")
    await until(lambda: client.changed > 0)
    assert "grown" in [tool.name for tool in await connection.refresh_tools()]


async def cancel_one(client: McpClient) -> None:
    before = (await client.call("ends")).text
    heard: list[str] = []
    call = asyncio.create_task(
        client.connection.call("never", {}, timeout_ms=60_000, on_progress=heard.append)
    )
    await until(lambda: heard)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    async with asyncio.timeout(30):
        while (await client.call("ends")).text == before:  # noqa: ASYNC110 - it ends in another process
            await asyncio.sleep(0.01)


@pytest.mark.thorough
def test_stdio_in_the_new_era(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with connected(tmp_path, stdio(tmp_path)) as client:
            await work_through(client, modern=True)

    asyncio.run(scenario())


@pytest.mark.thorough
def test_stdio_in_the_old_era(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with legacy_client(tmp_path, stdio(tmp_path)) as client:
            await work_through(client, modern=False)

    asyncio.run(scenario())


def test_http_in_the_new_era(tmp_path: Path, address: HttpEndpoint) -> None:
    async def scenario() -> None:
        async with connected(tmp_path, address) as client:
            await work_through(client, modern=True)

    asyncio.run(scenario())


@pytest.mark.thorough
def test_http_in_the_old_era(tmp_path: Path, address: HttpEndpoint) -> None:
    async def scenario() -> None:
        async with legacy_client(tmp_path, address) as client:
            await work_through(client, modern=False)

    asyncio.run(scenario())
