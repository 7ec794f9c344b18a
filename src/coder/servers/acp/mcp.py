"""Converts the MCP servers that an editor passes with a session to settings."""

from __future__ import annotations

from typing import Any

import msgspec

from coder.config.schema import McpServer
from coder.servers.acp.params import McpServerGiven


def mcp_servers(given: list[Any]) -> tuple[dict[str, McpServer], list[str]]:
    """The servers by name, and the names of invalid ones."""
    found: dict[str, McpServer] = {}
    wrong: list[str] = []
    for at, one in enumerate(given):
        try:
            server = msgspec.convert(one, McpServerGiven)
            found[server.name] = _server(server)
        except (msgspec.ValidationError, ValueError):
            name = one.get("name") if isinstance(one, dict) else None
            wrong.append(str(name or f"mcpServers[{at}]")[:100])
    return found, wrong


def _server(given: McpServerGiven) -> McpServer:
    if given.type == "stdio" and given.command:
        env = {one.name: one.value for one in given.env}
        return McpServer(type="stdio", command=given.command, args=given.args, env=env)
    if given.type in ("http", "sse") and given.url:
        headers = {one.name: one.value for one in given.headers}
        return McpServer(type="http" if given.type == "http" else "sse", url=given.url, headers=headers)
    raise ValueError(given.type)
