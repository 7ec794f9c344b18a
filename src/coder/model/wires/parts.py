"""An answer's parts, as a provider wants them back: its own reasoning, in its place among text and calls.

What another provider or model signed or encrypted is left out, so that a request is valid after a change of
model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from coder.protocol.messages import Message, Opaque, Part, ToolCall


class Piece(msgspec.Struct, frozen=True):
    """A run of text, a call, or (with neither) a reasoning item. `raw`: the provider's own fields."""

    text: str = ""
    call: ToolCall | None = None
    raw: dict[str, Any] = {}


class PartList:
    """Collects the parts of an answer while it streams."""

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._calls = 0

    def text(self, text: str, raw: dict[str, Any] | None = None) -> None:
        last = self._parts[-1] if self._parts else None
        if last is not None and last.text and not last.raw and not raw:
            self._parts[-1] = Part(text=last.text + len(text))
        elif text or raw:
            self._parts.append(Part(text=len(text), raw=raw))

    def call(self, raw: dict[str, Any] | None = None) -> None:
        self._parts.append(Part(call=self._calls, raw=raw))
        self._calls += 1

    def item(self, raw: dict[str, Any]) -> None:
        self._parts.append(Part(raw=raw))

    def opaque(self, wire: str, origin: str, model: str) -> Opaque | None:
        """None where nothing but text and calls came, which the message has already."""
        if not any(part.raw for part in self._parts):
            return None
        return Opaque(wire=wire, origin=origin, model=model, parts=self._parts)


def pieces(message: Message, wire: str, origin: str, model: str) -> list[Piece]:
    """The assistant's message for this model: in the original order if it still fits text and calls."""
    opaque = message.opaque
    own = opaque is not None and (opaque.wire, opaque.origin, opaque.model) == (wire, origin, model)
    parts = opaque.parts if opaque is not None and own else []
    if _fits(parts, message):
        return list(_in_order(parts, message))
    items = [Piece(raw=part.raw) for part in parts if part.raw and not part.text and part.call is None]
    text = [Piece(text=message.content)] if message.content else []
    return [*items, *text, *(Piece(call=call) for call in message.tool_calls)]


def _fits(parts: Iterable[Part], message: Message) -> bool:
    calls = [part.call for part in parts if part.call is not None]
    length = sum(part.text for part in parts)
    return length == len(message.content) and calls == list(range(len(message.tool_calls)))


def _in_order(parts: Iterable[Part], message: Message) -> Iterator[Piece]:
    at = 0
    for part in parts:
        call = None if part.call is None else message.tool_calls[part.call]
        yield Piece(text=message.content[at : at + part.text], call=call, raw=part.raw or {})
        at += part.text
