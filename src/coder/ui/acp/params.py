"""Parameters of client messages in the Agent Client Protocol (version 1).

Only the fields in use; others are ignored, as the protocol requires.
"""

from __future__ import annotations

from typing import Any

import msgspec

from coder.config.schema import McpServer

PROTOCOL_VERSION = 1


class _Params(msgspec.Struct, frozen=True, rename="camel"):
    """snake_case here, camelCase in JSON."""


class Initialize(_Params, frozen=True):
    """`protocol_version` is a number; old clients sent dates, which the SDKs treat as version 1."""

    protocol_version: Any = PROTOCOL_VERSION
    client_capabilities: Any = None

    @property
    def has_forms(self) -> bool:
        """Whether the client shows forms (`elicitation/create`)."""
        found = self.client_capabilities
        elicitation = found.get("elicitation") if isinstance(found, dict) else None
        return isinstance(elicitation, dict) and isinstance(elicitation.get("form"), dict)


class Authenticate(_Params, frozen=True):
    """The id of one of our `authMethods`."""

    method_id: str


class CancelRequest(_Params, frozen=True):
    """Which of the client's requests."""

    request_id: int | str | float | None = None


class NewSession(_Params, frozen=True):
    """`mcp_servers` are validated one by one, so that an invalid one does not fail the session."""

    cwd: str
    mcp_servers: list[Any] | None = None
    additional_directories: list[str] | None = None


class OldSession(NewSession, frozen=True, kw_only=True):
    """`session/load` and `session/resume`."""

    session_id: str


class ListSessions(_Params, frozen=True):
    """All optional."""

    cwd: str | None = None
    cursor: str | None = None


class OneSession(_Params, frozen=True):
    """`session/cancel` and `session/close`."""

    session_id: str


class SetMode(_Params, frozen=True):
    """One of our operating modes."""

    session_id: str
    mode_id: str


class SetOption(_Params, frozen=True):
    """`value` is a string; booleans are for options that we do not have."""

    session_id: str
    config_id: str
    value: Any


class _Block(_Params, frozen=True, tag_field="type"):
    """A piece of a prompt."""


class TextBlock(_Block, frozen=True, tag="text"):
    """Typed text."""

    text: str


class ImageBlock(_Block, frozen=True, tag="image"):
    """An image; `data` is Base64."""

    data: str
    mime_type: str = ""
    uri: str | None = None


class AudioBlock(_Block, frozen=True, tag="audio"):
    """Unsupported; its data is dropped."""


class LinkBlock(_Block, frozen=True, tag="resource_link"):
    """A reference."""

    uri: str
    name: str = ""


class ResourceContents(_Params, frozen=True):
    """A resource's content: text, or Base64."""

    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None


class ResourceBlock(_Block, frozen=True, tag="resource"):
    """An embedded resource."""

    resource: ResourceContents


Block = TextBlock | ImageBlock | AudioBlock | LinkBlock | ResourceBlock


class Prompt(_Params, frozen=True):
    """A message of the person."""

    session_id: str
    prompt: list[Block]


class Outcome(_Params, frozen=True):
    """The outcome of a permission request; `option_id` if an option was selected."""

    outcome: str
    option_id: str | None = None


class PermissionAnswer(_Params, frozen=True):
    """The answer to `session/request_permission`."""

    outcome: Outcome


class FormFields(_Params, frozen=True):
    """The fields of the form for hunks."""

    hunks: list[str] = []
    reason: str | None = None


class FormAnswer(_Params, frozen=True):
    """The answer to `elicitation/create`: `accept` with the fields, `decline` or `cancel`."""

    action: str
    content: FormFields | None = None


class NameValue(_Params, frozen=True):
    """An environment variable or a header."""

    name: str
    value: str


class McpServerGiven(_Params, frozen=True):
    """An MCP server: a program (`command`) or a URL, by `type`."""

    name: str
    type: str = "stdio"
    command: str = ""
    args: list[str] = []
    env: list[NameValue] = []
    url: str = ""
    headers: list[NameValue] = []


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
