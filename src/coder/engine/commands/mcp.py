"""`/mcp`: the MCP servers, what became of each, and starting one again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from coder.engine.agent import Agent
from coder.engine.commands.modes import Reply
from coder.mcp.names import tool_name
from coder.texts import Joined, Phrase, Said
from coder.tools.base import MCP_PREFIX

if TYPE_CHECKING:
    from coder.mcp.servers import Server, Servers


_MOST_RESOURCES = 20  # of a server, in a list


async def mcp_command(agent: Agent, args: str) -> Reply:
    servers = agent.mcp
    if servers is None:
        return Reply(Phrase("servers.none"))
    word, _, name = args.partition(" ")
    if not args:
        if agent.front.kind != "interactive":  # nobody could look again: each start has its time limit
            await servers.settled()
        lines = [*server_lines(servers), *await offer_lines(servers)]
        return Reply(Joined(lines), data={"servers": server_data(servers)})
    if word != "restart" or not name.strip():
        return Reply(Phrase("servers.usage"), ok=False, data={"usage": True})
    return await _restart(agent, servers, name.strip())


def mcp_rows(agent: Agent) -> list[tuple[str, Said]]:
    """A row for `/status`; none where there are no servers."""
    if agent.mcp is None:
        return []
    states = [f"{name} " + Phrase(f"servers.state.{one.state}") for name, one in agent.mcp.all.items()]
    return [("mcp", Joined(states, ", "))]


async def _restart(agent: Agent, servers: Servers, name: str) -> Reply:
    server = servers.all.get(name)
    if server is None:
        names = ", ".join(servers.all)
        return Reply(Phrase("servers.no_server", name=name, names=names), ok=False)
    if agent.mode == "plan":
        return Reply(Phrase("servers.in_plan", name=name), ok=False)
    if server.state == "off":
        return Reply(Phrase("servers.switched_off", name=name), ok=False)
    await server.close()
    server.start()
    await server.settled()
    if server.fault is not None:
        return Reply(server.fault, ok=False)
    return Reply(Joined([Phrase("servers.restarted", name=name), *_lines(server)]))


def server_lines(servers: Servers) -> list[Said]:
    """For a person: a line a server, below it what it can do or why it does not run."""
    return [line for server in servers.all.values() for line in _lines(server)]


def _lines(server: Server) -> list[Said]:
    words: list[Said] = [Phrase(f"servers.state.{server.state}")]
    if server.connection is not None:
        words += [Phrase("servers.tools", n=len(server.remotes)), server.connection.server]
    lines: list[Said] = [f"{server.name}: " + Joined(filter(None, words), " · ")]
    if server.state == "ready":
        lines += [f"  {_shown_name(server.name, remote.name)}" for remote in server.remotes]
    elif server.fault is not None:
        lines.append("  " + server.fault)
    return lines


async def offer_lines(servers: Servers) -> list[Said]:
    """The prompts and resources that each offers, as they are typed."""
    found = await asyncio.gather(*(_offers(server) for server in servers.all.values()))
    return [line for lines in found for line in lines]


async def _offers(server: Server) -> list[Said]:
    from coder.mcp.shapes import McpFault

    connection, timeout = server.connection, server.settings.timeout_ms
    lines: list[Said] = []
    if connection is None:
        return lines
    try:
        for prompt in await connection.prompts(timeout_ms=timeout):
            typed = f"/{server.name}:{prompt.name} {prompt.usage}".rstrip()
            lines.append(f"  {typed}  {prompt.description}".rstrip())
        resources = await connection.resources(timeout_ms=timeout)
    except McpFault as fault:
        return [*lines, "  " + fault.phrase]
    lines += [f"  @{server.name}:{one.uri}  {one.name}".rstrip() for one in resources[:_MOST_RESOURCES]]
    if len(resources) > _MOST_RESOURCES:
        lines.append("  " + Phrase("servers.more_resources", n=len(resources) - _MOST_RESOURCES))
    return lines


def _shown_name(server: str, tool: str) -> str:
    """With the model's name for it where that is another: permissions and records have it."""
    name = tool_name(server, tool)
    return tool if name == f"{MCP_PREFIX}{server}__{tool}" else f"{tool} ({name})"


def server_data(servers: Servers) -> list[dict[str, object]]:
    """For programs."""
    return [
        {
            "name": server.name,
            "state": server.state,
            "server": server.connection.server if server.connection is not None else "",
            "protocol": server.connection.version if server.connection is not None else "",
            "tools": [remote.name for remote in server.remotes],
            "fault": str(server.fault) if server.fault is not None and server.state != "ready" else "",
        }
        for server in servers.all.values()
    ]
