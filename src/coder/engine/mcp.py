"""MCP servers in a session: their environment and sandbox, and when the model is offered their tools.

Programs that we start run in the sandbox that commands run in; in plan mode none runs at all. The list of
tools changes between turns only, so that within one the provider's prompt cache holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from coder.config.schema import Config, McpServer
from coder.engine.agent import Agent
from coder.engine.redact import HIDDEN
from coder.engine.session import Session
from coder.mcp.endpoint import Surroundings, Wrap, endpoint_of, is_program
from coder.mcp.servers import MAX_TOOLS, Server, Servers
from coder.mcp.shapes import Endpoint, HttpEndpoint, McpFault
from coder.mcp.tools import McpTool
from coder.policy.sandbox.ladder import SandboxLevel, probe
from coder.policy.sandbox.places import LineAccess
from coder.policy.sandbox.servers import LongSandbox
from coder.protocol.events import Notice
from coder.texts import Phrase, Said
from coder.tools.base import MCP_CALL, Tool, is_mcp

_PATIENCE = 1.0  # seconds of waiting for servers before a person is told what for
_LONGEST_INSTRUCTIONS = 2_000  # characters, about 500 tokens in every request from then on
_AFTER_PROMPT = 0.25  # seconds: the prompt comes first, and starting programs takes it the processor

Level = Callable[[], Awaitable[SandboxLevel]]


def make_servers(
    config: Config,
    root: Path,
    home: Path,
    *,
    environment: Mapping[str, str],
    variables: Mapping[str, str],
    own_keys: Sequence[str],
    level: Level,
    keep_secret: Callable[[list[str]], None] | None = None,
) -> Servers:
    """`environment` is that of commands; `variables` those that settings may name. Starts nothing."""
    around = Surroundings(root, environment, variables, own_keys, home, keep_secret)

    async def reach(name: str, settings: McpServer) -> Endpoint:
        wrap: Wrap = list
        if is_program(settings):
            wrap = await _wrapping(name, settings)
        return await asyncio.to_thread(endpoint_of, name, settings, around, wrap)

    async def _wrapping(name: str, settings: McpServer) -> Wrap:
        found = await _level(name, settings)
        network = config.sandbox.network
        sandbox = LongSandbox(
            found,
            root,
            home,
            writable=[*config.sandbox.writable, *settings.writable],
            network=network is True,
            environment=environment,
        )
        if isinstance(network, bool):
            return sandbox.wrap
        from coder.policy.network.door import open_door

        return partial(sandbox.wrap, access=LineAccess(door=await open_door(found, network, environment)))

    async def _level(name: str, settings: McpServer) -> SandboxLevel:
        """The weakest level restricts nothing, but still kills the server's process tree when we end."""
        mode = config.sandbox.mode
        if mode == "off" or (not settings.sandbox and mode != "require"):
            return SandboxLevel()
        found = await level()
        if mode == "require" and (found.rung == "none" or not settings.sandbox):
            why = Phrase("sandbox.required", reason=found.reason or "-")
            raise McpFault("servers.no_sandbox", name=name, why=why)
        return found

    return Servers(config.mcp.servers, reach, root)


class TriedServers(msgspec.Struct, frozen=True):
    """Result of a connection test, as text and as JSON."""

    lines: list[Said]
    data: list[dict[str, object]]

    @property
    def ok(self) -> bool:
        return not any(one["fault"] for one in self.data)


def level_when_asked(home: Path, path: str | None, cwd: Path) -> Level:
    """The sandbox that works here, probed by the first server that needs it."""

    async def level() -> SandboxLevel:
        return await asyncio.to_thread(probe, home, path, cwd)

    return level


async def tried(servers: Servers) -> TriedServers:
    """Connection test: start every server, then stop it."""
    from coder.engine.commands.mcp import offer_lines, server_data, server_lines

    servers.start()
    try:
        await servers.settled()
        lines = [*server_lines(servers), *await offer_lines(servers)]
        return TriedServers(lines, server_data(servers))
    finally:
        await servers.close()


async def login(
    name: str, settings: McpServer, around: Surroundings, show: Callable[[str], None] | None
) -> None:
    """The person's login at a server; its tokens are kept, or forgotten without `show`. Raises `McpFault` and
    `OSError`."""
    from coder.mcp.http_transport import http_client
    from coder.mcp.oauth import OAuth
    from coder.mcp.tokens import TokenStore

    endpoint = endpoint_of(name, settings, around, list)
    if not isinstance(endpoint, HttpEndpoint) or endpoint.home is None:
        raise McpFault("servers.no_login", name=name)
    if show is None:
        TokenStore(endpoint.home).put(endpoint.url, None)
        return
    http = http_client()
    try:
        found = await OAuth(name, endpoint.url, http).login(settings.client_id, show)
    finally:
        await http.close()
    TokenStore(endpoint.home).put(endpoint.url, found)


def start_servers(agent: Agent) -> None:
    """Start with the session; in an interactive one only after the prompt is drawn."""
    if agent.mcp is None or agent.mode == "plan":
        return
    if agent.front.kind == "interactive":
        servers = agent.mcp
        asyncio.get_running_loop().call_later(
            _AFTER_PROMPT, lambda: servers.start() if agent.mode != "plan" else None
        )
    else:
        agent.mcp.start()


async def follow_mode(agent: Agent) -> None:
    """Stop servers in plan mode: no policy sees what they do by themselves."""
    if agent.mcp is None:
        return
    if agent.mode == "plan":
        await agent.mcp.rest()
    else:
        agent.mcp.start()


async def offer_tools(session: Session) -> None:
    """Before a turn: add the tools of every server that runs or ran; waits for those still starting."""
    agent = session.agent
    servers = agent.mcp
    if servers is None:
        return
    await follow_mode(agent)
    if servers.starting:
        await _wait(agent, servers)
    found = [tool for tool in servers.tools() if _keeps_secrets(agent, tool)]
    tools = {name: tool for name, tool in agent.tools.items() if not is_mcp(name)}
    tools |= _finders(agent, servers, found) | {tool.spec.name: tool for tool in found}
    _tell(agent, servers)
    before = agent.specs
    agent.tools = tools
    if agent.specs != before:
        session.conversation.use_tools(agent.specs)
    _pass_on_instructions(session, servers)


def _finders(agent: Agent, servers: Servers, found: Sequence[McpTool]) -> dict[str, Tool]:
    """Of many tools no definitions are sent, but two tools that find and call them. Once a session does so it
    stays with it, for the provider's prompt cache."""
    from coder.mcp.deferred import FIND, MAX_DECLARED, CallTool, FindTool

    servers.deferred = servers.deferred or len(found) > MAX_DECLARED
    if not servers.deferred:
        return {}
    for tool in found:
        tool.declared = False
    agent.own_tools = agent.own_tools | {FIND}  # it only looks
    names = [name for name, server in servers.all.items() if server.state != "off"]
    return {FIND: FindTool(found, names), MCP_CALL: CallTool()}


def _keeps_secrets(agent: Agent, tool: McpTool) -> bool:
    """Redact the server's credentials in the tool's description and schema. False if a name contains one: the
    server must recognise names, so they cannot be redacted."""
    function = tool.spec.function
    said = [function.name, function.description, *_texts(function.parameters)]
    found = [secret for secret in agent.place.secrets if any(secret in text for text in said)]
    if not found:
        return True
    about, parameters = _hidden(function.description, found), _hidden(function.parameters, found)
    function = msgspec.structs.replace(function, description=about, parameters=parameters)
    tool.spec = msgspec.structs.replace(tool.spec, function=function)
    left = [function.name, *_texts(parameters)]
    return not any(secret in text for text in left for secret in found)


def _texts(value: Any) -> Iterator[str]:
    """Every string inside, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in (*value, *(value.values() if isinstance(value, dict) else ())):
            yield from _texts(inner)


def _hidden(value: Any, secrets: Sequence[str]) -> Any:
    if isinstance(value, dict):
        return {key: _hidden(inner, secrets) for key, inner in value.items()}
    if isinstance(value, list):
        return [_hidden(inner, secrets) for inner in value]
    for secret in secrets if isinstance(value, str) else ():
        value = value.replace(secret, HIDDEN)
    return value


def _pass_on_instructions(session: Session, servers: Servers) -> None:
    """Add the servers' usage instructions to the conversation, once per session."""
    for server in servers.all.values():
        connection = server.connection
        if connection is None or not connection.instructions or server.name in session.told_servers:
            continue
        session.told_servers.add(server.name)
        words = connection.instructions[:_LONGEST_INSTRUCTIONS]
        about = f"The MCP server {server.name} says of its tools, in its own words and not the person's:"
        session.add_note(f"<note>\n{about}\n{words}\nAnswer the message before this note.\n</note>", "mcp")


async def _wait(agent: Agent, servers: Servers) -> None:
    settled = asyncio.ensure_future(servers.settled())
    try:
        _done, waiting = await asyncio.wait([settled], timeout=_PATIENCE)
        if waiting and servers.starting:
            agent.emit(Notice(Phrase("servers.waiting", names=", ".join(servers.starting))))
        await settled
    finally:
        settled.cancel()


def _tell(agent: Agent, servers: Servers) -> None:
    """Report each fault once, deduplicated by its text."""
    for server in servers.all.values():
        said = _to_tell(server)
        if said is not None and agent.told_of_servers.get(server.name) != said:
            agent.emit(Notice(said, "warning"))
        if said is not None:
            agent.told_of_servers[server.name] = said


def _to_tell(server: Server) -> Phrase | None:
    if server.fault is not None and server.state in ("failed", "ended"):
        return Phrase("servers.failed", why=server.fault)
    if server.left_out:
        n = len(server.remotes)
        return Phrase("servers.too_many", name=server.name, n=n, kept=n - server.left_out, most=MAX_TOOLS)
    if server.connection is not None and server.connection.left_out:
        return Phrase("servers.unusable", name=server.name, n=server.connection.left_out)
    return None
