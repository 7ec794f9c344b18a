"""From events to what stands in scrollback and what is live above the prompt."""

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
from coder.terminal.render.markdown import rows_of
from coder.terminal.render.sanitize import printed, safe
from coder.terminal.render.streamed_text import StreamedText, thought_rows
from coder.terminal.render.width import Line, clip, wrap
from coder.texts import Texts

OUTPUT_ROWS = 5  # of a running command, live
_OUTPUT_KEPT = 4000  # characters of it that are kept for that


class Transcript:
    """Takes events; hands over finished rows once (`drain`) and shows the rest (`live`)."""

    def __init__(self, texts: Texts, columns: Callable[[], int], rows: Callable[[], int] = int) -> None:
        """`rows`: of the stream that can be seen at once; 0 where that is not known."""
        self._texts = texts
        self._columns = columns
        self._rows = rows
        self._flow: StreamedText | None = None
        self._flowing = ""  # "thought" or "content"
        self._pieces: list[str] = []  # of its text, since the last frame
        self._ready: list[Line] = []
        self._output = ""
        self._gap = False  # a blank line separates what follows from what stands above
        self._below_block = False  # a tool call or a remark stands above: a blank line, if prose follows
        self._later: list[Line] = []  # remarks that wait for the block that is being written to end
        self._answering = False  # more of the newest answer may come
        self.answer: list[str] = []  # its text, for /copy

    def take(self, event: AnyEvent) -> None:
        match event:
            case Content(text):
                self._say("content", text)
            case Thought(text):
                self._say("thought", text)
            case ToolOutput(_, text):
                self._output = (self._output + text)[-_OUTPUT_KEPT:]
            case Recorded() | StateChanged():
                pass
            case Notice(in_answer=True) if self._flow is not None:
                self._later += self._remarks(event)
            case ContentRestarted():
                self._gap = self._gap or (self._flow is not None and self._flow.started)
                self._flow = None
                self._pieces.clear()
                self.answer.clear()
                self._put(remark_lines(event, self._texts))
            case _:
                self._take_whole(event)

    def _take_whole(self, event: AnyEvent) -> None:
        """Events that are shown at once."""
        shown = len(self._ready)
        match event:
            case ToolCallChanged():
                if event.state not in ("scheduled", "executing"):
                    self._output = ""
                    self._put(tool_lines(event, self._texts, self._columns()))
            case TodosChanged(todos):
                self._put(todo_lines(todos, self._columns()))
            case VerifyChanged():
                self._output = ""
                self._put(verify_lines(event, self._texts))
            case ApprovalRequested():
                self._put(approval_lines(event, self._texts, self._columns(), self._rows()))
            case CommandDone():
                self._output = ""
                self._put(command_lines(event, self._columns()))
            case TurnEnded():
                self._end_of_turn(event)
            case _:
                self._put(self._remarks(event))
        if len(self._ready) > shown:
            self._answering = False
            self._below_block = not isinstance(event, CommandDone | TurnEnded)

    def _remarks(self, event: AnyEvent) -> list[Line]:
        return [row for line in remark_lines(event, self._texts) for row in wrap(line, self._columns())]

    def _say(self, kind: str, text: str) -> None:
        if self._flow is None or self._flowing != kind:
            self._end_flow()
            self._flow = StreamedText(rows_of if kind == "content" else thought_rows)
            self._flowing = kind
        if kind == "content":
            if not self._answering:
                self.answer.clear()
            self.answer.append(text)
        self._answering = kind == "content"
        self._pieces.append(text)

    def _feed(self) -> None:
        """Pieces come faster than frames: they are taken in together."""
        if self._flow is not None and self._pieces:
            text, self._pieces = "".join(self._pieces), []
            self._flowed(self._flow.feed(safe(text), self._columns()))

    def _flowed(self, rows: list[Line]) -> None:
        """Prose and thoughts stand apart from what is above them, where there is anything to them."""
        if rows:
            self._ready += [[], *rows] if rows[0] and (self._gap or self._below_block) else rows
            self._gap = self._below_block = False

    def _end_flow(self) -> None:
        self._feed()
        if self._flow is not None:
            self._flowed(self._flow.finish(self._columns()))
            self._gap = self._gap or self._flow.started
        self._flow = None
        later, self._later = self._later, []
        self._put(later)

    def _put(self, lines: list[Line]) -> None:
        if not lines:
            return
        self._end_flow()
        if self._gap and lines[0]:
            self._ready.append([])
        self._gap = self._below_block = False
        self._ready += lines

    def _end_of_turn(self, event: TurnEnded) -> None:
        self._end_flow()
        self._output = ""
        if event.status == "cancelled":
            self._put(wrap([("note", safe(event.error))], self._columns()))
        self._gap = self._below_block = self._answering = False

    def echo(self, lines: list[Line], *, apart: bool = False) -> None:
        """What the person typed, or a line of the terminal's own, in its place in the stream. `apart`: an
        answer that is being given has nothing to do with it, and goes on below."""
        if not apart:
            self._put(lines)
            return
        self._feed()
        self._gap = self._gap or (self._flow is not None and self._flow.started)
        self._ready += [[], *lines] if self._gap and lines[0] else lines
        self._gap, self._below_block = False, True

    # what the screen asks for

    def drain(self, limit: int) -> list[Line]:
        """The rows that are final by now; where something is shown live (`limit`), also those of an
        unfinished block: the less is live, the less a resize can spoil."""
        self._feed()
        if self._flow is not None and limit:
            self._flowed(self._flow.settle(self._columns()))
        ready, self._ready = self._ready, []
        return ready

    def live(self, limit: int) -> list[Line]:
        width = self._columns()
        rows = [clip(row, width) for row in self._flow.live(width)[-limit:]] if self._flow is not None else []
        if rows and rows[0] and (self._gap or self._below_block):
            rows.insert(0, [])
        if self._output and limit:
            lines = printed(self._output).rstrip("\n").split("\n")[-min(limit, OUTPUT_ROWS) :]
            rows += [clip([("dim", f"  {line.expandtabs(4)}")], width) for line in lines]
        return rows[-limit:] if limit else []
