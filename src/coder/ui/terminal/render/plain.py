"""Writes events as plain lines, append-only.

On a terminal everything goes to one stream. With stdout piped, the answer goes to stdout, progress to stderr.
"""

from __future__ import annotations

from collections.abc import Callable
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Literal, TextIO

from coder.protocol.events import (
    AnyEvent,
    ApprovalRequested,
    CommandDone,
    Content,
    ContentRestarted,
    Notice,
    Thought,
    TodosChanged,
    ToolCallChanged,
    TurnEnded,
    VerifyChanged,
)
from coder.texts import Catalog
from coder.ui.terminal.render.escapes import safe
from coder.ui.terminal.render.event_lines import (
    command_lines,
    remark_lines,
    todo_lines,
    tool_lines,
    verify_lines,
)
from coder.ui.terminal.render.theme import Theme
from coder.ui.terminal.render.width import Line, WordWrapper, plain, text_width, wrap

if TYPE_CHECKING:
    from coder.ui.terminal.render.streamed_text import StreamedText
    from coder.ui.terminal.render.width import WordWrapper


def line_prompt(choices: str, texts: Catalog) -> str:
    """The choices of a question that a line answers, not a key."""
    return choices.rstrip(" :：") + texts.say("view.then_enter")


class PlainRenderer:
    """The transcript of one session as text."""

    def __init__(
        self, out: TextIO, answer: TextIO | None, texts: Catalog, palette: Theme, *, markdown: bool = False
    ) -> None:
        """`answer`: a separate stream for the final answer, if any. `markdown`: render it, on a terminal."""
        self.out = out
        self.answer = answer
        self.texts = texts
        self.palette = palette
        self._open_kind = ""  # kind of the unfinished line: "", "thought", "content"
        self._at_line_start = True
        self._above: Literal["", "prose", "block"] = ""  # the previous output of this turn
        self._wrapper: WordWrapper | None = None  # of the unfinished line
        self._markdown = markdown
        self._streamed: StreamedText | None = None  # the unfinished Markdown
        self._pending_answer: list[str] = []
        self._deferred: list[Line] = []  # remarks that wait for the text that is being written to end
        self.before_write: Callable[[], None] = lambda: None

    @property
    def columns(self) -> int:
        """The terminal's width; 0 if `out` is no terminal and lines are not wrapped."""
        if not self.out.isatty():
            return 0

        return get_terminal_size().columns

    @property
    def at_line_start(self) -> bool:
        """Whether no line is unfinished."""
        return not self._open_kind or self._streamed is not None

    def handle(self, event: AnyEvent) -> None:
        match event:
            case Content(text):
                if self.answer is not None:
                    self._pending_answer.append(
                        text
                    )  # the answer, if nothing follows: that has its own place
                else:
                    self._write_text("content", safe(text))
            case Thought(text):
                self._write_text("thought", safe(text))
            case ToolCallChanged():
                self._write_pending()
                if event.state not in ("scheduled", "executing"):
                    self._write_lines(tool_lines(event, self.texts, self.columns))
            case TodosChanged(todos):
                self._write_lines(todo_lines(todos, self.columns))
            case VerifyChanged():
                self._write_lines(verify_lines(event, self.texts, self.columns))
            case ApprovalRequested():
                self._question(event)
            case CommandDone():
                self._command(event)
            case TurnEnded():
                self._turn_ended(event)
            case _:
                self._remark(event)

    # pieces

    def _put(self, text: str) -> None:
        self.before_write()
        self.out.write(text)

    def _remark(self, event: AnyEvent) -> None:
        width = self.columns
        remarks = remark_lines(event, self.texts)
        rows = [row for line in remarks for row in (wrap(line, width) if width else [line])]
        if self._open_kind and isinstance(event, Notice) and event.in_answer:
            self._deferred += rows
            return
        if isinstance(event, ContentRestarted):
            self._pending_answer.clear()
        self._write_lines(rows)

    def _write_pending(self) -> None:
        text, self._pending_answer = "".join(self._pending_answer), []
        if text:
            self._write_text("content", safe(text))

    def _write_text(self, kind: str, text: str) -> None:
        if self._open_kind != kind:
            self._end_line()
            if self._above:
                self._put("\n")
            self._open_kind, self._above = kind, "prose"
            self._streamed = self._new_stream(kind)
            self._wrapper = WordWrapper(self.columns) if self.columns and self._streamed is None else None
        if self._streamed is not None:
            width = self.columns
            self._write_rows([*self._streamed.feed(text, width), *self._streamed.settle(width)])
        else:
            self._write(self._wrapper.feed(text) if self._wrapper is not None else text)
        self.out.flush()

    def _new_stream(self, kind: str) -> StreamedText | None:
        if kind != "content" or not self._markdown or not self.columns:
            return None
        from coder.ui.terminal.render.markdown import markdown_rows
        from coder.ui.terminal.render.streamed_text import StreamedText

        return StreamedText(markdown_rows)

    def _write_rows(self, rows: list[Line]) -> None:
        for row in rows:
            self._put(self.palette.line(row) + "\n")

    def _write(self, text: str) -> None:
        if text:
            self._put(self.palette.paint("dim" if self._open_kind == "thought" else "", text))
            self._at_line_start = text.endswith("\n")

    def _end_line(self) -> None:
        if self._open_kind and self._streamed is not None:
            self._write_rows(self._streamed.finish(self.columns))
            self._streamed = None
        if self._open_kind and self._wrapper is not None:
            self._write(self._wrapper.finish())
        if self._open_kind and not self._at_line_start:
            self._put("\n")
        self._open_kind = ""
        self._at_line_start = True
        later, self._deferred = self._deferred, []
        self._write_lines(later)

    def line(self, text: str) -> None:
        self._end_line()
        self._put(text + "\n")
        self.out.flush()

    def paragraph(self, text: str, margin: int = 0) -> None:
        width, before = self.columns, [("", " " * margin)]
        for row in wrap([("", text)], width, before, before) if width else [[*before, ("", text)]]:
            self.line(plain(row))

    def _write_lines(self, lines: list[Line]) -> None:
        if lines and self._above == "prose":
            self.line("")
        for line in lines:
            self.line(self.palette.line(line))
            self._above = "block"

    def _command(self, event: CommandDone) -> None:
        self._end_line()
        text = self.texts.of(event.text)
        if text and event.ok and self.answer is not None:
            self.answer.write(text.rstrip("\n") + "\n")  # not a terminal: as it is
            self.answer.flush()
        else:
            self._write_lines(command_lines(event, self.texts, self.columns))
        self._above = ""

    def write_decision(self, name: str, text: str, prompt: str) -> None:
        """Write the text to decide on; `prompt` will follow below."""
        from coder.ui.terminal.ask.question_rows import DecisionText

        self._write_lines(
            DecisionText(name, text).lines([], self.texts, self.columns, self._rows_above(prompt))
        )

    def _question(self, event: ApprovalRequested) -> None:
        from coder.ui.terminal.ask.question import approval_question
        from coder.ui.terminal.ask.question_rows import approval_lines

        height = self._rows_above(line_prompt(approval_question(event, self.texts).choices, self.texts))
        self._write_lines(approval_lines(event, self.texts, self.columns, height))

    def _rows_above(self, prompt: str) -> int:
        width = self.columns
        if not width:
            return 0

        return max(1, get_terminal_size().lines - 1 - text_width(prompt) // width)

    def _turn_ended(self, event: TurnEnded) -> None:
        if event.status == "ok":
            self._pending_answer.clear()
        else:
            self._write_pending()
        self._end_line()
        if event.status == "cancelled":
            self._write_lines([[("note", safe(self.texts.of(event.error)))]])
        self._above = ""
        if self.answer is not None and event.status == "ok":
            self.answer.write(event.text.rstrip("\n") + "\n")  # not a terminal: as it is
            self.answer.flush()
