"""The live region: the rows at the bottom of the terminal that are redrawn, see `renderer`.

Everything above is the terminal's scrollback and is written once, by `commit`.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache, partial

from prompt_toolkit.application import get_app, in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.cursor_shapes import ModalCursorShapeConfig
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.formatted_text.base import OneStyleAndTextTuple
from prompt_toolkit.key_binding import KeyBindingsBase
from prompt_toolkit.layout import (
    AnyContainer,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets.toolbars import SearchToolbar

from coder.terminal.input.control import InputControl
from coder.terminal.input.keyboard import keyboard_input
from coder.terminal.render.background import QUERY, theme_on
from coder.terminal.render.frame_output import FrameOutput
from coder.terminal.render.renderer import LiveApplication, Rows
from coder.terminal.render.theme import Theme


class Parts:
    """The sections of the live region: each a function that returns its current rows with SGR colours."""

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


class LiveRegion:
    """Draws the live rows, and commits finished ones to scrollback."""

    def __init__(
        self,
        output: FrameOutput,
        buffer: Buffer,
        parts: Parts,
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
        prefix = partial(_prefix, parts.prompt)
        self.input = Window(
            InputControl(buffer, toolbar.control, prefix),
            wrap_lines=True,
            dont_extend_height=True,
            height=self._input_height,
            get_line_prefix=prefix,
        )
        rows: list[AnyContainer] = [
            self.input,
            toolbar,
            _rows(parts.menu),
            _rows(parts.bar),
            Window(height=Dimension(min=0, preferred=0, weight=1)),
        ]
        self.app = LiveApplication(
            lambda: [*parts.live(), *parts.status(), *parts.queue()],
            lambda: self._below(parts),
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

    def _below(self, parts: Parts) -> Hashable:
        """Cache key of the rows from the prompt on: other state changes only with a key, which redraws."""
        text = self.buffer.text, self.buffer.cursor_position
        return text, parts.prompt(), tuple(parts.menu()), tuple(parts.bar()), self.app.editing_mode

    def _input_height(self) -> Dimension:
        return Dimension(min=1, max=max(1, self.output.all_rows // 2))

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
    async def lent(
        self, draw: Callable[[], None]
    ) -> AsyncIterator[tuple[int, int, Callable[[bytes], object]]]:
        """The terminal's descriptors, for a program: the rows are gone meanwhile. The function takes keys
        that were typed for the prompt.
        """
        typed = bytearray()
        draw()
        with set_app(self.app):
            async with in_terminal():
                yield sys.stdin.fileno(), sys.stdout.fileno(), typed.extend
            self.app.key_processor.feed_multiple(self._keyboard.parsed(bytes(typed)))
            self.app.key_processor.process_keys()

    def follow_background(self, theme: Theme, draw: Callable[[], None]) -> None:
        """Ask for the background with the first frame, when the terminal is in raw mode: an answer before
        that would be echoed. The theme follows, unless the person has chosen another meanwhile."""
        guessed, asked = theme.name, False

        def heard(answer: str) -> None:
            if theme.name == guessed and (name := theme_on(answer)) not in ("", guessed):
                theme.name = name
                draw()

        def ask(_app: object) -> None:
            nonlocal asked
            if not asked:
                asked = True
                self._keyboard.expect_background(heard)
                self.send(QUERY)

        self.app.after_render += ask

    def send(self, sequence: str) -> None:
        """Write an escape sequence that draws nothing: title, bell, clipboard."""
        self.output.write_raw(sequence)
        self.output.flush()


def _rows(rows: Rows) -> ConditionalContainer:
    """A window as high as its rows, hidden if there are none."""
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
    """The prompt stays the same while a key is drawn, which asks for it a dozen times."""
    return tuple(to_formatted_text(ANSI(text)))
