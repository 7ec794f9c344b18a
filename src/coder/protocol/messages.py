"""The conversation in OpenAI Chat Completions form.

`msgspec.json.encode` of these is what goes over the wire and into the snapshot, so there is
one form of a message in the product and no translation to keep true.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

Role = Literal["system", "user", "assistant", "tool"]


class FunctionCall(msgspec.Struct, frozen=True):
    """`arguments` is the JSON text as the model wrote it (repaired where unambiguous)."""

    name: str
    arguments: str


class ToolCall(msgspec.Struct, frozen=True):
    """One call that the model asked for."""

    id: str
    function: FunctionCall
    type: Literal["function"] = "function"

    @property
    def name(self) -> str:
        return self.function.name


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message. `role` and `content` are always present in the JSON form."""

    role: Role
    content: str
    tool_calls: list[ToolCall] = []
    tool_call_id: str | None = None
    name: str | None = None
    reasoning: str | None = None


class FunctionSpec(msgspec.Struct, frozen=True):
    """What the model is told of a tool."""

    name: str
    description: str
    parameters: dict[str, Any]


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as the `tools` field of a request carries it."""

    function: FunctionSpec
    type: Literal["function"] = "function"

    @property
    def name(self) -> str:
        return self.function.name


def tool_call(call_id: str, name: str, arguments: str) -> ToolCall:
    return ToolCall(id=call_id, function=FunctionCall(name=name, arguments=arguments))


# How the message begins that holds the person's and the project's instructions.
INSTRUCTIONS = "<user_instructions>"


def head_length(messages: Sequence[Message]) -> int:
    """How many messages at the front are not conversation: the system message, and the instructions."""
    count = 1 if messages and messages[0].role == "system" else 0
    if len(messages) > count and messages[count].role == "user":
        count += messages[count].content.startswith(INSTRUCTIONS)
    return count


def with_instructions(messages: Sequence[Message], text: str) -> list[Message]:
    """The same messages with the instructions replaced, put in, or (where `text` is empty) taken out."""
    head = [m for m in messages[:1] if m.role == "system"]
    said = [Message(role="user", content=text)] if text else []
    return [*head, *said, *messages[head_length(messages) :]]


def tool_message(call: ToolCall, content: str) -> Message:
    """The `tool` message that answers a call."""
    return Message(role="tool", content=content, tool_call_id=call.id, name=call.name)
