"""Lifecycle of an agent's MCP servers: started lazily, restarted after an exit, closed with the agent.

A server that does not start is reported and missing; nothing else fails, and nothing waits beyond its
timeout.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from coder.config.schema import McpServer
from coder.extend.mcp.client import Connection, connect
from coder.extend.mcp.endpoint import is_program
from coder.extend.mcp.jsonrpc import ListKind
from coder.extend.mcp.mcp_tools import McpTool
from coder.extend.mcp.shapes import CallOutcome, Endpoint, McpError, RemoteTool, tool_name
from coder.texts import Text

if TYPE_CHECKING:
    from coder.extend.mcp.offers import RemotePrompt, RemoteResource

MAX_TOOLS = 2_000  # of all servers
_RESOURCES_FRESH = 15.0  # seconds that a list is shown before it is asked for again
_REFRESH_REST = 0.2  # seconds of throttling: some servers report a change whenever they are listed
# Errors of programs that the sandbox keeps from writing: npx and uvx need their caches.
_SHUT_OUT = ("EROFS", "EACCES", "Read-only file system", "Permission denied")

State = Literal["off", "waiting", "starting", "ready", "failed", "ended"]
Reach = Callable[[str, McpServer], Awaitable[Endpoint]]
PromptsChanged = Callable[[], Awaitable[None]]


class Server:
    """One server. Its tools stay listed while it is down, so that the model's list of tools is stable."""

    def __init__(self, name: str, settings: McpServer, reach: Reach, root: Path) -> None:
        self.name = name
        self.settings = settings
        self.remotes: list[RemoteTool] = []
        self.known: dict[str, RemoteTool] = {}  # by name, as first offered or since approved by the person
        self.left_out = 0  # tools beyond `MAX_TOOLS`
        self.fault: Text | None = None  # why it does not run
        self.connection: Connection | None = None
        self._reach = reach
        self._root = root
        self._starting: asyncio.Task[None] | None = None
        self.prompts: list[RemotePrompt] = []  # as last listed, from `watch_prompts` on
        self._prompts_changed: PromptsChanged | None = None
        self._resources: list[RemoteResource] = []
        self._resources_asked = float("-inf")
        self._resources_changed: Callable[[], None] = lambda: None
        self._refreshing: dict[ListKind, asyncio.Task[None]] = {}
        self._outdated: set[ListKind] = set()  # it reported a change since they were last listed
        self._ended = False  # it exited by itself
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
        """Start in the background. Idempotent; does nothing if disabled."""
        self._resting = False
        if self.state in ("off", "ready", "starting"):
            return
        self._ended = False
        self._starting = asyncio.create_task(self._connect())

    async def settled(self) -> None:
        """Wait until it runs or has failed. Cancelling the wait does not cancel the start."""
        starting = self._starting
        if starting is not None:
            await asyncio.wait({starting})
            if not starting.cancelled():
                starting.result()  # re-raise unexpected exceptions

    async def call(
        self, tool: str, arguments: dict[str, Any], on_progress: Callable[[str], None]
    ) -> CallOutcome:
        """Raises `McpError`."""
        connection = await self.connected()
        return await connection.call(
            tool, arguments, timeout_ms=self.settings.timeout_ms, on_progress=on_progress
        )

    async def connected(self) -> Connection:
        """Raises `McpError`. Restarts a server that has exited."""
        if self._resting:
            raise McpError("servers.in_plan", name=self.name)
        if self.connection is None:
            self.start()
            await self.settled()
        if self.connection is None:
            raise McpError(self.fault or Text("servers.unavailable", name=self.name, why="-"))
        return self.connection

    async def rest(self) -> None:
        """Stop it until `start`; its tools stay listed."""
        self._resting = True
        await self.close()
        if not self._resting:  # `start` was called meanwhile
            self.start()

    async def close(self) -> None:
        for task in (self._starting, *self._refreshing.values()):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        self._starting = None
        self._refreshing.clear()
        connection, self.connection = self.connection, None
        if connection is not None:
            await connection.close()

    async def _connect(self) -> None:
        self._outdated.clear()
        try:
            endpoint = await self._reach(self.name, self.settings)
            self.connection = await connect(
                self.name,
                endpoint,
                root=self._root,
                startup_timeout_ms=self.settings.startup_timeout_ms,
                on_list_changed=self._list_changed,
                on_closed=self._closed,
            )
            self.fault = None
            self._offer(self.connection.tools)
            for kind in (*self._outdated, "prompts"):
                self._list_changed(kind)
        except McpError as fault:
            self.fault = self._explained(fault)
        except OSError as error:  # e.g. the sandbox has no temporary directory
            self.fault = Text("servers.unavailable", name=self.name, why=error.strerror or str(error))
        finally:
            self._starting = None

    def _explained(self, fault: McpError) -> Text:
        """Adds advice if the sandbox seems to have denied a write."""
        confined = is_program(self.settings) and self.settings.sandbox
        if confined and any(sign in str(fault) for sign in _SHUT_OUT):
            return Text("servers.confined", why=fault.phrase, name=self.name)
        return fault.phrase

    def _offer(self, remotes: list[RemoteTool]) -> None:
        patterns = self.settings.tools or ["*"]
        wanted = [one for one in remotes if any(fnmatchcase(one.name, pattern) for pattern in patterns)]
        self.remotes = wanted

    def watch_prompts(self, changed: PromptsChanged) -> None:
        """List its prompts from now on whenever it connects or reports a change."""
        self._prompts_changed = changed
        self._list_changed("prompts")

    def resources(self, changed: Callable[[], None]) -> list[RemoteResource]:
        """As last listed, of a server that runs. Listed again in the background; `changed` is called where
        they are others."""
        if self.connection is None:
            return []
        now = time.monotonic()
        if now - self._resources_asked > _RESOURCES_FRESH:
            self._resources_asked, self._resources_changed = now, changed
            self._list_changed("resources")
        return self._resources

    def _list_changed(self, kind: ListKind) -> None:
        """Also refresh again if a refresh is running: its list may predate the change."""
        if kind == "prompts" and self._prompts_changed is None:  # nobody shows them
            return
        self._outdated.add(kind)
        if kind not in self._refreshing and self.connection is not None:
            self._refreshing[kind] = asyncio.create_task(self._refresh(kind))

    async def _refresh(self, kind: ListKind) -> None:
        try:
            while kind in self._outdated and self.connection is not None:
                self._outdated.discard(kind)
                with contextlib.suppress(McpError):  # keep the old list
                    if kind == "tools":
                        self._offer(await self.connection.refresh_tools())
                    elif kind == "prompts":
                        await self._list_prompts(self.connection)
                    else:
                        await self._list_resources(self.connection)
                await asyncio.sleep(_REFRESH_REST)
        finally:
            self._refreshing.pop(kind, None)

    async def _list_prompts(self, connection: Connection) -> None:
        found = await connection.prompts(timeout_ms=self.settings.timeout_ms)
        if found != self.prompts and self._prompts_changed is not None:
            self.prompts = found
            await self._prompts_changed()

    async def _list_resources(self, connection: Connection) -> None:
        found = await connection.resources(timeout_ms=self.settings.timeout_ms)
        if found != self._resources:
            self._resources = found
            self._resources_changed()

    def _closed(self, why: Text) -> None:
        self.connection = None
        self._ended = True
        self.fault = why


class Servers:
    """All servers, in the order of the settings."""

    def __init__(self, settings: Mapping[str, McpServer], reach: Reach, root: Path) -> None:
        self.all = {name: Server(name, one, reach, root) for name, one in settings.items()}
        self.deferred = False  # its tools are found on demand, from the first time on that they are many
        self._closed = False

    def start(self) -> None:
        """Start untried and stopped servers in the background, unless closed. Needs a running loop."""
        for server in self.all.values() if not self._closed else ():
            if server.state == "waiting":
                server.start()

    async def settled(self) -> None:
        """Wait until each runs or has failed."""
        await asyncio.gather(*(server.settled() for server in self.all.values()))

    @property
    def starting(self) -> list[str]:
        return [name for name, server in self.all.items() if server.state == "starting"]

    def tools(self) -> list[McpTool]:
        """The tools to offer the model, at most `MAX_TOOLS`."""
        made: dict[str, McpTool] = {}
        for server in self.all.values():
            remotes = server.remotes[: MAX_TOOLS - len(made)] if server.state != "off" else []
            server.left_out = len(server.remotes) - len(remotes)
            for remote in remotes:
                name = tool_name(server.name, remote.name, made)
                changed = server.known.setdefault(remote.name, remote) != remote
                covered = is_program(server.settings)
                made.setdefault(name, McpTool(name, server, remote, covered=covered, changed=changed))
        return list(made.values())

    def watch_prompts(self, changed: PromptsChanged) -> None:
        """Keep the servers' prompts current from now on; `changed` is called when they are others."""
        for server in self.all.values():
            server.watch_prompts(changed)

    async def rest(self) -> None:
        await asyncio.gather(*(server.rest() for server in self.all.values()))

    async def close(self) -> None:
        """For good."""
        self._closed = True
        await asyncio.gather(*(server.close() for server in self.all.values()))
