"""Shows events as plain lines, appended and never repainted.

On a terminal everything goes to one stream. With stdout piped, the answer alone goes to stdout and the
progress to stderr (SPEC §2).
"""

from __future__ import annotations

from typing import Protocol, TextIO

from coder.protocol.events import (
    AnyEvent,
    ApprovalRequested,
    ChatCompressed,
    Citation,
    CommandDone,
    Content,
    ContentRestarted,
    Failed,
    LoopDetected,
    Notice,
    Thought,
    TodosChanged,
    ToolCallChanged,
    TurnEnded,
    VerifyChanged,
)
from coder.terminal.safe import safe
from coder.texts import Texts

_MAX_DETAIL = 40  # lines of a command's output under its summary; the model and the record have more
_MARKS = {"pending": "☐", "in_progress": "▸", "completed": "☑", "cancelled": "☒"}


class View(Protocol):
    """Anything that events can be shown to."""

    def show(self, event: AnyEvent) -> None: ...


class Palette:
    """Colour only where the terminal has it."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled

    def _wrap(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.enabled else text

    def dim(self, text: str) -> str:
        return self._wrap("2", text)

    def good(self, text: str) -> str:
        return self._wrap("32", text)

    def bad(self, text: str) -> str:
        return self._wrap("31", text)

    def strong(self, text: str) -> str:
        return self._wrap("1", text)

    def note(self, text: str) -> str:
        return self._wrap("33", text)


class LineView:
    """The stream of one session as text."""

    def __init__(self, out: TextIO, answer: TextIO | None, texts: Texts, palette: Palette) -> None:
        """`answer`: where the final answer alone goes, if not into the stream itself."""
        self.out = out
        self.answer = answer
        self.say = texts.say
        self.palette = palette
        self._open = ""  # what the unfinished line belongs to: "", "thought", "content"
        self._at_line_start = True

    def show(self, event: AnyEvent) -> None:
        match event:
            case Content(text):
                self._stream("content", safe(text))
            case Thought(text):
                self._stream("thought", self.palette.dim(safe(text)))
            case ToolCallChanged():
                self._tool(event)
            case TodosChanged(todos):
                self.lines([f"  {_MARKS.get(t['status'], '☐')} {safe(t['content'])}" for t in todos])
            case VerifyChanged():
                self._verify(event)
            case ApprovalRequested():
                self._approval(event)
            case CommandDone(_, text):
                self._command(text)
            case TurnEnded():
                self._turn_ended(event)
            case _:
                self._remark(event)

    def _remark(self, event: AnyEvent) -> None:
        """One line about the turn rather than of it."""
        match event:
            case Failed(text):
                self.line(self.palette.bad(safe(text)))
            case Notice(text, level):
                self.line(self.palette.note(safe(text)) if level == "warning" else safe(text))
            case ContentRestarted():
                self.line(self.palette.note(self.say("view.restarted")))
            case ChatCompressed(before, after):
                self.line(self.palette.dim(self.say("view.compressed", before=before, after=after)))
            case LoopDetected(reason):
                self.line(self.palette.note(self.say("view.loop", reason=safe(reason))))
            case Citation(text):
                self.line(self.palette.dim(self.say("view.citation", text=safe(text))))
            case _:
                pass

    # pieces

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

    def lines(self, lines: list[str]) -> None:
        for line in lines:
            self.line(line)

    def _tool(self, event: ToolCallChanged) -> None:
        if event.state in ("scheduled", "executing"):
            return
        good = event.state == "success"
        mark = self.palette.good("✓") if good else self.palette.bad("✗")
        took = f" · {event.duration_ms / 1000:.1f}s" if event.duration_ms >= 100 else ""
        summary = f" → {safe(event.summary)}" if event.summary else ""
        argument = f" {safe(event.argument)}" if event.argument else ""
        self.line(f"{mark} {self.palette.strong(event.tool)}{argument}{summary}{self.palette.dim(took)}")
        if event.detail:
            self._detail(event.detail, event.detail_kind)

    def _detail(self, detail: str, kind: str) -> None:
        lines = safe(detail).rstrip("\n").split("\n")
        if kind != "diff" and len(lines) > _MAX_DETAIL:
            hidden = len(lines) - _MAX_DETAIL
            lines = [
                *lines[: _MAX_DETAIL // 2],
                self.say("view.hidden", n=hidden),
                *lines[-_MAX_DETAIL // 2 :],
            ]
        for line in lines:
            self.line("  " + (self._diff_line(line) if kind == "diff" else self.palette.dim(line)))

    def _diff_line(self, line: str) -> str:
        if line.startswith("+") and not line.startswith("+++"):
            return self.palette.good(line)
        if line.startswith("-") and not line.startswith("---"):
            return self.palette.bad(line)
        return self.palette.dim(line)

    def _verify(self, event: VerifyChanged) -> None:
        key = f"view.verify.{event.state}"
        text = self.say(key, command=event.command, attempt=event.attempt, code=event.exit_code)
        if event.state in ("skipped", "gave_up"):
            self.line(self.palette.note(safe(event.text)))
            return
        self.line(self.palette.bad(text) if event.state == "failed" else text)
        if event.state == "failed":
            self._detail(event.text, "output")

    def _approval(self, event: ApprovalRequested) -> None:
        self.line(self.palette.note(self.say("approval.head", tool=event.tool)))
        lines = safe(event.subject).split("\n")
        self.lines([f"  {self._diff_line(x) if event.subject_kind == 'diff' else x}" for x in lines])
        self.lines([f"  {self.say('approval.reason', reason=safe(reason))}" for reason in event.reasons])

    def _command(self, text: str) -> None:
        self._end_line()
        if text:
            target = self.answer or self.out
            target.write((text if self.answer else safe(text)).rstrip("\n") + "\n")
            target.flush()

    def _turn_ended(self, event: TurnEnded) -> None:
        self._end_line()
        if event.status == "cancelled":
            self.line(self.palette.note(event.error))
        if self.answer is not None and event.status == "ok":
            self.answer.write(event.text.rstrip("\n") + "\n")  # not a terminal: as it is
            self.answer.flush()
