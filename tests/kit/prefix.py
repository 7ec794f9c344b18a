"""Whether the provider's prompt cache of one request serves the next."""

from __future__ import annotations

import json
from typing import Any

from kit import Recorded

LIST = {"chat": "messages", "messages": "messages", "responses": "input", "gemini": "contents"}


def grows(wire: str, before: Recorded, after: Recorded) -> bool:
    """No byte before the end of the earlier request differs."""
    (head, said), (head_after, said_after) = (split(wire, one.json) for one in (before, after))
    return head == head_after and said_after.startswith(said[:-1])


def split(wire: str, body: dict[str, Any]) -> tuple[str, str]:
    """Everything but the conversation, and the conversation."""
    plain = _without_marks(body)
    said = plain.pop(LIST[wire])
    return json.dumps(plain), json.dumps(said)


def _without_marks(value: Any) -> Any:
    """Marks tell where to cut the cache; they are no part of what is cached."""
    if isinstance(value, dict):
        return {key: _without_marks(one) for key, one in value.items() if key != "cache_control"}
    return [_without_marks(one) for one in value] if isinstance(value, list) else value
