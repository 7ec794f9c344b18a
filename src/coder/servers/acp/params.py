"""What a client sends, as the schema of the Agent Client Protocol (version 1) has it.

Only what is used is named; other fields are passed over, as the protocol asks.
"""

from __future__ import annotations

from typing import Any

import msgspec

PROTOCOL_VERSION = 1


class _Params(msgspec.Struct, frozen=True, rename="camel"):
    """Names are snake_case here and camelCase on the line."""


class Initialize(_Params, frozen=True):
    """`protocol_version` is a number; some clients sent dates once, which the SDKs take for version 1."""

    protocol_version: Any = PROTOCOL_VERSION


class Authenticate(_Params, frozen=True):
    """The id of one of our `authMethods`."""

    method_id: str


class Nothing(_Params, frozen=True):
    """Whatever came is not looked at."""


class NewSession(_Params, frozen=True):
    """`mcp_servers` are checked one by one, so that a wrong one does not cost the session."""

    cwd: str
    mcp_servers: list[Any] | None = None
    additional_directories: list[str] | None = None


class OldSession(NewSession, frozen=True, kw_only=True):
    """Of `session/load` and `session/resume`."""

    session_id: str


class ListSessions(_Params, frozen=True):
    """All optional."""

    cwd: str | None = None
    cursor: str | None = None


class OneSession(_Params, frozen=True):
    """Of `session/cancel` and `session/close`."""

    session_id: str


class SetMode(_Params, frozen=True):
    """One of our operating modes."""

    session_id: str
    mode_id: str


class SetOption(_Params, frozen=True):
    """`value` is a text; a boolean comes for options that we do not have."""

    session_id: str
    config_id: str
    value: Any


class _Block(_Params, frozen=True, tag_field="type"):
    """A piece of a prompt."""


class Text(_Block, frozen=True, tag="text"):
    """What the person typed."""

    text: str


class Image(_Block, frozen=True, tag="image"):
    """Not read: the data is not even kept."""


class Audio(_Block, frozen=True, tag="audio"):
    """Not read either."""


class Link(_Block, frozen=True, tag="resource_link"):
    """Something that the prompt refers to."""

    uri: str
    name: str = ""


class Contents(_Params, frozen=True):
    """Of a resource: text, or bytes in Base64."""

    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None


class Resource(_Block, frozen=True, tag="resource"):
    """Something that the prompt brings along."""

    resource: Contents


Block = Text | Image | Audio | Link | Resource


class Prompt(_Params, frozen=True):
    """A message of the person."""

    session_id: str
    prompt: list[Block]


class Outcome(_Params, frozen=True):
    """What became of a question; `option_id` where an option was chosen."""

    outcome: str
    option_id: str | None = None


class PermissionAnswer(_Params, frozen=True):
    """The answer to `session/request_permission`."""

    outcome: Outcome


class NameValue(_Params, frozen=True):
    """A variable of the environment, or a header."""

    name: str
    value: str


class McpServerGiven(_Params, frozen=True):
    """An MCP server: with `command` a program, with `url` an address (`type` says which kind)."""

    name: str
    type: str = "stdio"
    command: str = ""
    args: list[str] = []
    env: list[NameValue] = []
    url: str = ""
    headers: list[NameValue] = []
