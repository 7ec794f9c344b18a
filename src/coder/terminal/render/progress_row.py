"""The status row of `--once` on a terminal: what is happening while nothing else is written.

One row at the bottom, without an end of line, erased before anything else is written.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from shutil import get_terminal_size
from typing import TextIO

from coder.protocol.events import AnyEvent
from coder.terminal.render.status_row import busy_line
from coder.terminal.render.theme import Theme
from coder.terminal.state import PromptState, apply_event, input_sent
from coder.texts import Texts

_SILENCE_SECONDS = 1.0  # before the row is drawn, and between two drawings
_ERASE = "\r\x1b[K"


class ProgressRow:
    """Drawn once a second while a turn runs and no line is unfinished."""

    def __init__(self, out: TextIO, texts: Texts, theme: Theme, since: float) -> None:
        """`since`: when the turn began, by the monotonic clock."""
        self._out, self._texts, self._theme = out, texts, theme
        self._state = PromptState(model="", mode="")
        self._free = True  # the cursor is at the start of a line
        self._drawn = False
        self._last = since  # when something was written
        self._timer: asyncio.TimerHandle | None = None
        input_sent(self._state)
        self._state.since = since
        self._tick()

    def erase(self) -> None:
        """Something else is about to be written."""
        self._last = time.monotonic()
        if self._drawn:
            self._out.write(_ERASE)
            self._drawn = False

    def take(self, event: AnyEvent, *, free: bool) -> None:
        """The event may have been written or not. `free`: the cursor is at the start of a line."""
        apply_event(self._state, event)
        self._free = free

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.erase()
        self._out.flush()

    def _schedule(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_SILENCE_SECONDS, self._tick)

    def _tick(self) -> None:
        silent = time.monotonic() - self._last >= _SILENCE_SECONDS * 0.9
        if silent and self._free and self._state.approval is None:
            columns = get_terminal_size().columns - 1  # a full row would wrap
            line = busy_line(self._state, self._texts, columns, steer="", stops="busy.interrupts")
            with contextlib.suppress(OSError):  # the terminal may be gone, which the next output finds out
                self._out.write(_ERASE + self._theme.line([("dim", text) for _, text in line]))
                self._out.flush()
            self._drawn = True
        self._schedule()
