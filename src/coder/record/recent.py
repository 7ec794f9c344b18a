"""The last turns of a session, shortened, to show on resume."""

from __future__ import annotations

from collections import deque

import msgspec

from coder.protocol.entries import Assistant, Final, TurnEnd, TurnStart
from coder.protocol.events import PastTurn
from coder.protocol.history import HistoryEvent

TURNS = 3
_CHARS = 4000  # of each text: only a few lines are shown


class RecentTurns:
    """Consumes events in order; `turns` are the newest, oldest first."""

    def __init__(self) -> None:
        self._turns: deque[PastTurn] = deque(maxlen=TURNS)

    @property
    def turns(self) -> list[PastTurn]:
        return list(self._turns)

    def take(self, event: HistoryEvent) -> None:
        match event.entry:
            case TurnStart():
                self._turns.append(PastTurn(text=event.content[:_CHARS]))
            case Assistant() | Final() if self._turns and event.said.strip():
                self._change(answer=event.said[:_CHARS])
            case TurnEnd(status=status) if self._turns:
                self._change(status=status)

    def _change(self, **fields: str) -> None:
        self._turns[-1] = msgspec.structs.replace(self._turns[-1], **fields)
