"""Shows events as plain lines, appended and never repainted.

On a terminal everything goes to one stream. With stdout piped, the answer alone goes to stdout and the
progress to stderr.
"""

from __future__ import annotations

from typing import TextIO

from coder.protocol.events import (
    AnyEvent,
    ApprovalRequested,
    CommandDone,
    Content,
    Thought,
    TodosChanged,
    ToolCallChanged,
    TurnEnded,
    VerifyChanged,
)
from coder.terminal.safe import safe
from coder.terminal.show import approval_lines, remark_lines, todo_lines, tool_lines, verify_lines
from coder.terminal.theme import Theme
from coder.terminal.width import Line
from coder.texts import Texts


class Palette(Theme):
    """Colour only where the terminal has it."""

    def __init__(self, enabled: bool) -> None:
        super().__init__("dark" if enabled else "none")


class LineView:
    """The stream of one session as text."""

    def __init__(self, out: TextIO, answer: TextIO | None, texts: Texts, palette: Theme) -> None:
        """`answer`: where the final answer alone goes, if not into the stream itself."""
        self.out = out
        self.answer = answer
        self.texts = texts
        self.palette = palette
        self._open = ""  # what the unfinished line belongs to: "", "thought", "content"
        self._at_line_start = True
        self._held: list[str] = []

    def show(self, event: AnyEvent) -> None:
        match event:
            case Content(text):
                if self.answer is not None:
                    self._held.append(text)  # the answer, if nothing follows: that has its own place
                else:
                    self._stream("content", safe(text))
            case Thought(text):
                self._stream("thought", self.palette.paint("dim", safe(text)))
            case ToolCallChanged():
                self._show_held()
                if event.state not in ("scheduled", "executing"):
                    self._lines(tool_lines(event, self.texts))
            case TodosChanged(todos):
                self._lines(todo_lines(todos))
            case VerifyChanged():
                self._lines(verify_lines(event, self.texts))
            case ApprovalRequested():
                self._lines(approval_lines(event, self.texts))
            case CommandDone(_, text, ok):
                self._command(text, ok)
            case TurnEnded():
                self._turn_ended(event)
            case _:
                self._lines(remark_lines(event, self.texts))

    # pieces

    def _show_held(self) -> None:
        text, self._held = "".join(self._held), []
        if text:
            self._stream("content", safe(text))

    def _stream(self, kind: str, text: str) -> None:
        if self._open != kind:
            self._end_line()
            self._open = kind
        self.out.write(text)
        self._at_line_start = text.endswith("\n")
        self.out.flush()

    def _end_line(self) -> None:
        if self._open and not self._at_line_start:
            self.out.write("\n")
        self._open = ""
        self._at_line_start = True

    def line(self, text: str) -> None:
        self._end_line()
        self.out.write(text + "\n")
        self.out.flush()

    def _lines(self, lines: list[Line]) -> None:
        for line in lines:
            self.line(self.palette.line(line))

    def _command(self, text: str, ok: bool) -> None:
        self._end_line()
        if text:
            target = self.answer if self.answer is not None and ok else self.out
            target.write((text if target is self.answer else safe(text)).rstrip("\n") + "\n")
            target.flush()

    def _turn_ended(self, event: TurnEnded) -> None:
        if event.status == "ok":
            self._held.clear()
        else:
            self._show_held()
        self._end_line()
        if event.status == "cancelled":
            self.line(self.palette.paint("note", event.error))
        if self.answer is not None and event.status == "ok":
            self.answer.write(event.text.rstrip("\n") + "\n")  # not a terminal: as it is
            self.answer.flush()
