"""The part of the terminal that is live: a few rows at the bottom, drawn by prompt_toolkit inline.

Everything above is the terminal's own scrollback and is written once, by `commit`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Point
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.input import create_input
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindingsBase
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    AnyContainer,
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.screen import Char
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar

from coder.terminal.output import OneWrite, reflows, rows_after_reflow

ESCAPE_SECONDS = 0.025  # how long an Esc may be the beginning of something longer, twice
SEQUENCE_SECONDS = 1.0  # Ctrl+X, and then?

# Shift+Enter, as terminals that tell it apart from Enter send it: the same as Alt+Enter.
for _sequence in ("\x1b[13;2u", "\x1b[27;2;13~"):
    ANSI_SEQUENCES[_sequence] = (Keys.Escape, Keys.ControlM)

Rows = Callable[[], Sequence[str]]


class InlineApplication(Application[None]):
    """prompt_toolkit's application with an Esc that is quick and a resize that leaves no ghosts."""

    output: OneWrite

    @property
    def timeoutlen(self) -> float:
        """prompt_toolkit would wait a second for what might follow an Esc."""
        pressed = self.key_processor.key_buffer
        return ESCAPE_SECONDS if pressed and pressed[0].key == Keys.Escape else SEQUENCE_SECONDS

    @timeoutlen.setter
    def timeoutlen(self, _seconds: float) -> None:
        """Set by the base class while it is being made; what holds is above."""

    def _on_resize(self) -> None:
        with self.output.one_write():
            self.follow_reflow()
            forget_drawn(self)
            super()._redraw()

    def _redraw(self, render_as_done: bool = False) -> None:
        """A frame may be due after the terminal has changed and before its signal is heard."""
        size = self.renderer._last_size
        if size is not None and size != self.output.get_size() and not self._running_in_terminal:
            self._on_resize()
        super()._redraw(render_as_done)

    def follow_reflow(self) -> None:
        """Where the terminal has broken our rows anew, the caret is further down than we left it."""
        renderer = self.renderer
        last, size = renderer.last_rendered_screen, renderer._last_size
        if last is None or size is None or size.columns == self.output.get_size().columns:
            return
        if not reflows(os.environ):
            return
        widths = [_used(last.data_buffer[y]) for y in range(last.height)]
        caret, columns = renderer._cursor_pos, self.output.get_size().columns
        down = rows_after_reflow(widths, (caret.x, caret.y), columns)
        renderer._cursor_pos = Point(x=caret.x % columns, y=down)


def _used(row: Mapping[int, Char]) -> int:
    """The columns of a row that something was drawn in: what is blank at its end does not wrap."""
    return max((x + cell.width for x, cell in row.items() if cell.char.strip()), default=0)


def forget_drawn(app: Application[Any]) -> None:
    """Erase the live rows and stand where they began. (`Renderer.erase` would also switch bracketed paste
    off and flush.)"""
    output, renderer = app.output, app.renderer
    output.write_raw("\r")
    output.cursor_up(renderer._cursor_pos.y)
    output.erase_down()
    output.reset_attributes()
    output.enable_autowrap()
    renderer._cursor_pos = Point(x=0, y=0)
    renderer._last_screen = None
    renderer._last_style = None


class Parts:
    """What the live rows are made of: each a function that gives its rows now, as text with SGR colours."""

    def __init__(
        self,
        *,
        live: Rows,
        status: Rows,
        queue: Rows,
        menu: Rows,
        bar: Rows,
        prompt: Callable[[], str],
    ) -> None:
        self.live, self.status, self.queue = live, status, queue
        self.menu, self.bar, self.prompt = menu, bar, prompt


class Screen:
    """Draws the live rows, and commits finished ones to scrollback."""

    def __init__(
        self, output: OneWrite, buffer: Buffer, parts: Parts, keys: KeyBindingsBase, *, vim: bool
    ) -> None:
        self.output = output
        self.buffer = buffer
        search = SearchToolbar()
        control = BufferControl(buffer, search_buffer_control=search.control, preview_search=True)
        self.input = Window(
            control,
            wrap_lines=True,
            dont_extend_height=True,
            height=self._input_height,
            get_line_prefix=lambda line, wrapped: _prefix(parts.prompt, line, wrapped),
        )
        rows: list[AnyContainer] = [
            _rows(parts.live),
            _rows(parts.status),
            _rows(parts.queue),
            self.input,
            search,
            _rows(parts.menu),
            _rows(parts.bar),
            Window(height=Dimension(min=0, preferred=0, weight=1)),
        ]
        self.app = InlineApplication(
            layout=Layout(HSplit(rows), focused_element=self.input),
            key_bindings=keys,
            style=Style([("search-toolbar", "noreverse")]),
            include_default_pygments_style=False,
            editing_mode=EditingMode.VI if vim else EditingMode.EMACS,
            erase_when_done=True,
            terminal_size_polling_interval=None,
            max_render_postpone_time=0,
            input=create_input(),
            output=output,
        )
        self.app.ttimeoutlen = ESCAPE_SECONDS

    def _input_height(self) -> Dimension:
        return Dimension(min=1, max=max(1, self.rows // 2))

    @property
    def columns(self) -> int:
        return self.output.get_size().columns

    @property
    def rows(self) -> int:
        return self.output.get_size().rows

    @property
    def away(self) -> bool:
        """Whether an editor or a pager has the terminal."""
        return self.app._running_in_terminal or not self.app.is_running

    def commit(self, lines: Sequence[str]) -> None:
        """Append to scrollback: erase, text and redraw in one write, so that nothing flickers."""
        with self.output.one_write():
            self.app.follow_reflow()
            forget_drawn(self.app)
            self.app.renderer._last_size = None
            self.output.write_raw("".join(f"{line}\r\n" for line in lines))
            self.app._redraw()

    def redraw(self) -> None:
        self.app.invalidate()

    def send(self, sequence: str) -> None:
        """A sequence that draws nothing: title, bell, clipboard."""
        self.output.write_raw(sequence)
        self.output.flush()


def _rows(rows: Rows) -> ConditionalContainer:
    """A window that is as high as what it shows, and not there where that is nothing."""
    drawn, shown = -1, [""]

    def now() -> Sequence[str]:
        """Asked for a dozen times while one frame is laid out; worked out once."""
        nonlocal drawn, shown
        if drawn != get_app().render_counter:
            drawn, shown = get_app().render_counter, list(rows())
        return shown

    def fragments() -> StyleAndTextTuples:
        return to_formatted_text(ANSI("\n".join(now())))

    window = Window(
        FormattedTextControl(fragments, show_cursor=False),
        dont_extend_height=True,
        height=lambda: Dimension(min=0, max=len(now()), preferred=len(now())),
    )
    return ConditionalContainer(window, Condition(lambda: bool(now())))


def _prefix(prompt: Callable[[], str], line: int, wrapped: int) -> StyleAndTextTuples:
    if line == 0 and wrapped == 0:
        return to_formatted_text(ANSI(prompt()))
    return [("", "  ")]
