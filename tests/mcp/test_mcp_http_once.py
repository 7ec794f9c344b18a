"""A call to a server at an address is made once: what it did cannot be taken back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from coder.extend.mcp.client import HttpEndpoint, McpError
from kit.mcp_client import connected
from kit.mcp_http import http_server


def test_a_call_that_was_read_and_not_answered_is_not_made_again(tmp_path: Path) -> None:
    """On a connection that was kept from the requests before it: there the client sends others again."""

    async def scenario() -> None:
        async with http_server("legacy") as server:
            server.on["tools/call"] = lambda exchange: exchange.writer.close()
            async with connected(tmp_path, HttpEndpoint(server.url)) as client:
                with pytest.raises(McpError, match="no answer came"):
                    await client.call("echo", text="x")
            assert server.rpcs().count("tools/call") == 1

    asyncio.run(scenario())
