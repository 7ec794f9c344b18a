"""What every provider demands of a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from coder.protocol.messages import Message


def check_conversation(messages: Sequence[Message] | Sequence[dict[str, Any]]) -> None:
    """A system message first and nowhere else; each call answered once, at once, nothing else is."""
    plain: list[dict[str, Any]] = [msgspec.to_builtins(message) for message in messages]
    waiting: list[str] = []
    for at, message in enumerate(plain):
        role = message["role"]
        assert (role == "system") == (at == 0), (at, role)
        if role == "tool":
            assert message["tool_call_id"] in waiting, (at, message)
            waiting.remove(message["tool_call_id"])
        else:
            assert not waiting, f"{waiting} unanswered before message {at}"
        if role == "assistant":
            waiting = [call["id"] for call in message.get("tool_calls", [])]
    assert not waiting, f"{waiting} unanswered at the end"
