"""A person's choices for a session that are not messages: recorded, and restored on resume."""

from __future__ import annotations

from msgspec import UnsetType

from coder.engine.turn_state import NOTHING_ASKED
from coder.protocol.entries import State, TurnStart
from coder.protocol.history import HistoryEvent


class Choices:
    """The newest of each kind. A record may be shipped with a project, so it can only lower a budget."""

    def __init__(self) -> None:
        self.budget: float | None = None
        self.loop_guard: bool | None = None
        self.effort: str | None = None
        self.asks = NOTHING_ASKED  # the newest turn's model settings

    def take(self, event: HistoryEvent) -> None:
        match event.entry:
            case TurnStart(asks=asks):
                self.asks = asks or NOTHING_ASKED
            case State(budget_usd=amount, loop_guard=guard, effort=effort):
                self.effort = self.effort if effort is None else effort
                if not isinstance(amount, UnsetType):
                    self.budget = amount if amount is not None and amount >= 0 else None
                if guard is not None:
                    self.loop_guard = guard

    def limit(self, configured: float | None) -> float | None:
        given = [amount for amount in (self.budget, configured) if amount is not None]
        return min(given) if given else None
