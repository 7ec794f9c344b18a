"""A server that is to rest, and to run again, while it is still on its way."""

from __future__ import annotations

import asyncio
from pathlib import Path

from coder.config.schema import McpServer
from coder.extend.mcp.servers import Server
from coder.extend.mcp.shapes import Endpoint
from kit.mcp_client import kit


def test_whoever_waits_for_a_start_that_is_given_up_is_not_cancelled(tmp_path: Path) -> None:
    reached = 0

    async def reach(name: str, settings: McpServer) -> Endpoint:
        nonlocal reached
        reached += 1
        if reached == 1:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)  # to give up takes a moment
        return kit(tmp_path)

    async def scenario() -> None:
        server = Server("s", McpServer(command="x"), reach, tmp_path)
        server.start()
        await asyncio.sleep(0)
        resting = asyncio.create_task(server.rest())
        await asyncio.sleep(0)
        server.start()  # while the first one is being given up
        await server.settled()
        await resting
        await server.settled()
        assert (server.state, reached) == ("ready", 2)
        await server.close()

    asyncio.run(scenario())
