"""The terminal: scrollback, the live region below it, and the pager and editor that borrow it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindingsBase

from coder.engine.engine import Engine
from coder.engine.setup import Options, Settings
from coder.policy.visible import visible
from coder.protocol.events import ApprovalRequested
from coder.tools.text.hunks import Hunk
from coder.ui.terminal.ask.question_rows import hunk_rows
from coder.ui.terminal.input.actions import edit_outside, toggle_vim
from coder.ui.terminal.render.escapes import safe
from coder.ui.terminal.render.event_lines import diff_rows, message_lines
from coder.ui.terminal.render.live_region import LiveRegion, Throttle, can_query_background, terminal_output
from coder.ui.terminal.render.live_rows import LiveRows, live_limit
from coder.ui.terminal.render.theme import theme_for
from coder.ui.terminal.render.transcript import Transcript
from coder.ui.terminal.render.width import Line, wrap
from coder.ui.terminal.screen_state import PromptState
from coder.ui.terminal.statusline import Notifier
from coder.ui.terminal.transcript_pager import TranscriptPager, pager_command

if TYPE_CHECKING:
    from coder.ui.terminal.ask.approval_prompt import ApprovalPrompt
    from coder.ui.terminal.input.editor import Editor
    from coder.ui.terminal.pick import Picker


class Screen:
    """Draws the transcript and the live region. `open` creates the region, which needs the keys."""

    def __init__(self, options: Options, settings: Settings, engine: Engine, state: PromptState) -> None:
        self._options, self._engine, self._state = options, engine, state
        self._texts, self._ui = settings.texts, settings.loaded.config.ui
        self.theme = theme_for(self._ui.theme, options.environ)
        self.output = terminal_output()
        self.transcript = Transcript(self._texts, lambda: self.columns, self._rows_above_question)
        self.transcript.folds = not self._ui.plain
        self.transcript.has_pager = lambda: pager_command(os.environ, self._engine.view.root) is not None
        self.transcript.thinking, self.transcript.output_lines = self._ui.thinking, self._ui.output_lines
        self.throttle = Throttle(self._draw)
        self.after_frame: Callable[[], object] = lambda: None
        self._redraw_pending = False  # a frame was skipped while an editor or pager had the terminal
        self._leaving = False
        self.rows: LiveRows
        self.region: LiveRegion
        self.pager: TranscriptPager
        self.notifier: Notifier
        self._question: ApprovalPrompt

    def open(
        self,
        editor: Editor,
        picker: Picker,
        question: ApprovalPrompt,
        bar: Callable[[], list[str]],
        keys: KeyBindingsBase,
    ) -> None:
        """`bar`: the rows below the prompt."""
        loop, name = asyncio.get_running_loop(), self._options.cwd.name or self._options.cwd
        self._question = question
        self.rows = LiveRows(
            self._state,
            self._options.cwd,
            self._ui,
            self._texts,
            self.theme,
            editor=editor,
            transcript=self.transcript,
            picker=picker,
            question=question,
            bar=bar,
            size=self.size,
            redraw_after=lambda seconds: loop.call_later(seconds, self.draw_soon),
        )
        self.transcript.unfold_key = self.rows.key_names["transcript"].lower().replace("–", "")
        search = self._texts.say("terminal.search"), self._texts.say("terminal.search_back")
        self.region = LiveRegion(self.output, editor.buffer, self.rows, keys, vim=self._ui.vim, search=search)
        self.region.app.after_render += lambda _app: self._after_render()
        self.region.input.always_hide_cursor = Condition(lambda: editor.in_bar)
        if can_query_background(self._ui.theme, self._options.environ):
            self.region.follow_background(self.theme, self.draw_soon)
        self.notifier = Notifier(self._ui, self._options.environ, f"coder · {name}", self.send)
        self.pager = TranscriptPager(self._engine, self._texts, self.theme, self.region)

    # size

    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        size = self.output.get_size()
        return size.columns, size.rows

    @property
    def columns(self) -> int:
        return self.size()[0]

    def _rows_above_question(self) -> int:
        """The rows that a question's choices, the prompt, the queue and the bar leave for the transcript."""
        columns, rows = self.size()
        below = len(self.rows.queue()) + len(self.rows.bar()) + self.rows.input_rows()
        return max(1, rows - below - max(1, len(self._question.rows(columns, rows))))

    # the transcript

    def echo_message(self, text: str, *, apart: bool = False, reply: str = "") -> None:
        """Copy typed text into the transcript. `apart`: without ending the answer that streams."""
        message = message_lines(self.rows.editor.pastes.as_typed(text), self.columns)
        answer = wrap([("", reply)], self.columns) if reply else []
        self.transcript.echo([[], *message, *answer], apart=apart)

    def echo_dim(self, text: str) -> None:
        self.transcript.echo([[("dim", text)]])

    def show_question(self, event: ApprovalRequested) -> None:
        self.transcript.handle(event)
        self.notifier.alert(self._texts.say("terminal.call_approval"))

    def show_hunk(self, hunk: Hunk, number: int, count: int) -> None:
        self.transcript.echo(hunk_rows(hunk, number, count, self._texts, self.columns))
        self.draw_now()  # no key may answer an invisible question

    def say_answer(self, line: Line) -> None:
        margin: Line = [("", "  ")]
        self.transcript.echo(wrap(line, self.columns, margin, margin))
        self.draw_soon()

    @property
    def last_answer(self) -> str:
        return "".join(self.transcript.answer)

    # programs that borrow the terminal

    def show_transcript(self) -> None:
        if not self.pager.open_transcript():
            self._say_no_pager()

    def page_diff(self, text: str) -> None:
        if not self.pager.page_lines(diff_rows(safe(visible(text).text))):
            self._say_no_pager()

    def _say_no_pager(self) -> None:
        self.say_answer([("bad", self._texts.say("terminal.no_pager"))])

    def edit_diff(self, text: str, done: Callable[[str | None], None]) -> None:
        edit_outside(self.region.app, text, ".diff", self._engine.view.root, done)

    def toggle_vim(self) -> bool:
        return toggle_vim(self.region.app)

    def send(self, sequence: str) -> None:
        self.region.send(sequence)

    def leave(self) -> None:
        if not self._leaving and self.region.app.is_running:
            self._leaving = True
            self.region.app.exit()

    # frames

    def draw_soon(self) -> None:
        self.throttle.request()

    def draw_now(self) -> None:
        self.throttle.now()

    def spin(self, on: bool) -> None:
        self.throttle.spin(on and not self._ui.plain)

    def _draw(self) -> None:
        if self.region.is_lent:
            self._redraw_pending = True
            return
        rows = self.transcript.drain(0 if self._ui.plain else live_limit(self.size()[1]))
        self.rows.update_tail()
        if rows:
            self.region.commit([self.theme.line(row) for row in rows])
        else:
            self.region.redraw()
        self.after_frame()

    def _after_render(self) -> None:
        """Draw the frame that was skipped while an editor or pager had the terminal."""
        self.after_frame()
        if self._redraw_pending:
            self._redraw_pending = False
            self.draw_soon()

    def write_last_rows(self) -> None:
        """Write directly: the application has ended."""
        lines = [self.theme.line(row) for row in self.transcript.drain(0)]
        self.send("".join(f"{line}\r\n" for line in lines))
        self.notifier.closed()
