"""The MCP servers of an agent: started when first wanted, started again after an end, ended with the agent.

A server that does not come up is named and missing; nothing else fails or waits for longer than its time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from coder.config.schema import McpServer
from coder.mcp.client import Connection, connect
from coder.mcp.endpoint import is_program
from coder.mcp.names import tool_name
from coder.mcp.shapes import CallOutcome, Endpoint, McpFault, RemoteTool
from coder.mcp.tools import McpTool
from coder.texts import Phrase

MAX_TOOLS = 100  # of all servers: every request carries them, and some providers take 128 with our own
_REFRESH_REST = 0.2  # seconds: some servers tell of a change whenever they are asked for the list
# What programs say where the sandbox keeps them from writing: npx and uvx want their caches.
_SHUT_OUT = ("EROFS", "EACCES", "Read-only file system", "Permission denied")

State = Literal["off", "waiting", "starting", "ready", "failed", "ended"]
Reach = Callable[[str, McpServer], Awaitable[Endpoint]]


class Server:
    """One server. Its tools stay known while it does not run, so that the model's list of tools is stable."""

    def __init__(self, name: str, settings: McpServer, reach: Reach, root: Path) -> None:
        self.name = name
        self.settings = settings
        self.remotes: list[RemoteTool] = []
        self.left_out = 0  # tools beyond the bound, which the model is not offered
        self.fault: Phrase | None = None  # why it does not run
        self.connection: Connection | None = None
        self._reach = reach
        self._root = root
        self._starting: asyncio.Task[None] | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._outdated = False  # it told of a change since it was last asked for its tools
        self._ended = False  # it ran, and ended by itself
        self._resting = False

    @property
    def state(self) -> State:
        if self.settings.disabled:
            return "off"
        if self.connection is not None:
            return "ready"
        if self._starting is not None:
            return "starting"
        if self._ended:
            return "ended"
        return "waiting" if self.fault is None else "failed"

    def start(self) -> None:
        """Returns at once. One that runs, is on its way, or is switched off stays as it is."""
        self._resting = False
        if self.state in ("off", "ready", "starting"):
            return
        self._ended = False
        self._starting = asyncio.create_task(self._connect())

    async def settled(self) -> None:
        """Until it runs or will not. Whoever stops waiting does not stop the start, nor it them."""
        starting = self._starting
        if starting is not None:
            await asyncio.wait({starting})
            if not starting.cancelled():
                starting.result()  # what nobody thought of must not go unseen

    async def call(
        self, tool: str, arguments: dict[str, Any], on_progress: Callable[[str], None]
    ) -> CallOutcome:
        """Raises `McpFault`. One that has ended since is started once more."""
        if self._resting:
            raise McpFault("servers.in_plan", name=self.name)
        if self.connection is None:
            self.start()
            await self.settled()
        if self.connection is None:
            raise McpFault(self.fault or Phrase("servers.unavailable", name=self.name, why="-"))
        return await self.connection.call(
            tool, arguments, timeout_ms=self.settings.timeout_ms, on_progress=on_progress
        )

    async def rest(self) -> None:
        """End it until it is started again; what it can do stays known."""
        self._resting = True
        await self.close()
        if not self._resting:  # it was wanted again meanwhile
            self.start()

    async def close(self) -> None:
        for task in (self._starting, self._refreshing):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        self._starting = self._refreshing = None
        connection, self.connection = self.connection, None
        if connection is not None:
            await connection.close()

    async def _connect(self) -> None:
        self._outdated = False
        try:
            endpoint = await self._reach(self.name, self.settings)
            self.connection = await connect(
                self.name,
                endpoint,
                root=self._root,
                startup_timeout_ms=self.settings.startup_timeout_ms,
                on_tools_changed=self._tools_changed,
                on_closed=self._closed,
            )
            self.fault = None
            self._offer(self.connection.tools)
            if self._outdated:
                self._tools_changed()
        except McpFault as fault:
            self.fault = self._explained(fault)
        except OSError as error:  # the sandbox has no temporary folder, say
            self.fault = Phrase("servers.unavailable", name=self.name, why=error.strerror or str(error))
        finally:
            self._starting = None

    def _explained(self, fault: McpFault) -> Phrase:
        """With what to do where a program seems to have wanted to write what the sandbox keeps from it."""
        confined = is_program(self.settings) and self.settings.sandbox
        if confined and any(sign in str(fault) for sign in _SHUT_OUT):
            return Phrase("servers.confined", why=fault.phrase, name=self.name)
        return fault.phrase

    def _offer(self, remotes: list[RemoteTool]) -> None:
        patterns = self.settings.tools or ["*"]
        wanted = [one for one in remotes if any(fnmatchcase(one.name, pattern) for pattern in patterns)]
        self.remotes = wanted

    def _tools_changed(self) -> None:
        """Also while the list is being read: what is on its way may be without the change."""
        self._outdated = True
        if self._refreshing is None and self.connection is not None:
            self._refreshing = asyncio.create_task(self._refresh())

    async def _refresh(self) -> None:
        try:
            while self._outdated and self.connection is not None:
                self._outdated = False
                with contextlib.suppress(McpFault):  # what was known stays
                    self._offer(await self.connection.refresh_tools())
                await asyncio.sleep(_REFRESH_REST)
        finally:
            self._refreshing = None

    def _closed(self, why: Phrase) -> None:
        self.connection = None
        self._ended = True
        self.fault = why


class Servers:
    """All of them, in the order of the settings."""

    def __init__(self, settings: Mapping[str, McpServer], reach: Reach, root: Path) -> None:
        self.all = {name: Server(name, one, reach, root) for name, one in settings.items()}
        self._closed = False

    def start(self) -> None:
        """Those that have not been tried yet, or rest; none once all are closed. Returns at once; needs a
        running loop."""
        for server in self.all.values() if not self._closed else ():
            if server.state == "waiting":
                server.start()

    async def settled(self) -> None:
        """Until each runs or will not."""
        await asyncio.gather(*(server.settled() for server in self.all.values()))

    @property
    def starting(self) -> list[str]:
        return [name for name, server in self.all.items() if server.state == "starting"]

    def tools(self) -> list[McpTool]:
        """What the model can be offered now, as far as the bound allows."""
        made: dict[str, McpTool] = {}
        for server in self.all.values():
            remotes = server.remotes[: MAX_TOOLS - len(made)] if server.state != "off" else []
            server.left_out = len(server.remotes) - len(remotes)
            for remote in remotes:
                name = tool_name(server.name, remote.name, made)
                made.setdefault(name, McpTool(name, server, remote, covered=is_program(server.settings)))
        return list(made.values())

    async def rest(self) -> None:
        await asyncio.gather(*(server.rest() for server in self.all.values()))

    async def close(self) -> None:
        """For good."""
        self._closed = True
        await asyncio.gather(*(server.close() for server in self.all.values()))
