"""What a person chose for a session that no message tells of: written into its record, taken up on resume."""

from __future__ import annotations

from typing import Any

from coder.protocol.history import HistoryEvent


class Choices:
    """The newest of each kind. A record may have come with the project: it can lower a budget only."""

    def __init__(self) -> None:
        self.budget: float | None = None
        self.loop_guard: bool | None = None
        self.asks: Any = None  # what the newest turn asked of its model

    def take(self, event: HistoryEvent) -> None:
        meta = event.meta
        if event.type == "turn_start":
            self.asks = meta.get("asks")
        elif event.type == "state":
            if "budget_usd" in meta:
                self.budget = _amount(meta["budget_usd"])
            if isinstance(meta.get("loop_guard"), bool):
                self.loop_guard = meta["loop_guard"]

    def limit(self, configured: float | None) -> float | None:
        given = [amount for amount in (self.budget, configured) if amount is not None]
        return min(given) if given else None


def _amount(value: Any) -> float | None:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
    return float(value) if good else None
