"""Draws the live region: our rows above, and below them what prompt_toolkit draws (input, menu, bar).

Our rows change many times a second while an answer streams; the rest only with a key. So our rows are written
directly, and prompt_toolkit's output for the rest is cached and replayed: a frame costs no layout. To
prompt_toolkit the terminal is just lower by our rows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import Layout
from prompt_toolkit.layout.screen import Char
from prompt_toolkit.renderer import Renderer
from prompt_toolkit.styles import BaseStyle

from coder.terminal.render.frame_output import FrameOutput, reflows, rows_after_reflow, rows_taken
from coder.terminal.render.width import text_width

ESCAPE_SECONDS = 0.025  # timeout after an Esc that may start a sequence; applied twice
SEQUENCE_SECONDS = 1.0  # timeout of key chords such as Ctrl+X Ctrl+E

Rows = Callable[[], Sequence[str]]
_SGR = re.compile(r"\x1b\[[\d;]*m")


class LiveRenderer(Renderer):
    """`above` returns our current rows; `below` the cache key of the rest."""

    output: FrameOutput

    def __init__(
        self, style: BaseStyle, output: FrameOutput, above: Rows, below: Callable[[], Hashable]
    ) -> None:
        self._above, self._below = above, below
        self._drawn: list[str] = []  # our rows on the screen
        self._below_output = ""  # cached output that draws the rest; empty if invalid
        self._below_key: Hashable = None
        self._drawn_size: Size | None = None  # the terminal's size when it was last drawn on
        self._scrolled_off = 0  # rows of ours that a lower terminal has put above the top of the screen
        super().__init__(style, output)

    # prompt_toolkit's interface

    def reset(self, _scroll: bool = False, leave_alternate_screen: bool = True) -> None:
        self._drawn, self._below_output, self._drawn_size, self._scrolled_off = [], "", None, 0
        super().reset(_scroll, leave_alternate_screen)

    def erase(self, leave_alternate_screen: bool = True) -> None:
        self._wipe()
        self.output.flush()
        self.reset(leave_alternate_screen=leave_alternate_screen)

    def render(self, app: Application[Any], layout: Layout, is_done: bool = False) -> None:
        """Full render, after a key or a change below our rows."""
        with self.output.one_write():
            self._handle_resize()
            size = self.output.get_size()
            needed = layout.container.preferred_height(size.columns, size.rows).preferred
            self._place(self._visible_rows(size.rows - needed))
            fresh = self._last_screen is None
            begun = self.output.position
            with self.output.reserve_rows(len(self._drawn)):
                super().render(app, layout, is_done)
            self._below_output = self.output.since(begun) if fresh else ""
            self._below_key = self._below()

    # frames

    def frame(self, app: Application[Any], lines: Sequence[str]) -> None:
        """Append `lines` to scrollback and redraw our rows."""
        with self.output.one_write():
            self._handle_resize()
            if not self._below_output or self._last_screen is None or self._below_key != self._below():
                self._wipe()
                self._invalidate()
                self._commit(lines)
                app._redraw()
                return
            rows = self._visible_rows(self.output.get_size().rows - self._last_screen.height)
            if not lines and len(rows) == len(self._drawn):
                self._patch(rows)
                return
            self._wipe()
            self._commit(lines)
            self._write_lines(rows)
            self._drawn = rows
            self.output.write_raw(self._below_output)

    def _place(self, rows: list[str]) -> None:
        """Draw our rows; if their number changes, the rest is invalidated."""
        if self._last_screen is not None and len(rows) == len(self._drawn):
            self._patch(rows)
            return
        if self._drawn or self._last_screen is not None:
            self._wipe()
        self._invalidate()
        self._write_lines(rows)
        self._drawn = rows

    def _patch(self, rows: list[str]) -> None:
        """Rewrite the rows that differ, in place, and restore the cursor."""
        changed = [at for at, row in enumerate(rows) if row != self._drawn[at]]
        if not changed:
            return
        write, columns = self.output.write_raw, self.output.get_size().columns
        write("\x1b[?25l\r")
        below = self._cursor_pos.y
        for at in changed:
            up = below + len(rows) - at
            rest = "\x1b[K" if _width(rows[at]) < columns else ""
            write(f"\x1b[{up}A{rows[at]}{rest}\r\x1b[{up}B")
        self.output.cursor_forward(self._cursor_pos.x)
        write("\x1b[?25h")
        self._drawn = rows

    def _write_lines(self, lines: Sequence[str]) -> None:
        self.output.write_raw("".join(f"{line}\r\n" for line in lines))

    def _commit(self, lines: Sequence[str]) -> None:
        self._write_lines(lines)
        if lines:
            self._scrolled_off = 0  # other text separates them from us: unreachable

    def _visible_rows(self, room: int) -> list[str]:
        rows = list(self._above())
        return rows[len(rows) - room :] if 0 <= room < len(rows) else rows

    def _wipe(self, above: int = 0) -> None:
        """Erase the live region and as many rows above it, and move to the first of them."""
        output = self.output
        output.write_raw("\r")
        output.cursor_up(self._cursor_pos.y + len(self._drawn) + above)
        output.erase_down()
        output.reset_attributes()
        output.enable_autowrap()

    def _invalidate(self) -> None:
        """Note that nothing of the live region is on the screen."""
        self._drawn, self._below_output = [], ""
        self._cursor_pos = Point(x=0, y=0)
        self._last_screen = None
        self._last_style = None

    # resizing

    def _handle_resize(self) -> None:
        """Check the size before every write: the terminal may have changed before SIGWINCH arrives."""
        size, last = self.output.get_size(), self._drawn_size
        self._drawn_size = size
        if last is None or last == size or self._last_screen is None:
            return
        if last.columns != size.columns and reflows(os.environ):
            self._handle_reflow(size.columns)
        scrolled_off = self._handle_height(last, size)
        # In this place alone: a terminal that tells later than it grows has brought them back once already.
        self._wipe(self._scrolled_off)
        self._invalidate()
        self._scrolled_off = scrolled_off

    def _handle_height(self, last: Size, size: Size) -> int:
        """The number of our rows scrolled off the top. A terminal that gets too low scrolls the first rows
        off, and most bring them back when it grows: then they are erased too. If the width changed as well
        this is unknown, and a ghost row is better than erased text."""
        if last.columns != size.columns:
            self._scrolled_off = 0
            return 0
        over = max(0, self._cursor_pos.y + len(self._drawn) + 1 - size.rows)
        if size.rows < last.rows:
            return self._scrolled_off + over
        return max(0, self._scrolled_off - (size.rows - last.rows))

    def _handle_reflow(self, columns: int) -> None:
        """Correct the cursor position after the terminal reflowed our rows."""
        last, caret = self._last_screen, self._cursor_pos
        if last is None:
            return
        ours = sum(rows_taken(_width(row), columns) for row in self._drawn) - len(self._drawn)
        widths = [_used(last.data_buffer[y]) for y in range(last.height)]
        down = rows_after_reflow(widths, (caret.x, caret.y), columns)
        self._cursor_pos = Point(x=caret.x % columns, y=down + ours)


def _width(row: str) -> int:
    return text_width(_SGR.sub("", row))


def _used(row: Mapping[int, Char]) -> int:
    """The width of a row without trailing blanks, which do not wrap."""
    return max((x + cell.width for x, cell in row.items() if cell.char.strip()), default=0)


class LiveApplication(Application[None]):
    """prompt_toolkit's application with a short Esc timeout and a resize without ghost rows."""

    output: FrameOutput

    def __init__(self, above: Rows, below: Callable[[], Hashable], **options: Any) -> None:
        super().__init__(erase_when_done=True, **options)
        self.live_renderer = LiveRenderer(self._merged_style, self.output, above, below)
        self.renderer = self.live_renderer
        self.ttimeoutlen = ESCAPE_SECONDS

    @property
    def timeoutlen(self) -> float:
        """prompt_toolkit would wait a second after an Esc."""
        pressed = self.key_processor.key_buffer
        return ESCAPE_SECONDS if pressed and pressed[0].key == Keys.Escape else SEQUENCE_SECONDS

    @timeoutlen.setter
    def timeoutlen(self, _seconds: float) -> None:
        """Ignore the value that the base class sets."""

    def _on_resize(self) -> None:
        self._redraw()
