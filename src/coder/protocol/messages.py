"""The conversation in OpenAI Chat Completions form.

`msgspec.json.encode` of these is what requests and the snapshot hold.
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
    """A tool call of the model."""

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


def tool_message(call: ToolCall, content: str) -> Message:
    """The `tool` message that answers a call."""
    return Message(role="tool", content=content, tool_call_id=call.id, name=call.name)
