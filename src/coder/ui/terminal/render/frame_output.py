"""Terminal output that writes each frame at once, inside synchronized output (`CSI ?2026`)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TextIO

from prompt_toolkit.data_structures import Size
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output

from coder.ui.terminal.render.escapes import redirect_to_devnull
from coder.ui.terminal.render.theme import colour_depth

_DEPTHS = (ColorDepth.DEPTH_4_BIT, ColorDepth.DEPTH_8_BIT, ColorDepth.DEPTH_24_BIT)
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
_REFLOWING = (
    "TMUX",
    "VTE_VERSION",
    "KITTY_WINDOW_ID",
    "KONSOLE_VERSION",
    "ALACRITTY_WINDOW_ID",
    "WEZTERM_PANE",
    "GHOSTTY_RESOURCES_DIR",
    "WT_SESSION",
    "TERM_PROGRAM",
    "LC_TERMINAL",
    "SSH_TTY",
)
_REFLOWING_TERMS = ("tmux", "xterm-kitty", "alacritty", "foot", "xterm-ghostty", "wezterm")


class FrameOutput(Vt100_Output):
    """A `Vt100_Output` that buffers until a frame is complete."""

    def __init__(self, stdout: TextIO) -> None:
        def size() -> Size:
            try:
                columns, rows = os.get_terminal_size(stdout.fileno())
            except OSError:
                columns, rows = 0, 0
            return Size(rows=rows or 24, columns=columns or 80)

        # No cursor position reports: the reply would arrive among the keys.
        super().__init__(
            stdout,
            size,
            term=os.environ.get("TERM"),
            default_color_depth=_DEPTHS[colour_depth(os.environ)],
            enable_cpr=False,
        )
        self._nesting = 0
        self._reserved = 0
        self._size: Size | None = None  # of the frame that is written: asked for once, not thirty times

    @contextlib.contextmanager
    def one_write(self) -> Iterator[None]:
        """Buffer everything written inside and flush it as one frame. Nests."""
        self._nesting += 1
        start = self.position
        try:
            yield
        finally:
            self._nesting -= 1
            self._size = None
            if not self._nesting and self.position > start:
                self._buffer.insert(start, _BEGIN)
                self.write_raw(_END)
                self.flush()

    @contextlib.contextmanager
    def reserve_rows(self, rows: int) -> Iterator[None]:
        """Inside, `get_size` reports that many rows fewer."""
        self._reserved = rows
        try:
            yield
        finally:
            self._reserved = 0

    def get_size(self) -> Size:
        size = self._terminal_size()
        return Size(rows=max(1, size.rows - self._reserved), columns=size.columns) if self._reserved else size

    def _terminal_size(self) -> Size:
        if not self._nesting:
            return super().get_size()
        if self._size is None:
            self._size = super().get_size()
        return self._size

    @property
    def all_rows(self) -> int:
        """The terminal's real height, regardless of `reserve_rows`."""
        return self._terminal_size().rows

    @property
    def position(self) -> int:
        return len(self._buffer)

    def since(self, position: int) -> str:
        """What was written from `position` on. Valid inside `one_write` only."""
        return "".join(self._buffer[position:])

    def flush(self) -> None:
        """Drop the output if the terminal is gone; the keyboard's EOF ends the session."""
        if self._nesting:
            return
        try:
            super().flush()
        except OSError:
            self._buffer.clear()
            redirect_to_devnull(self.stdout)

    def erase_down(self) -> None:
        """Erase below without `ED` from the first row, which makes tmux push the screen into its history.
        Expects the cursor in the first column."""
        self.write_raw("\x1b[K\x1b7\x1b[B\r\x1b[J\x1b8")

    def ask_for_cpr(self) -> None:
        """Never: see `__init__`."""


def terminal_output() -> FrameOutput:
    return FrameOutput(sys.stdout)


def reflows(environ: Mapping[str, str]) -> bool:
    """Whether the terminal reflows long rows when it gets narrower. Most do; xterm, the Linux console and GNU
    screen truncate them, and only these variables tell them apart. In a container or after `su` all but TERM
    are gone."""
    return any(environ.get(name) for name in _REFLOWING) or environ.get("TERM", "").startswith(
        _REFLOWING_TERMS
    )


def rows_taken(width: int, columns: int) -> int:
    return max(1, -(-width // columns))


def rows_after_reflow(widths: list[int], caret: tuple[int, int], columns: int) -> int:
    """How many rows the cursor is below our first row after the terminal reflowed them at `columns`."""
    x, y = caret
    return sum(rows_taken(width, columns) for width in widths[:y]) + x // columns


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
