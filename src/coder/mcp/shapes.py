"""What the room hands out and takes in, as plain data, and the one kind of fault it raises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from coder.texts import Fault, shortened

Json = dict[str, Any]


class McpFault(Fault):
    """A server cannot be talked to, or says no: one sentence that says what to do."""


class StdioEndpoint(msgspec.Struct, frozen=True):
    """A program to start. `argv` is run as it is: whatever sandbox it is to have is in it already."""

    argv: list[str]
    cwd: Path
    environment: dict[str, str]

    def __repr__(self) -> str:
        return f"StdioEndpoint({self.argv!r}, environment of {len(self.environment)})"


class HttpEndpoint(msgspec.Struct, frozen=True):
    """An address to post to. Header values are keys as often as not, and are never shown."""

    url: str
    headers: dict[str, str] = {}
    legacy_sse: bool = False  # the transport of 2024-11-05: an event stream, and posts beside it

    def __repr__(self) -> str:
        address = self.url.partition("?")[0].rpartition("@")[2]
        return f"HttpEndpoint({address!r}, headers {sorted(self.headers)})"


Endpoint = StdioEndpoint | HttpEndpoint


class RemoteTool(msgspec.Struct, frozen=True):
    """A tool as a server describes it, within bounds. `parameters` is a schema that any provider takes."""

    name: str
    description: str
    parameters: Json
    title: str = ""
    read_only_hint: bool = False  # the server's own word, and no more than that


class CallOutcome(msgspec.Struct, frozen=True):
    """What a call gave: text for the model; kinds and sizes of all parts for the record."""

    text: str
    ok: bool
    parts: list[Json]


class Hello(msgspec.Struct, frozen=True):
    """What a server says of itself, and what is spoken with it from then on."""

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
    """A server's word as one bounded line without control characters."""
    text = " ".join(value[: limit * 4].split()) if isinstance(value, str) else ""
    text = "".join(c for c in text if c.isprintable())
    return shortened(text, limit)


def bounded(value: object, limit: int) -> str:
    """Text of at most about `limit` characters, with a mark that says how much was left out."""
    text = value if isinstance(value, str) else ""
    return (
        text if len(text) <= limit else f"{text[:limit]}\n[… {len(text) - limit:,} more characters left out]"
    )


_TELLING = r"(?:^|[\s(\[])(?:\w*(?:Error|Exception|error|panic)|E[A-Z]{3,}): \S"
_TAIL_LINES = 20


def telling_line(text: str) -> str:
    """The line that most likely says why: the last that names an error, else the last of all. Programs like
    to end with a version, a stack or advice."""
    lines = [line for line in text.splitlines() if line.strip()][-_TAIL_LINES:]
    if not lines:
        return ""
    import re

    telling = [line for line in lines if re.search(_TELLING, line)]
    return single_line((telling or lines)[-1], 400)
