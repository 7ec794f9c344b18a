"""Throttles redraws: a maximum frame rate, and no frame without a change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

FRAME_SECONDS = 0.055
SPIN_SECONDS = 0.125


class Throttle:
    """`request` draws at once after a pause, else when the last frame is old enough; requests coalesce."""

    def __init__(self, draw: Callable[[], None]) -> None:
        self._draw = draw
        self._loop = asyncio.get_running_loop()
        self._last = float("-inf")
        self._due: asyncio.TimerHandle | None = None
        self._spinning: asyncio.TimerHandle | None = None

    def request(self) -> None:
        if self._due is None:
            self._due = self._loop.call_at(self._last + FRAME_SECONDS, self._frame)

    def _frame(self) -> None:
        self._due = None
        self._last = self._loop.time()
        self._draw()

    def now(self) -> None:
        """Draw without throttling."""
        if self._due is not None:
            self._due.cancel()
        self._frame()

    def spin(self, on: bool) -> None:
        """Redraw periodically while `on`, for the spinner."""
        if on and self._spinning is None:
            self._spinning = self._loop.call_later(SPIN_SECONDS, self._turn)
        elif not on and self._spinning is not None:
            self._spinning.cancel()
            self._spinning = None

    def _turn(self) -> None:
        self._spinning = self._loop.call_later(SPIN_SECONDS, self._turn)
        self.request()

    def stop(self) -> None:
        self.spin(False)
        if self._due is not None:
            self._due.cancel()
            self._due = None
