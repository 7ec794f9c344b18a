"""The conversation in OpenAI Chat Completions form.

`msgspec.json.encode` of these is what requests and the snapshot hold.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

Role = Literal["system", "user", "assistant", "tool"]


class FunctionCall(msgspec.Struct, frozen=True):
    """`arguments` is the JSON text as the model wrote it (repaired where unambiguous)."""

    name: str
    arguments: str


class ToolCall(msgspec.Struct, frozen=True):
    """A tool call of the model."""

    id: str
    function: FunctionCall
    type: Literal["function"] = "function"

    @property
    def name(self) -> str:
        return self.function.name


IMAGE_SUFFIX = re.compile(r"\.(?:png|jpe?g|gif|webp|bmp)", re.IGNORECASE)


class Image(msgspec.Struct, frozen=True, omit_defaults=True):
    """An image; `data` is base64, `width` and `height` are pixels, where known."""

    media_type: str
    data: str
    name: str = ""
    width: int = 0
    height: int = 0

    @property
    def url(self) -> str:
        return f"data:{self.media_type};base64,{self.data}"


class Part(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a response: the next `text` characters of the message, its call of that number, or (with
    neither) a reasoning item. `raw`: the provider's own fields."""

    text: int = 0
    call: int | None = None
    raw: dict[str, Any] | None = None


class Opaque(msgspec.Struct, frozen=True):
    """Signed or encrypted reasoning, which only that model at that address can read."""

    wire: str
    origin: str
    model: str
    parts: list[Part]


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message. `role` and `content` are always present in the JSON form. What follows `name` is
    not part of a request as it is (`chat_messages`)."""

    role: Role
    content: str
    tool_calls: list[ToolCall] = []
    tool_call_id: str | None = None
    name: str | None = None
    reasoning: str | None = None
    images: list[Image] = []
    opaque: Opaque | None = None


class FunctionSpec(msgspec.Struct, frozen=True):
    """A tool's name, description and parameters."""

    name: str
    description: str
    parameters: dict[str, Any]


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool in the `tools` field of a request."""

    function: FunctionSpec
    type: Literal["function"] = "function"

    @property
    def name(self) -> str:
        return self.function.name


def tool_call(call_id: str, name: str, arguments: str) -> ToolCall:
    return ToolCall(id=call_id, function=FunctionCall(name=name, arguments=arguments))


# Prefix of the message that holds the person's and the project's instructions.
INSTRUCTIONS = "<user_instructions>"


def head_length(messages: Sequence[Message]) -> int:
    """Number of leading messages that are not conversation: system message and instructions."""
    count = 1 if messages and messages[0].role == "system" else 0
    if len(messages) > count and messages[count].role == "user":
        count += messages[count].content.startswith(INSTRUCTIONS)
    return count


def with_instructions(messages: Sequence[Message], text: str) -> list[Message]:
    """Replace or insert the instructions, or remove them where `text` is empty."""
    head = [m for m in messages[:1] if m.role == "system"]
    said = [Message(role="user", content=text)] if text else []
    return [*head, *said, *messages[head_length(messages) :]]


def tool_message(call: ToolCall, content: str, images: Sequence[Image] = ()) -> Message:
    """The `tool` message that answers a call."""
    return Message(role="tool", content=content, tool_call_id=call.id, name=call.name, images=list(images))


def chat_messages(messages: Sequence[Message]) -> list[Message | dict[str, Any]]:
    """As Chat Completions takes them: images as content parts, those of results in a message behind them."""
    said: list[Message | dict[str, Any]] = []
    waiting: list[Image] = []
    for message in messages:
        if waiting and message.role != "tool":
            said.append(_shown("Images of the results above:", waiting))
            waiting = []
        if message.role == "tool":
            waiting = [*waiting, *message.images]
        if message.images and message.role == "user":
            said.append(_shown(message.content, message.images))
        elif message.images or message.opaque is not None:
            said.append(msgspec.structs.replace(message, images=[], opaque=None))
        else:
            said.append(message)
    return [*said, _shown("Images of the results above:", waiting)] if waiting else said


def chat_positions(messages: Sequence[Message]) -> list[int]:
    """The index of each message in `chat_messages`."""
    positions: list[int] = []
    added, waiting = 0, False
    for at, message in enumerate(messages):
        if waiting and message.role != "tool":
            added, waiting = added + 1, False
        waiting = waiting or (message.role == "tool" and bool(message.images))
        positions.append(at + added)
    return positions


def _shown(text: str, images: Sequence[Image]) -> dict[str, Any]:
    shown = [{"type": "image_url", "image_url": {"url": image.url}} for image in images]
    return {"role": "user", "content": [*([{"type": "text", "text": text}] if text else []), *shown]}


NOT_ASKED = "none"  # `source` of a step for which no request was made


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens of one request, or the sum of several. Of the prompt `cached` came from the provider's cache,
    `written` were put into it, where that costs. `source` says who counted: the provider's `usage`, or the
    local tokenizer where it sent none."""

    prompt: int = 0
    completion: int = 0
    total: int = 0
    cached: int = 0
    source: str = ""
    written: int = 0

    @property
    def cached_share(self) -> float | None:
        """Of the prompt, what the provider had cached; None if nothing was counted."""
        return min(1.0, self.cached / self.prompt) if self.prompt else None

    def plus(self, other: Usage) -> Usage:
        return Usage(
            prompt=self.prompt + other.prompt,
            completion=self.completion + other.completion,
            total=self.total + other.total,
            cached=self.cached + other.cached,
            written=self.written + other.written,
        )


class LocalTokens(msgspec.Struct, frozen=True, omit_defaults=True):
    """Our own count of a request that the provider counted too."""

    prompt: int
    completion: int
    estimated: bool = False


class Tokens(msgspec.Struct, frozen=True, omit_defaults=True):
    """`tokens` in the record and the snapshot."""

    prompt: int
    completion: int
    total: int
    cached: int = 0
    source: str = ""
    local: LocalTokens | None = None
    written: int = 0

    @classmethod
    def of(cls, usage: Usage, local: LocalTokens | None = None) -> Tokens:
        return cls(
            usage.prompt, usage.completion, usage.total, usage.cached, usage.source, local, usage.written
        )

    @property
    def usage(self) -> Usage:
        return Usage(self.prompt, self.completion, self.total, self.cached, written=self.written)
