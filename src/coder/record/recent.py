"""The last turns of a session in short, for a person who takes it up again."""

from __future__ import annotations

from collections import deque

import msgspec

from coder.protocol.events import PastTurn
from coder.protocol.history import HistoryEvent

TURNS = 3
_CHARS = 4000  # of a text: what is shown of it is a few lines, and events should stay small


class RecentTurns:
    """Takes the events of a record in order; `turns` are the newest, oldest first."""

    def __init__(self) -> None:
        self._turns: deque[PastTurn] = deque(maxlen=TURNS)

    @property
    def turns(self) -> list[PastTurn]:
        return list(self._turns)

    def take(self, event: HistoryEvent) -> None:
        if event.type == "turn_start":
            self._turns.append(PastTurn(text=event.content[:_CHARS]))
        elif not self._turns:
            return
        elif event.type in ("assistant", "final") and event.said.strip():
            self._change(answer=event.said[:_CHARS])
        elif event.type == "turn_end":
            self._change(status=str(event.meta.get("status", "")))

    def _change(self, **fields: str) -> None:
        self._turns[-1] = msgspec.structs.replace(self._turns[-1], **fields)
