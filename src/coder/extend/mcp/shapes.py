"""The package's data types, and its exception."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from coder.base.text import shortened
from coder.texts import CoderError
from coder.tools.tool import MCP_PREFIX

Json = dict[str, Any]


class McpError(CoderError):
    """A server is unreachable or refuses; the message says what to do."""


class StdioEndpoint(msgspec.Struct, frozen=True):
    """A program to start. `argv` already includes the sandbox."""

    argv: list[str]
    cwd: Path
    environment: dict[str, str]

    def __repr__(self) -> str:
        return f"StdioEndpoint({self.argv!r}, environment of {len(self.environment)})"


class HttpEndpoint(msgspec.Struct, frozen=True):
    """A URL to post to. Header values are often keys and are never shown."""

    url: str
    headers: dict[str, str] = {}
    legacy_sse: bool = False  # the HTTP+SSE transport of 2024-11-05
    home: Path | None = None  # where tokens of logins are kept; None if the settings have a key
    keep_secret: Callable[[list[str]], None] | None = None  # told of tokens before they are used

    def __repr__(self) -> str:
        address = self.url.partition("?")[0].rpartition("@")[2]
        return f"HttpEndpoint({address!r}, headers {sorted(self.headers)})"


Endpoint = StdioEndpoint | HttpEndpoint


class RemoteTool(msgspec.Struct, frozen=True):
    """A tool as the server describes it, bounded. `parameters` is a normalized schema."""

    name: str
    description: str
    parameters: Json
    title: str = ""
    read_only_hint: bool = False  # the server's claim, not trusted


class CallOutcome(msgspec.Struct, frozen=True):
    """A call's result: text for the model; kinds and sizes of its parts for the record. `images`: what stands
    for each in the text, and its Base64."""

    text: str
    ok: bool
    parts: list[Json]
    images: list[tuple[str, str]] = []


class Hello(msgspec.Struct, frozen=True):
    """The result of the handshake: protocol version, server info, capabilities."""

    version: str
    modern: bool
    server: str
    instructions: str
    capabilities: Json

    def can(self, *names: str) -> bool:
        """Whether a capability is declared: `can("tools", "listChanged")`."""
        place: Any = self.capabilities
        for name in names:
            place = place.get(name) if isinstance(place, dict) else None
        return place is not None and place is not False


def single_line(value: object, limit: int) -> str:
    """A server's text, sanitized to one bounded line."""
    text = " ".join(value[: limit * 4].split()) if isinstance(value, str) else ""
    text = "".join(c for c in text if c.isprintable())
    return shortened(text, limit)


def bounded(value: object, limit: int) -> str:
    """Truncate to about `limit` characters, saying how many are missing."""
    text = value if isinstance(value, str) else ""
    return (
        text if len(text) <= limit else f"{text[:limit]}\n[… {len(text) - limit:,} more characters left out]"
    )


_ERROR_LINE = r"(?:^|[\s(\[])(?:\w*(?:Error|Exception|error|panic)|E[A-Z]{3,}): \S"
_TAIL_LINES = 20


def error_line(text: str) -> str:
    """The line most likely to name the cause: the last one with an error, else the last. Programs often end
    with a version, a stack or advice."""
    lines = [line for line in text.splitlines() if line.strip()][-_TAIL_LINES:]
    if not lines:
        return ""

    telling = [line for line in lines if re.search(_ERROR_LINE, line)]
    return single_line((telling or lines)[-1], 400)


_LONGEST = 64  # characters: the smallest limit of all providers


def tool_name(server: str, tool: str, taken: Collection[str] = ()) -> str:
    """The name for the model. If characters had to be replaced, or the name is taken, a hash of the original
    is appended, so that the name is unique and stable. In a server's name they become `-`: underscores would
    make it look like another server's."""
    plain = f"{MCP_PREFIX}{server}__{tool}"
    name = f"{MCP_PREFIX}{_replaced(server, '-')}__{_replaced(tool, '_')}"
    if name == plain and len(name) <= _LONGEST and name not in taken:
        return name

    digits = blake2b(f"{server}\0{tool}".encode("utf-8", "surrogatepass"), digest_size=3).hexdigest()
    return f"{name[: _LONGEST - len(digits) - 1]}_{digits}"


def _replaced(text: str, by: str) -> str:
    return "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "_-") else by for letter in text
    )
