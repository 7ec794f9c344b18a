"""Draws the live rows: ours above, and below them what prompt_toolkit draws (input, menu, bar).

Our rows change many times a second while an answer streams; the rest changes when a key is pressed. So ours
are written as they are, and what prompt_toolkit wrote for the rest is written again as long as it holds: a
frame costs no layout. prompt_toolkit knows nothing of our rows but that the terminal is so much lower.
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

ESCAPE_SECONDS = 0.025  # how long an Esc may be the beginning of something longer, twice
SEQUENCE_SECONDS = 1.0  # Ctrl+X, and then?

Rows = Callable[[], Sequence[str]]
_SGR = re.compile(r"\x1b\[[\d;]*m")


class InlineRenderer(Renderer):
    """`above` gives our rows as they should be now; `below` what the rest is drawn from, to be compared."""

    output: FrameOutput

    def __init__(
        self, style: BaseStyle, output: FrameOutput, above: Rows, below: Callable[[], Hashable]
    ) -> None:
        self._above, self._below = above, below
        self._drawn: list[str] = []  # ours, as they stand on the screen
        self._rest = ""  # what draws the rest from nothing; empty where it no longer would
        self._rest_is: Hashable = None
        self._seen: Size | None = None  # the terminal's size when it was last drawn on
        self._pushed = 0  # rows of ours above the top of the screen, where a lower terminal has put them
        super().__init__(style, output)

    # what prompt_toolkit asks for

    def reset(self, _scroll: bool = False, leave_alternate_screen: bool = True) -> None:
        self._drawn, self._rest, self._seen, self._pushed = [], "", None, 0
        super().reset(_scroll, leave_alternate_screen)

    def erase(self, leave_alternate_screen: bool = True) -> None:
        self._wipe()
        self.output.flush()
        self.reset(leave_alternate_screen=leave_alternate_screen)

    def render(self, app: Application[Any], layout: Layout, is_done: bool = False) -> None:
        """A key was pressed, or something else than our rows has changed."""
        with self.output.one_write():
            self._follow_resize()
            size = self.output.get_size()
            needed = layout.container.preferred_height(size.columns, size.rows).preferred
            self._place(self._fitting(size.rows - needed))
            fresh = self._last_screen is None
            begun = self.output.position
            with self.output.lower_by(len(self._drawn)):
                super().render(app, layout, is_done)
            self._rest = self.output.since(begun) if fresh else ""
            self._rest_is = self._below()

    # frames

    def frame(self, app: Application[Any], lines: Sequence[str]) -> None:
        """`lines` go to scrollback; our rows are drawn as they are now."""
        with self.output.one_write():
            self._follow_resize()
            if not self._rest or self._last_screen is None or self._rest_is != self._below():
                self._wipe()
                self._forget()
                self._commit(lines)
                app._redraw()
                return
            rows = self._fitting(self.output.get_size().rows - self._last_screen.height)
            if not lines and len(rows) == len(self._drawn):
                self._patch(rows)
                return
            self._wipe()
            self._commit(lines)
            self._write_lines(rows)
            self._drawn = rows
            self.output.write_raw(self._rest)

    def _place(self, rows: list[str]) -> None:
        """Our rows alone; where their number changes, the rest has to be drawn anew."""
        if self._last_screen is not None and len(rows) == len(self._drawn):
            self._patch(rows)
            return
        if self._drawn or self._last_screen is not None:
            self._wipe()
        self._forget()
        self._write_lines(rows)
        self._drawn = rows

    def _patch(self, rows: list[str]) -> None:
        """Write those that differ in their places, and stand again where the caret is."""
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
            self._pushed = 0  # other text stands between them and us: out of reach

    def _fitting(self, room: int) -> list[str]:
        rows = list(self._above())
        return rows[len(rows) - room :] if 0 <= room < len(rows) else rows

    def _wipe(self) -> None:
        """Erase all live rows and stand where they began."""
        output = self.output
        output.write_raw("\r")
        output.cursor_up(self._cursor_pos.y + len(self._drawn) + self._pushed)
        output.erase_down()
        output.reset_attributes()
        output.enable_autowrap()

    def _forget(self) -> None:
        """Nothing of the live rows is on the screen."""
        self._drawn, self._rest = [], ""
        self._cursor_pos = Point(x=0, y=0)
        self._last_screen = None
        self._last_style = None

    # resizing

    def _follow_resize(self) -> None:
        """The terminal may have changed before its signal is heard: asked before anything is written."""
        size, seen = self.output.get_size(), self._seen
        self._seen = size
        if seen is None or seen == size or self._last_screen is None:
            return
        if seen.columns != size.columns and reflows(os.environ):
            self._follow_reflow(size.columns)
        pushed = self._follow_height(seen, size)
        self._wipe()
        self._forget()
        self._pushed = pushed

    def _follow_height(self, seen: Size, size: Size) -> int:
        """A terminal that gets too low for our rows pushes the first ones off its top, and most bring them
        back when it gets higher: then they are erased with the others. How many there are now. Where the
        width has changed too nobody knows: rather a row of ours left behind than one of the text lost."""
        if seen.columns != size.columns:
            self._pushed = 0
            return 0
        over = max(0, self._cursor_pos.y + len(self._drawn) + 1 - size.rows)
        if size.rows < seen.rows:
            return self._pushed + over
        return max(0, self._pushed - (size.rows - seen.rows))

    def _follow_reflow(self, columns: int) -> None:
        """Where the terminal has broken our rows anew, the caret is further down than we left it."""
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
    """The columns of a row that something was drawn in: what is blank at its end does not wrap."""
    return max((x + cell.width for x, cell in row.items() if cell.char.strip()), default=0)


class InlineApplication(Application[None]):
    """prompt_toolkit's application with an Esc that is quick and a resize that leaves no ghosts."""

    output: FrameOutput

    def __init__(self, above: Rows, below: Callable[[], Hashable], **options: Any) -> None:
        super().__init__(erase_when_done=True, **options)
        self.inline = InlineRenderer(self._merged_style, self.output, above, below)
        self.renderer = self.inline
        self.ttimeoutlen = ESCAPE_SECONDS

    @property
    def timeoutlen(self) -> float:
        """prompt_toolkit would wait a second for what might follow an Esc."""
        pressed = self.key_processor.key_buffer
        return ESCAPE_SECONDS if pressed and pressed[0].key == Keys.Escape else SEQUENCE_SECONDS

    @timeoutlen.setter
    def timeoutlen(self, _seconds: float) -> None:
        """Set by the base class while it is being made; what holds is above."""

    def _on_resize(self) -> None:
        self._redraw()
