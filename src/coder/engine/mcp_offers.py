"""Resources and prompts of MCP servers in a session: `@server:uri` in a message, `/server:prompt`."""

from __future__ import annotations

import msgspec

from coder.context.attachments import named
from coder.engine.agent import Agent
from coder.engine.session import Session
from coder.mcp.client import Connection
from coder.mcp.offers import RemotePrompt
from coder.mcp.servers import Server
from coder.mcp.shapes import McpFault
from coder.modes.arguments import words_of
from coder.modes.faults import ModeFault
from coder.protocol.events import Notice
from coder.texts import Phrase, Said

_MOST = 8  # resources of one message
_TRAILING = ".,;:!?)]}\"'…。，、；：！？）"


async def resources(session: Session, text: str) -> list[str]:
    """The resources that a message names, as blocks. One that cannot be read is left out and told of."""
    servers = session.agent.mcp
    if servers is None:
        return []
    found: dict[tuple[str, str], None] = {}
    for word in named(text):
        name, _, rest = word.partition(":")
        if name in servers.all and (uri := rest.rstrip(_TRAILING)):
            found[name, uri] = None
    blocks: list[str] = []
    for name, uri in list(found)[:_MOST]:
        try:
            connection = await _connected(session.agent, servers.all[name])
            read = await connection.read_resource(uri, timeout_ms=servers.all[name].settings.timeout_ms)
        except McpFault as fault:
            session.agent.emit(Notice(fault.phrase, "warning"))
            continue
        shown = uri.replace("&", "&amp;").replace('"', "&quot;")
        body = read.replace("</resource", "&lt;/resource")
        blocks.append(f'<resource server="{name}" uri="{shown}">\n{body}\n</resource>')
    return blocks


async def _connected(agent: Agent, server: Server) -> Connection:
    """Raises `McpFault`, always in plan mode, where no server runs."""
    if agent.mode == "plan":
        raise McpFault("servers.in_plan", name=server.name)
    return await server.connected()


class PromptLine(msgspec.Struct, frozen=True):
    """A typed line that names a server's prompt: the rendered text, or the error."""

    command: str
    text: str = ""
    said: str = ""
    values: dict[str, str] = {}
    fault: Said = ""


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
            names = ", ".join(f"/{name}:{one}" for one in known) or Phrase("modes.none")
            return PromptLine(word, fault=Phrase("servers.no_prompt", name=name, prompt=prompt, names=names))
        values = _arguments(known[prompt], rest)
        missing = [one for one in known[prompt].required if one not in values]
        if missing:
            names = ", ".join(missing)
            return PromptLine(word, fault=Phrase("servers.prompt_needs", prompt=word, names=names))
        text = await connection.get_prompt(prompt, values, timeout_ms=timeout)
    except (McpFault, ModeFault) as fault:
        return PromptLine(word, fault=fault.phrase)
    if not text:
        return PromptLine(word, fault=Phrase("modes.rendered_empty", mode=word))
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
