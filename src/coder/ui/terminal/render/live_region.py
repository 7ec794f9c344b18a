"""The rows at the bottom of the terminal that are redrawn; `commit` writes scrollback above them once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TextIO

from prompt_toolkit.application import Application, get_app, in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.cursor_shapes import ModalCursorShapeConfig
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.formatted_text.base import OneStyleAndTextTuple
from prompt_toolkit.key_binding import KeyBindingsBase
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    AnyContainer,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.screen import Char
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import Renderer
from prompt_toolkit.styles import BaseStyle, Style
from prompt_toolkit.widgets.toolbars import SearchToolbar

from coder.ui.terminal.input.keyboard import InputControl, keyboard_input
from coder.ui.terminal.render.escapes import redirect_to_devnull
from coder.ui.terminal.render.theme import NAMES, Theme, colour_depth
from coder.ui.terminal.render.width import text_width

if TYPE_CHECKING:
    from coder.ui.terminal.render.live_rows import LiveRows

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
            start = self.output.position
            with self.output.reserve_rows(len(self._drawn)):
                super().render(app, layout, is_done)
            self._below_output = self.output.since(start) if fresh else ""
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
        # Only here: a terminal that reports its growth late has brought them back already.
        self._wipe(self._scrolled_off)
        self._invalidate()
        self._scrolled_off = scrolled_off

    def _handle_height(self, last: Size, size: Size) -> int:
        """The number of our rows scrolled off the top, which most terminals bring back when they grow.
        Unknown if the width changed too: a ghost row is better than erased text."""
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
        widths = [_used_width(last.data_buffer[y]) for y in range(last.height)]
        down = rows_after_reflow(widths, (caret.x, caret.y), columns)
        self._cursor_pos = Point(x=caret.x % columns, y=down + ours)


def _width(row: str) -> int:
    return text_width(_SGR.sub("", row))


def _used_width(row: Mapping[int, Char]) -> int:
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


BACKGROUND_QUERY = "\x1b]11;?\x1b\\"
_COLOUR = re.compile(r"\x1b\]11;rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})")
_SILENT = ("", "dumb", "unknown", "linux", "cons25", "vt100", "vt220")  # do not answer, or print the query
_WEIGHTS = (0.299, 0.587, 0.114)  # of red, green and blue in perceived brightness


def can_query_background(setting: str, environ: Mapping[str, str]) -> bool:
    """Whether the theme depends on the background, and the terminal can be expected to know the question."""
    return setting not in NAMES and not environ.get("NO_COLOR") and environ.get("TERM", "dumb") not in _SILENT


def theme_for_background(answer: str) -> str:
    """The theme for a background; empty if the answer cannot be read."""
    found = _COLOUR.match(answer)
    if found is None:
        return ""
    shares = [int(part, 16) / (16 ** len(part) - 1) for part in found.groups()]
    brightness = sum(weight * share for weight, share in zip(_WEIGHTS, shares, strict=True))
    return "light" if brightness > 0.5 else "dark"


class LiveRegion:
    """Draws the live rows, and commits finished ones to scrollback."""

    def __init__(
        self,
        output: FrameOutput,
        buffer: Buffer,
        sections: LiveRows,
        keys: KeyBindingsBase,
        *,
        vim: bool,
        search: tuple[str, str] = ("", ""),
    ) -> None:
        """`search`: the prompts of a search, forward and backward."""
        self.output = output
        self.buffer = buffer
        self._keyboard = keyboard_input()
        toolbar = SearchToolbar(
            forward_search_prompt=search[0], backward_search_prompt=search[1], ignore_case=True
        )
        prefix = partial(_prefix, sections.prompt)
        self.input = Window(
            InputControl(buffer, toolbar.control, prefix),
            wrap_lines=True,
            dont_extend_height=True,
            height=lambda: Dimension(min=1, max=max(1, output.all_rows // 2)),
            get_line_prefix=prefix,
        )
        rows: list[AnyContainer] = [
            self.input,
            toolbar,
            _rows(sections.menu),
            _rows(sections.bar),
            Window(height=Dimension(min=0, preferred=0, weight=1)),
        ]
        self.app = LiveApplication(
            lambda: [*sections.live(), *sections.status(), *sections.queue()],
            lambda: self._below(sections),
            layout=Layout(HSplit(rows), focused_element=self.input),
            key_bindings=keys,
            style=Style([("search-toolbar", "noreverse")]),
            include_default_pygments_style=False,
            editing_mode=EditingMode.VI if vim else EditingMode.EMACS,
            terminal_size_polling_interval=None,
            max_render_postpone_time=0,
            cursor=ModalCursorShapeConfig(),  # of vim's modes
            input=self._keyboard,
            output=output,
        )

    def _below(self, sections: LiveRows) -> Hashable:
        """Cache key of the rows from the prompt on: other state changes only with a key, which redraws."""
        text = self.buffer.text, self.buffer.cursor_position
        return text, sections.prompt(), tuple(sections.menu()), tuple(sections.bar()), self.app.editing_mode

    @property
    def columns(self) -> int:
        return self.output.get_size().columns

    @property
    def rows(self) -> int:
        return self.output.get_size().rows

    @property
    def is_lent(self) -> bool:
        """Whether an editor or a pager has the terminal."""
        return self.app._running_in_terminal or not self.app.is_running

    @property
    def has_unread_keys(self) -> bool:
        return self._keyboard.has_unread

    def commit(self, lines: Sequence[str]) -> None:
        """Append to scrollback: erase, write and redraw in one write, to avoid flicker."""
        self.app.live_renderer.frame(self.app, lines)

    def redraw(self) -> None:
        """Redraw the live rows that changed."""
        self.app.live_renderer.frame(self.app, [])

    @asynccontextmanager
    async def lend(
        self, draw: Callable[[], None]
    ) -> AsyncIterator[tuple[int, int, Callable[[bytes], object]]]:
        """Lend the terminal's descriptors to a program, with the rows erased. The function takes keys typed
        for the prompt."""
        typed = bytearray()
        draw()
        with set_app(self.app):
            async with in_terminal():
                yield sys.stdin.fileno(), sys.stdout.fileno(), typed.extend
            self.app.key_processor.feed_multiple(self._keyboard.parsed(bytes(typed)))
            self.app.key_processor.process_keys()

    def follow_background(self, theme: Theme, draw: Callable[[], None]) -> None:
        """Query the background with the first frame, in raw mode, else the answer would be echoed. The theme
        follows unless it was changed meanwhile."""
        guessed, asked = theme.name, False

        def received(answer: str) -> None:
            if theme.name == guessed and (name := theme_for_background(answer)) not in ("", guessed):
                theme.name = name
                draw()

        def ask(_app: object) -> None:
            nonlocal asked
            if not asked:
                asked = True
                self._keyboard.expect_background_reply(received)
                self.send(BACKGROUND_QUERY)

        self.app.after_render += ask

    def send(self, sequence: str) -> None:
        """Write an escape sequence that draws nothing: title, bell, clipboard."""
        self.output.write_raw(sequence)
        self.output.flush()


def _rows(rows: Rows) -> ConditionalContainer:
    """A window as high as its rows, hidden without any."""
    drawn, shown = -1, [""]

    def now() -> Sequence[str]:
        """Cached per render: layout asks a dozen times."""
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
        return list(_parsed(prompt()))
    return [("", "  ")]


@lru_cache(maxsize=4)
def _parsed(text: str) -> tuple[OneStyleAndTextTuple, ...]:
    """Cached: drawing one key asks for the prompt a dozen times."""
    return tuple(to_formatted_text(ANSI(text)))


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
        self._size: Size | None = None  # of the current frame: queried once, not thirty times

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
        """The output from `position` on. Valid inside `one_write` only."""
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
    screen truncate, and only these variables tell them apart."""
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
