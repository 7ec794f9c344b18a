"""Shows events as plain lines, appended and never repainted.

On a terminal everything goes to one stream. With stdout piped, the answer alone goes to stdout and the
progress to stderr.
"""

from __future__ import annotations

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
from coder.terminal.render.event_lines import (
    command_lines,
    remark_lines,
    todo_lines,
    tool_lines,
    verify_lines,
)
from coder.terminal.render.sanitize import safe
from coder.terminal.render.theme import Theme
from coder.terminal.render.width import Line, plain, text_width, wrap
from coder.texts import Texts

if TYPE_CHECKING:
    from coder.terminal.render.wrap import WordWrapper


class Palette(Theme):
    """Colour only where the terminal has it."""

    def __init__(self, enabled: bool) -> None:
        super().__init__("dark" if enabled else "none")


class PlainView:
    """The stream of one session as text."""

    def __init__(self, out: TextIO, answer: TextIO | None, texts: Texts, palette: Theme) -> None:
        """`answer`: where the final answer alone goes, if not into the stream itself."""
        self.out = out
        self.answer = answer
        self.texts = texts
        self.palette = palette
        self._open = ""  # what the unfinished line belongs to: "", "thought", "content"
        self._at_line_start = True
        self._above: Literal["", "prose", "block"] = ""  # what stands above in this turn
        self._breaker: WordWrapper | None = None  # of the unfinished line
        self._held: list[str] = []
        self._later: list[Line] = []  # remarks that wait for the text that is being written to end

    @property
    def columns(self) -> int:
        """Of the terminal; 0 where there is none, and nobody to break lines for."""
        if not self.out.isatty():
            return 0
        from shutil import get_terminal_size

        return get_terminal_size().columns

    def show(self, event: AnyEvent) -> None:
        match event:
            case Content(text):
                if self.answer is not None:
                    self._held.append(text)  # the answer, if nothing follows: that has its own place
                else:
                    self._stream("content", safe(text))
            case Thought(text):
                self._stream("thought", safe(text))
            case ToolCallChanged():
                self._show_held()
                if event.state not in ("scheduled", "executing"):
                    self._lines(tool_lines(event, self.texts))
            case TodosChanged(todos):
                self._lines(todo_lines(todos, self.columns))
            case VerifyChanged():
                self._lines(verify_lines(event, self.texts))
            case ApprovalRequested():
                self._question(event)
            case CommandDone():
                self._command(event)
            case TurnEnded():
                self._turn_ended(event)
            case _:
                self._remark(event)

    # pieces

    def _remark(self, event: AnyEvent) -> None:
        width = self.columns
        remarks = remark_lines(event, self.texts)
        rows = [row for line in remarks for row in (wrap(line, width) if width else [line])]
        if self._open and isinstance(event, Notice) and event.in_answer:
            self._later += rows
            return
        if isinstance(event, ContentRestarted):
            self._held.clear()
        self._lines(rows)

    def _show_held(self) -> None:
        text, self._held = "".join(self._held), []
        if text:
            self._stream("content", safe(text))

    def _stream(self, kind: str, text: str) -> None:
        if self._open != kind:
            self._end_line()
            if self._above:
                self.out.write("\n")
            self._open, self._above = kind, "prose"
            self._breaker = self._new_breaker()
        self._write(self._breaker.feed(text) if self._breaker is not None else text)
        self.out.flush()

    def _new_breaker(self) -> WordWrapper | None:
        if not self.columns:
            return None
        from coder.terminal.render.wrap import WordWrapper

        return WordWrapper(self.columns)

    def _write(self, text: str) -> None:
        if text:
            self.out.write(self.palette.paint("dim" if self._open == "thought" else "", text))
            self._at_line_start = text.endswith("\n")

    def _end_line(self) -> None:
        if self._open and self._breaker is not None:
            self._write(self._breaker.finish())
        if self._open and not self._at_line_start:
            self.out.write("\n")
        self._open = ""
        self._at_line_start = True
        later, self._later = self._later, []
        self._lines(later)

    def line(self, text: str) -> None:
        self._end_line()
        self.out.write(text + "\n")
        self.out.flush()

    def paragraph(self, text: str) -> None:
        """Broken between words: whole names can be read, and copied."""
        width = self.columns
        for row in wrap([("", text)], width) if width else [[("", text)]]:
            self.line(plain(row))

    def _lines(self, lines: list[Line]) -> None:
        if lines and self._above == "prose":
            self.line("")
        for line in lines:
            self.line(self.palette.line(line))
            self._above = "block"

    def _command(self, event: CommandDone) -> None:
        self._end_line()
        if event.text and event.ok and self.answer is not None:
            self.answer.write(event.text.rstrip("\n") + "\n")  # not a terminal: as it is
            self.answer.flush()
        else:
            self._lines(command_lines(event, self.columns))
        self._above = ""

    def decide_on(self, name: str, text: str, prompt: str) -> None:
        """A text below the line that introduces it; `prompt` is going to stand under it."""
        from coder.terminal.ask.rows import Shown

        self._lines(Shown(name, text).lines([], self.texts, self.columns, self._rows_above(prompt)))

    def _question(self, event: ApprovalRequested) -> None:
        from coder.terminal.ask.question import approval_question
        from coder.terminal.ask.rows import approval_lines

        height = self._rows_above(approval_question(event, self.texts).choices)
        self._lines(approval_lines(event, self.texts, self.columns, height))

    def _rows_above(self, prompt: str) -> int:
        width = self.columns
        if not width:
            return 0
        from shutil import get_terminal_size

        return max(1, get_terminal_size().lines - 1 - text_width(prompt) // width)

    def _turn_ended(self, event: TurnEnded) -> None:
        if event.status == "ok":
            self._held.clear()
        else:
            self._show_held()
        self._end_line()
        if event.status == "cancelled":
            self._lines([[("note", safe(event.error))]])
        self._above = ""
        if self.answer is not None and event.status == "ok":
            self.answer.write(event.text.rstrip("\n") + "\n")  # not a terminal: as it is
            self.answer.flush()
