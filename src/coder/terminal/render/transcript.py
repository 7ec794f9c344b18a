"""The transcript: renders events into finished rows for scrollback and the live tail above the prompt."""

from __future__ import annotations

from collections.abc import Callable

from coder.protocol.events import (
    AnyEvent,
    ApprovalRequested,
    CommandDone,
    Content,
    ContentRestarted,
    Notice,
    Recorded,
    StateChanged,
    Thought,
    TodosChanged,
    ToolCallChanged,
    ToolOutput,
    TurnEnded,
    VerifyChanged,
)
from coder.terminal.ask.rows import approval_lines
from coder.terminal.render.event_lines import (
    command_lines,
    remark_lines,
    todo_lines,
    tool_lines,
    verify_lines,
)
from coder.terminal.render.markdown import markdown_rows
from coder.terminal.render.sanitize import safe, safe_output
from coder.terminal.render.streamed_text import StreamedText, thought_rows
from coder.terminal.render.width import Line, clip, wrap
from coder.texts import Texts

OUTPUT_ROWS = 5  # of a running command, live
_OUTPUT_KEPT = 4000  # characters of it that are kept for that


class Transcript:
    """`handle` takes events; `drain` returns finished rows once; `live` returns the tail."""

    def __init__(self, texts: Texts, columns: Callable[[], int], rows: Callable[[], int] = int) -> None:
        """`rows`: the visible height of the transcript; 0 if unknown."""
        self._texts = texts
        self._columns = columns
        self._rows = rows
        self._streamed: StreamedText | None = None
        self._stream_kind = ""  # "thought" or "content"
        self._pieces: list[str] = []  # text since the last frame
        self._finished: list[Line] = []
        self._output = ""
        self._gap = False  # a blank row precedes what follows
        self._below_block = False  # a blank row precedes prose that follows
        self._deferred: list[Line] = []  # remarks deferred until the streamed text ends
        self._answering = False  # the newest answer may continue
        self.answer: list[str] = []  # its text, for /copy

    def handle(self, event: AnyEvent) -> None:
        match event:
            case Content(text):
                self._append_text("content", text)
            case Thought(text):
                self._append_text("thought", text)
            case ToolOutput(_, text):
                self._output = (self._output + text)[-_OUTPUT_KEPT:]
            case Recorded() | StateChanged():
                pass
            case Notice(in_answer=True) if self._streamed is not None:
                self._deferred += self._remarks(event)
            case ContentRestarted():
                self._gap = self._gap or (self._streamed is not None and self._streamed.started)
                self._streamed = None
                self._pieces.clear()
                self.answer.clear()
                self._append_block(remark_lines(event, self._texts))
            case _:
                self._handle_block(event)

    def _handle_block(self, event: AnyEvent) -> None:
        """Events rendered as a whole."""
        before = len(self._finished)
        match event:
            case ToolCallChanged():
                if event.state not in ("scheduled", "executing"):
                    self._output = ""
                    self._append_block(tool_lines(event, self._texts, self._columns()))
            case TodosChanged(todos):
                self._append_block(todo_lines(todos, self._columns()))
            case VerifyChanged():
                self._output = ""
                self._append_block(verify_lines(event, self._texts))
            case ApprovalRequested():
                self._append_block(approval_lines(event, self._texts, self._columns(), self._rows()))
            case CommandDone():
                self._output = ""
                self._append_block(command_lines(event, self._texts, self._columns()))
            case TurnEnded():
                self._end_of_turn(event)
            case _:
                self._append_block(self._remarks(event))
        if len(self._finished) > before:
            self._answering = False
            self._below_block = not isinstance(event, CommandDone | TurnEnded)

    def _remarks(self, event: AnyEvent) -> list[Line]:
        return [row for line in remark_lines(event, self._texts) for row in wrap(line, self._columns())]

    def _append_text(self, kind: str, text: str) -> None:
        if self._streamed is None or self._stream_kind != kind:
            self._end_stream()
            self._streamed = StreamedText(markdown_rows if kind == "content" else thought_rows)
            self._stream_kind = kind
        if kind == "content":
            if not self._answering:
                self.answer.clear()
            self.answer.append(text)
        self._answering = kind == "content"
        self._pieces.append(text)

    def _feed_pieces(self) -> None:
        """Parse pending pieces in one batch per frame."""
        if self._streamed is not None and self._pieces:
            text, self._pieces = "".join(self._pieces), []
            self._append_prose(self._streamed.feed(safe(text), self._columns()))

    def _append_prose(self, rows: list[Line]) -> None:
        """Append streamed rows, after a blank row where one is due."""
        if rows:
            self._finished += [[], *rows] if rows[0] and (self._gap or self._below_block) else rows
            self._gap = self._below_block = False

    def _end_stream(self) -> None:
        self._feed_pieces()
        if self._streamed is not None:
            self._append_prose(self._streamed.finish(self._columns()))
            self._gap = self._gap or self._streamed.started
        self._streamed = None
        later, self._deferred = self._deferred, []
        self._append_block(later)

    def _append_block(self, lines: list[Line]) -> None:
        if not lines:
            return
        self._end_stream()
        if self._gap and lines[0]:
            self._finished.append([])
        self._gap = self._below_block = False
        self._finished += lines

    def _end_of_turn(self, event: TurnEnded) -> None:
        self._end_stream()
        self._output = ""
        if event.status == "cancelled":
            self._append_block(wrap([("note", safe(self._texts.of(event.error)))], self._columns()))
        self._gap = self._below_block = self._answering = False

    def echo(self, lines: list[Line], *, apart: bool = False) -> None:
        """Append typed text or a line of the terminal itself. `apart`: insert it without ending the answer
        that is streaming."""
        if not apart:
            self._append_block(lines)
            return
        self._feed_pieces()
        self._gap = self._gap or (self._streamed is not None and self._streamed.started)
        self._finished += [[], *lines] if self._gap and lines[0] else lines
        self._gap, self._below_block = False, True

    # for the live region

    def drain(self, limit: int) -> list[Line]:
        """Take the finished rows; with a live tail (`limit`) also the stable rows of the unfinished block,
        since a resize can only spoil what is live."""
        self._feed_pieces()
        if self._streamed is not None and limit:
            self._append_prose(self._streamed.settle(self._columns()))
        ready, self._finished = self._finished, []
        return ready

    def live(self, limit: int) -> list[Line]:
        width = self._columns()
        rows = (
            [clip(row, width) for row in self._streamed.live(width)[-limit:]]
            if self._streamed is not None
            else []
        )
        if rows and rows[0] and (self._gap or self._below_block):
            rows.insert(0, [])
        if self._output and limit:
            lines = safe_output(self._output).rstrip("\n").split("\n")[-min(limit, OUTPUT_ROWS) :]
            rows += [clip([("dim", f"  {line.expandtabs(4)}")], width) for line in lines]
        return rows[-limit:] if limit else []
