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
from coder.context.attachments import mentioned_paths
from coder.engine.agent import Agent
from coder.engine.commands.extensions import offer_lines, server_data, server_lines
from coder.engine.redactor import HIDDEN
from coder.engine.session import Session
from coder.extend.mcp.client import Connection
from coder.extend.mcp.deferred import FIND, MAX_DECLARED, CallTool, FindTool
from coder.extend.mcp.endpoint import Surroundings, Wrap, endpoint_of, is_program
from coder.extend.mcp.http_transport import http_client
from coder.extend.mcp.mcp_tools import McpTool
from coder.extend.mcp.oauth import OAuth
from coder.extend.mcp.offers import RemotePrompt
from coder.extend.mcp.servers import MAX_TOOLS, Server, Servers
from coder.extend.mcp.shapes import Endpoint, HttpEndpoint, McpError
from coder.extend.mcp.tokens import TokenStore
from coder.extend.modes.template import ModeFault
from coder.extend.modes.values import words_of
from coder.policy.network.door import open_door
from coder.policy.sandbox.backends import LongSandbox, SandboxLevel, probe
from coder.policy.sandbox.places import LineAccess
from coder.protocol.events import Notice
from coder.texts import AnyText, Text
from coder.tools.tool import MCP_CALL, Tool, is_mcp

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

        return partial(sandbox.wrap, access=LineAccess(door=await open_door(found, network, environment)))

    async def _level(name: str, settings: McpServer) -> SandboxLevel:
        """The weakest level restricts nothing, but still kills the server's process tree when we end."""
        mode = config.sandbox.mode
        if mode == "off" or (not settings.sandbox and mode != "require"):
            return SandboxLevel()
        found = await level()
        if mode == "require" and (found.backend == "none" or not settings.sandbox):
            why = Text("sandbox.required", reason=found.reason or "-")
            raise McpError("servers.no_sandbox", name=name, why=why)
        return found

    return Servers(config.mcp.servers, reach, root)


class TriedServers(msgspec.Struct, frozen=True):
    """Result of a connection test, as text and as JSON."""

    lines: list[AnyText]
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
    """The person's login at a server; its tokens are kept, or forgotten without `show`. Raises `McpError` and
    `OSError`."""
    endpoint = endpoint_of(name, settings, around, list)
    if not isinstance(endpoint, HttpEndpoint) or endpoint.home is None:
        raise McpError("servers.no_login", name=name)
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
        if connection is None or not connection.instructions or server.name in session.reminders.servers:
            continue
        session.reminders.servers.add(server.name)
        words = connection.instructions[:_LONGEST_INSTRUCTIONS]
        about = f"The MCP server {server.name} says of its tools, in its own words and not the person's:"
        session.history.add_note(
            f"<note>\n{about}\n{words}\nAnswer the message before this note.\n</note>", "mcp"
        )


async def _wait(agent: Agent, servers: Servers) -> None:
    settled = asyncio.ensure_future(servers.settled())
    try:
        _done, waiting = await asyncio.wait([settled], timeout=_PATIENCE)
        if waiting and servers.starting:
            agent.emit(Notice(Text("servers.waiting", names=", ".join(servers.starting))))
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


def _to_tell(server: Server) -> Text | None:
    if server.fault is not None and server.state in ("failed", "ended"):
        return Text("servers.failed", why=server.fault)
    if server.left_out:
        n = len(server.remotes)
        return Text("servers.too_many", name=server.name, n=n, kept=n - server.left_out, most=MAX_TOOLS)
    if server.connection is not None and server.connection.left_out:
        return Text("servers.unusable", name=server.name, n=server.connection.left_out)
    return None


_MOST = 8  # resources of one message
_TRAILING = ".,;:!?)]}\"'…。，、；：！？）"


async def resources(session: Session, text: str) -> list[str]:
    """The resources that a message names, as blocks. One that cannot be read is left out and told of."""
    servers = session.agent.mcp
    if servers is None:
        return []
    found: dict[tuple[str, str], None] = {}
    for word in mentioned_paths(text):
        name, _, rest = word.partition(":")
        if name in servers.all and (uri := rest.rstrip(_TRAILING)):
            found[name, uri] = None
    blocks: list[str] = []
    for name, uri in list(found)[:_MOST]:
        try:
            connection = await _connected(session.agent, servers.all[name])
            read = await connection.read_resource(uri, timeout_ms=servers.all[name].settings.timeout_ms)
        except McpError as fault:
            session.agent.emit(Notice(fault.phrase, "warning"))
            continue
        shown = uri.replace("&", "&amp;").replace('"', "&quot;")
        body = read.replace("</resource", "&lt;/resource")
        blocks.append(f'<resource server="{name}" uri="{shown}">\n{body}\n</resource>')
    return blocks


async def _connected(agent: Agent, server: Server) -> Connection:
    """Raises `McpError`, always in plan mode, where no server runs."""
    if agent.mode == "plan":
        raise McpError("servers.in_plan", name=server.name)
    return await server.connected()


class PromptLine(msgspec.Struct, frozen=True):
    """A typed line that names a server's prompt: the rendered text, or the error."""

    command: str
    text: str = ""
    said: str = ""
    values: dict[str, str] = {}
    fault: AnyText = ""


async def prompt_line(agent: Agent, line: str) -> PromptLine | None:
    """None if no server has such a prompt."""
    word, _, rest = line.partition(" ")
    name, colon, prompt = word[1:].partition(":")
    server = agent.mcp.all.get(name) if agent.mcp is not None and colon else None
    if server is None or not prompt:
        return None
    timeout = server.settings.timeout_ms
    try:
        connection = await _connected(agent, server)
        known = {one.name: one for one in await connection.prompts(timeout_ms=timeout)}
        if prompt not in known:
            names = ", ".join(f"/{name}:{one}" for one in known) or Text("modes.none")
            return PromptLine(word, fault=Text("servers.no_prompt", name=name, prompt=prompt, names=names))
        values = _arguments(known[prompt], rest)
        missing = [one for one in known[prompt].required if one not in values]
        if missing:
            names = ", ".join(missing)
            return PromptLine(word, fault=Text("servers.prompt_needs", prompt=word, names=names))
        text = await connection.get_prompt(prompt, values, timeout_ms=timeout)
    except (McpError, ModeFault) as fault:
        return PromptLine(word, fault=fault.phrase)
    if not text:
        return PromptLine(word, fault=Text("modes.rendered_empty", mode=word))
    return PromptLine(word, text, rest.strip(), values)


def _arguments(prompt: RemotePrompt, rest: str) -> dict[str, str]:
    """Parse `name=value`, then positional words; the last argument takes the rest of the line."""
    values: dict[str, str] = {}
    words: list[str] = []
    for word in words_of(rest)[0]:
        name, equals, value = word.text.partition("=")
        if equals and name in prompt.arguments:
            values[name] = value
        else:
            words.append(word.text)
    free = [name for name in prompt.arguments if name not in values]
    for at, name in enumerate(free[: len(words)]):
        values[name] = " ".join(words[at:]) if at == len(free) - 1 else words[at]
    return values
