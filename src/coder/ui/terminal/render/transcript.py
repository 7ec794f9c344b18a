"""The transcript: renders events into finished rows for scrollback and the live tail above the prompt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from msgspec.structs import replace

from coder.protocol.events import (
    AnyEvent,
    ApprovalRequested,
    CommandDone,
    Content,
    ContentRestarted,
    Failed,
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
from coder.texts import Catalog
from coder.tools.registry import built_in
from coder.ui.terminal.ask.question_rows import approval_lines
from coder.ui.terminal.render.escapes import safe
from coder.ui.terminal.render.event_lines import (
    NEW_FILE_HEAD,
    OUTPUT_LINES,
    command_lines,
    gave_up,
    is_long_new_file,
    is_retry,
    lookup_line,
    output_line,
    output_lines,
    remark_lines,
    retry_line,
    todo_line,
    todo_lines,
    todos_ended,
    tool_lines,
    verify_lines,
)
from coder.ui.terminal.render.markdown import markdown_rows
from coder.ui.terminal.render.streamed_text import StreamedText, thought_rows
from coder.ui.terminal.render.width import Line, clip, wrap

OUTPUT_ROWS = 5  # of a running command, live
_OUTPUT_KEPT = 4000  # characters kept for it
_GUTTER = 2  # columns before thinking


class Transcript:
    """`handle` takes events; `drain` returns finished rows once; `live` returns the tail."""

    def __init__(self, texts: Catalog, columns: Callable[[], int], rows: Callable[[], int] = int) -> None:
        """`rows`: the visible height of the transcript; 0 if unknown."""
        self._texts = texts
        self._columns = columns
        self._rows = rows
        self._streamed: StreamedText | None = None
        self._stream_kind = ""  # "thought" or "content"
        self._pieces: list[str] = []  # text since the last frame
        self._thought: list[str] = []  # the thought that is being streamed, if only its beginning is shown
        self._finished: list[Line] = []
        self._output = ""
        self._gap = False  # a blank row precedes the next one
        self._below_block = False  # a blank row precedes prose that follows
        self._deferred: list[Line] = []  # remarks deferred until the streamed text ends
        self._lookups: list[ToolCallChanged] = []  # that follow each other: one row while they are live
        self._retry: Notice | None = None  # the newest of retries that follow each other
        self._todos: list[dict[str, Any]] = []
        self._todos_written = True  # the list in scrollback is the newest
        self.has_pager: Callable[[], bool] = lambda: False  # it can show all of a long new file
        self.unfold_key = "ctrl+o"  # key that opens the transcript in the pager; may be empty
        self.folds = True  # there is a live region, so that rows can wait in it
        self.thinking: Literal["full", "brief", "off"] = "full"
        self.output_lines = OUTPUT_LINES
        self._answering = False  # the newest answer may continue
        self.answer: list[str] = []  # its text, for /copy

    def handle(self, event: AnyEvent) -> None:
        match event:
            case Content(text):
                self._append_text("content", text)
            case Thought(text):
                if text := self._shown_thought(text):
                    self._append_text("thought", text)
            case ToolOutput(_, text):
                self._output = (self._output + text)[-_OUTPUT_KEPT:]
            case Recorded() | StateChanged():
                pass
            case Notice(in_answer=True) if self._streamed is not None:
                self._deferred += self._remarks(event)
            case Notice() if self.folds and is_retry(event):
                self._end_stream()
                self._flush_lookups()
                self._retry = event
            case ContentRestarted():
                written = self._streamed is None or self._streamed.started
                self._gap = self._gap or (self._streamed is not None and written)
                self._streamed = None
                self._pieces.clear()
                self.answer.clear()
                self._end_stream()
                if written or self._stream_kind != "content":
                    self._append_block(remark_lines(event, self._texts))
            case _:
                self._handle_block(event)

    def _handle_block(self, event: AnyEvent) -> None:
        before = len(self._finished)
        match event:
            case ToolCallChanged():
                if event.state not in ("scheduled", "executing"):
                    self._output = ""
                    self._tool_call(event)
            case TodosChanged(todos):
                self._todos_changed(todos)
            case VerifyChanged():
                self._output = ""
                # The status row shows that it runs, the evidence at the turn's end that it passed.
                if not self.folds or event.state not in ("started", "passed"):
                    self._append_block(verify_lines(event, self._texts, self._columns()))
            case ApprovalRequested():
                rows, columns = self._rows(), self._columns()
                self._append_block(
                    approval_lines(event, self._texts, columns, rows, heads=self.has_pager(), keys=True)
                )
            case CommandDone():
                self._output = ""
                self._append_block(command_lines(event, self._texts, self._columns()))
            case TurnEnded():
                self._end_of_turn(event)
            case _:
                if isinstance(event, Failed) and gave_up(
                    event
                ):  # the error names the attempts and the reason
                    self._retry = None
                self._append_block(self._remarks(event))
        if len(self._finished) > before:
            self._answering = False
            self._below_block = not isinstance(event, CommandDone | TurnEnded)

    def _tool_call(self, event: ToolCallChanged) -> None:
        if self._shares_row(event):
            self._end_stream()
            self._flush_retry()
            self._lookups.append(event)
            self._answering = False
        elif not self.folds or event.tool != "todowrite" or event.state != "success":
            self._append_block(self._call_lines(event))

    def _shares_row(self, event: ToolCallChanged) -> bool:
        """Whether it shares a live row with the look-ups around it."""
        plain = event.state == "success" and not event.detail
        return self.folds and plain and built_in(event.tool).looks_up()

    def _call_lines(self, event: ToolCallChanged) -> list[Line]:
        width = self._columns()
        if not (self.folds and event.detail_kind == "diff" and is_long_new_file(event.detail)):
            return tool_lines(event, self._texts, width, self.output_lines)
        lines = event.detail.rstrip("\n").split("\n")
        shown = replace(event, detail="\n".join(lines[:NEW_FILE_HEAD]))
        key = "view.rest_of_file" if self.unfold_key else "view.hidden"
        more = self._texts.say(key, n=len(lines) - NEW_FILE_HEAD, key=self.unfold_key)
        return [*tool_lines(shown, self._texts, width), [("dim", f"  {more}")]]

    def _flush_lookups(self) -> None:
        if self._lookups:
            rows = [row for call in self._lookups for row in tool_lines(call, self._texts, self._columns())]
            self._finished += [[], *rows] if self._gap else rows
            self._gap, self._below_block, self._lookups = False, True, []

    def _flush_retry(self) -> None:
        if self._retry is not None:
            event, self._retry = self._retry, None
            row = retry_line(event, self._texts, self._columns())
            self._finished += [[], row] if self._gap else [row]
            self._gap, self._below_block = False, True

    def _todos_changed(self, todos: list[dict[str, Any]]) -> None:
        """A new or completed list goes to scrollback; progress is a live row."""
        new = [todo["content"] for todo in todos] != [todo["content"] for todo in self._todos]
        self._todos_written = new or todos_ended(todos) or not self.folds
        self._todos = todos
        if self._todos_written:
            self._append_block(todo_lines(todos, self._columns()))

    def _remarks(self, event: AnyEvent) -> list[Line]:
        if self.folds and isinstance(event, Notice) and is_retry(event):
            return [retry_line(event, self._texts, self._columns())]
        hang: Line = [("", "  ")] if isinstance(event, Notice) and event.evidence is not None else []
        lines = remark_lines(event, self._texts)
        return [row for line in lines for row in wrap(line, self._columns(), rest=hang)]

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

    def _shown_thought(self, text: str) -> str:
        """The text as `ui.thinking` shows it: all, the first line of each thought, or nothing."""
        if self.thinking != "brief":
            return text if self.thinking == "full" else ""
        shown = "".join(self._thought)
        self._thought.append(text)
        if "\n" in shown.lstrip():
            return ""
        line, more, _ = (text if shown.strip() else text.lstrip()).partition("\n")
        return line + (" …" if more else "")

    def _feed_pieces(self) -> None:
        """Parse pending pieces in one batch per frame."""
        if self._streamed is not None and self._pieces:
            text, self._pieces = "".join(self._pieces), []
            self._append_prose(self._streamed.feed(safe(text), self._prose_columns))

    def _append_prose(self, rows: list[Line]) -> None:
        """Append streamed rows, after a blank row if one is due."""
        if rows:
            self._flush_lookups()
            self._flush_retry()
            rows = self._in_gutter(rows)
            self._finished += [[], *rows] if rows[0] and (self._gap or self._below_block) else rows
            self._gap = self._below_block = False

    @property
    def _prose_columns(self) -> int:
        return max(1, self._columns() - (_GUTTER if self._stream_kind == "thought" else 0))

    def _in_gutter(self, rows: list[Line]) -> list[Line]:
        if self._stream_kind != "thought":
            return rows
        return [[("", " " * _GUTTER), *row] if row else row for row in rows]

    def _end_stream(self) -> None:
        self._feed_pieces()
        if self._streamed is not None:
            self._append_prose(self._streamed.finish(self._prose_columns))
            self._gap = self._gap or self._streamed.started
        self._streamed = None
        self._thought.clear()
        later, self._deferred = self._deferred, []
        self._append_block(later)

    def _append_block(self, lines: list[Line]) -> None:
        if not lines:
            return
        self._end_stream()
        self._flush_lookups()
        self._flush_retry()
        if self._gap and lines[0]:
            self._finished.append([])
        self._gap = self._below_block = False
        self._finished += lines

    def _end_of_turn(self, event: TurnEnded) -> None:
        self._end_stream()
        self._flush_lookups()
        self._flush_retry()
        self._output = ""
        if not self._todos_written:
            self._append_block(todo_lines(self._todos, self._columns()))
            self._todos_written = True
        if event.status == "cancelled":
            self._append_block(wrap([("note", safe(self._texts.of(event.error)))], self._columns()))
        self._gap = self._below_block = self._answering = False

    def echo(self, lines: list[Line], *, apart: bool = False) -> None:
        """Append typed text or a line of the terminal. `apart`: without ending the answer that streams."""
        if not apart:
            self._append_block(lines)
            return
        self._feed_pieces()
        self._flush_lookups()
        self._flush_retry()
        self._gap = self._gap or (self._streamed is not None and self._streamed.started)
        self._finished += [[], *lines] if self._gap and lines[0] else lines
        self._gap, self._below_block = False, True

    # for the live region

    def drain(self, limit: int) -> list[Line]:
        """Take the finished rows; with a live tail (`limit`) also the stable rows of the unfinished block."""
        self._feed_pieces()
        if self._streamed is not None and limit:
            self._append_prose(self._streamed.settle(self._prose_columns))
        ready, self._finished = self._finished, []
        return ready

    def live(self, limit: int) -> list[Line]:
        if not limit:
            return []
        width = self._columns()
        rows: list[Line] = []
        if self._streamed is not None:
            rows = self._in_gutter(self._streamed.live(self._prose_columns)[-limit:])
            rows = [clip(row, width) for row in rows]
        if rows and rows[0] and (self._gap or self._below_block or self._lookups or self._retry):
            rows.insert(0, [])
        if self._retry is not None:
            rows.insert(0, retry_line(self._retry, self._texts, width))
            rows[:0] = [[]] if self._gap else []
        if self._lookups:
            rows.insert(0, lookup_line(self._lookups, self._texts, width))
            rows[:0] = [[]] if self._gap else []
        if self._output:
            rows.append([])  # of the summary: the output below is not of the call above
            lines = output_lines(self._output)[-min(limit, OUTPUT_ROWS) :]
            spread = [[(style, text.expandtabs(4)) for style, text in line] for line in lines]
            rows += [clip(output_line(line), width) for line in spread]
        if not self._todos_written:
            rows.append(todo_line(self._todos, width))
        return rows[-limit:]
