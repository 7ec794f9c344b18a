"""A server that changes its tools while it is asked for them: what it has in the end is what is known."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from coder.config.schema import McpServer
from coder.extend.mcp.servers import MAX_TOOLS, Server, Servers
from coder.extend.mcp.shapes import Endpoint, RemoteTool, StdioEndpoint
from kit.mcp_client import until

# It tells of a change before each answer to the lists in `EARLY`, which are without it.
PROGRAM = """
import json, os, sys
early, asked = json.loads(os.environ["EARLY"]), 0
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, number = message["method"], message.get("id")
    if method == "initialize":
        can = {"tools": {"listChanged": True}}
        say(id=number, result={"protocolVersion": "2025-06-18", "capabilities": can})
    elif method == "tools/list":
        asked += 1
        if asked in early:
            say(method="notifications/tools/list_changed")
        say(id=number, result={"tools": [{"name": f"tool{asked}"}]})
    elif number is not None:
        say(id=number, error={"code": -32601, "message": "unknown"})
"""


@pytest.mark.parametrize("early", [[1], [1, 2], [1, 2, 3]])
def test_a_change_that_is_told_of_during_a_list_is_not_lost(tmp_path: Path, early: list[int]) -> None:
    async def reach(name: str, settings: McpServer) -> Endpoint:
        environment = {"PATH": os.environ["PATH"], "EARLY": str(early)}
        return StdioEndpoint([sys.executable, "-c", PROGRAM], tmp_path, environment)

    async def scenario() -> None:
        server = Server("s", McpServer(command="x"), reach, tmp_path)
        server.start()
        await server.settled()
        await until(lambda: [tool.name for tool in server.remotes] == [f"tool{len(early) + 1}"])
        await server.close()

    asyncio.run(scenario())


def test_there_is_a_bound_for_all_servers_together(tmp_path: Path) -> None:
    async def reach(name: str, settings: McpServer) -> Endpoint:
        raise AssertionError

    servers = Servers(dict.fromkeys("ab", McpServer(command="x")), reach, tmp_path)
    for server in servers.all.values():
        server.remotes = [RemoteTool(f"tool{at}", "", {}) for at in range(MAX_TOOLS - 3)]
    assert len(servers.tools()) == MAX_TOOLS
    assert [server.left_out for server in servers.all.values()] == [0, MAX_TOOLS - 6]
