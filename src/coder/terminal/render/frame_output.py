"""The terminal as written to: everything between two frames in one write, inside synchronized output."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import TextIO

from prompt_toolkit.data_structures import Size
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output

from coder.terminal.render.sanitize import to_nowhere

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


class FrameOutput(Vt100_Output):
    """An output that can hold back what is written until a frame is complete."""

    def __init__(self, stdout: TextIO) -> None:
        def size() -> Size:
            try:
                columns, rows = os.get_terminal_size(stdout.fileno())
            except OSError:
                columns, rows = 0, 0
            return Size(rows=rows or 24, columns=columns or 80)

        # No cursor position reports: the answer would arrive among the keys.
        super().__init__(
            stdout,
            size,
            term=os.environ.get("TERM"),
            default_color_depth=ColorDepth.DEPTH_4_BIT,
            enable_cpr=False,
        )
        self._held = 0
        self._lower = 0

    @contextlib.contextmanager
    def one_write(self) -> Iterator[None]:
        """What is written within goes out together; nothing at all where nothing is written."""
        self._held += 1
        begun = self.position
        try:
            yield
        finally:
            self._held -= 1
            if not self._held and self.position > begun:
                self._buffer.insert(begun, _BEGIN)
                self.write_raw(_END)
                self.flush()

    @contextlib.contextmanager
    def lower_by(self, rows: int) -> Iterator[None]:
        """Within, the terminal has so many rows less."""
        self._lower = rows
        try:
            yield
        finally:
            self._lower = 0

    def get_size(self) -> Size:
        size = super().get_size()
        return Size(rows=max(1, size.rows - self._lower), columns=size.columns)

    @property
    def all_rows(self) -> int:
        """Of the terminal, also where it is said to be lower."""
        return super().get_size().rows

    @property
    def position(self) -> int:
        return len(self._buffer)

    def since(self, position: int) -> str:
        """What was written from there on. Holds within one write."""
        return "".join(self._buffer[position:])

    def flush(self) -> None:
        """A terminal that is gone takes nothing more. The keyboard hears of it, and ends the session."""
        if self._held:
            return
        try:
            super().flush()
        except OSError:
            self._buffer.clear()
            to_nowhere(self.stdout)

    def erase_down(self) -> None:
        """Without erasing the whole screen from its first row, which tmux takes for a reason to push what
        was there into its history. The caret is in the first column."""
        self.write_raw("\x1b[K\x1b7\x1b[B\r\x1b[J\x1b8")

    def ask_for_cpr(self) -> None:
        """Never: see above."""


def terminal_output() -> FrameOutput:
    return FrameOutput(sys.stdout)


def reflows(environ: Mapping[str, str]) -> bool:
    """Whether the terminal breaks long rows anew when it gets narrower. Most do; xterm, the Linux console
    and GNU screen cut them off instead, and nothing but these variables tells them apart."""
    return any(environ.get(name) for name in _REFLOWING)


def rows_taken(width: int, columns: int) -> int:
    return max(1, -(-width // columns))


def rows_after_reflow(widths: list[int], caret: tuple[int, int], columns: int) -> int:
    """How far the caret stands below the first of our rows once each has been broken at `columns`."""
    x, y = caret
    return sum(rows_taken(width, columns) for width in widths[:y]) + x // columns
