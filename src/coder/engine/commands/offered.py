"""Commands that are neither built in nor a mode: prompts of MCP servers, and those of installed packages."""

from __future__ import annotations

import asyncio

from coder.engine.agent import Agent
from coder.protocol.modes import OfferedCommand


async def offered_commands(agent: Agent, *, described: bool = False) -> list[OfferedCommand]:
    """A server's prompts are known once somebody shows them (`Servers.watch_prompts`); packages are loaded
    only to be `described`."""
    from coder.engine.setup import installed

    packages = await asyncio.to_thread(installed, agent.root) if agent.plugins is None else agent.plugins
    found = [
        OfferedCommand(f"/{name}:{one.name}", f"(mcp:{name})", one.description, one.usage)
        for name, server in (agent.mcp.all.items() if agent.mcp is not None else ())
        for one in server.prompts
    ]
    offered = [one for one in packages if one.group == "coder.commands"]
    if offered:
        from coder.engine.plugins import about
        from coder.engine.setup import built_in_commands

        fixed = built_in_commands()
        found += [
            OfferedCommand(f"/{one.name}", f"(package:{one.package})", await about(one) if described else "")
            for one in offered
            if one.name not in fixed and "/" not in one.name
        ]
    return found
