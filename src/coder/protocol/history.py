"""One line of the record, and the names of its types.

The file is the truth of a session; readers skip types they do not know.
"""

from __future__ import annotations

from typing import Any

import msgspec


class HistoryEvent(msgspec.Struct, frozen=True):
    """`turn` counts from 1 (0: outside any turn), `step` from 0 within its turn."""

    ts: str
    session_id: str
    type: str
    turn: int = 0
    step: int = 0
    content: str = ""
    role: str | None = None
    meta: dict[str, Any] = {}

    @property
    def said(self) -> str:
        """Of an answer: its text as the conversation has it. `content` is what the model wrote, with
        the calls and tags that were read out of it."""
        return str(self.meta.get("message", self.content))

    @property
    def for_model_alone(self) -> bool:
        """The engine's todo list of one item, or the call for it: to a person it only repeats the message."""
        if self.meta.get("tool") != "todowrite" or self.meta.get("call_id") != f"todo_{self.turn}":
            return False
        given = self.meta.get("input")
        todos = given.get("todos") if isinstance(given, dict) else self.meta.get("todos")
        return isinstance(todos, list) and len(todos) == 1
