"""Renders events as styled lines, for the interactive transcript and for plain output.

Pure functions. Untrusted text is sanitized with `safe`.
"""

from __future__ import annotations

from typing import Any

from coder.protocol.events import (
    AnyEvent,
    ChatCompressed,
    Citation,
    CommandDone,
    ContentRestarted,
    Failed,
    JobChanged,
    LoopDetected,
    Notice,
    ToolCallChanged,
    VerifyChanged,
)
from coder.protocol.modes import InstantModeExecuted
from coder.terminal.render.sanitize import flat, safe, safe_output
from coder.terminal.render.width import Line, clip, line_width, plain, text_width, wrap
from coder.texts import Texts

MAX_DETAIL = 40  # lines of a command's output under its summary; the model and the record have more
_LEAST_ARGUMENT = 8  # columns
_MARKS = {"pending": "☐", "in_progress": "▸", "completed": "☑", "cancelled": "☒"}
_TODO_STYLES = {"in_progress": "strong", "completed": "dim", "cancelled": "dim"}


def tool_lines(event: ToolCallChanged, texts: Texts, width: int = 0) -> list[Line]:
    """The summary (tool, key argument, result, time), then the diff or output. With a `width` the argument
    is clipped so that the summary fits one row."""
    mark = ("good", "✓") if event.state == "success" else ("bad", "✗")
    line: Line = [mark, ("", " "), ("strong", safe(event.tool))]
    rest: Line = []
    summary = texts.of(event.summary) or (texts.say("view.cancelled") if event.state == "cancelled" else "")
    if summary:
        rest.append(("", f" → {safe(summary)}"))
    if event.duration_ms >= 100:
        rest.append(("dim", f" · {event.duration_ms / 1000:.1f}s"))
    if event.argument:
        argument: Line = [("", f" {safe(event.argument)}")]
        if width:
            room = width - line_width(line) - line_width(rest)
            argument = clip(argument, max(room, _LEAST_ARGUMENT))
        line += argument
    return [line + rest, *detail_lines(event.detail, event.detail_kind, texts)]


def detail_lines(detail: str, kind: str, texts: Texts) -> list[Line]:
    if not detail:
        return []
    lines = (safe if kind == "diff" else safe_output)(detail).rstrip("\n").split("\n")
    if kind == "diff":
        return [[("", "  "), diff_span(line)] for line in lines]
    if len(lines) > MAX_DETAIL:
        hidden = texts.say("view.hidden", n=len(lines) - MAX_DETAIL)
        lines = [*lines[: MAX_DETAIL // 2], hidden, *lines[-MAX_DETAIL // 2 :]]
    return [[("", "  "), ("dim", line)] for line in lines]


def diff_span(line: str) -> tuple[str, str]:
    if line.startswith(("+++", "---", "diff ", "index ")):
        return "strong", line
    if line.startswith("+"):
        return "good", line
    if line.startswith("-"):
        return "bad", line
    return ("hunk" if line.startswith("@@") else "dim"), line


def todo_lines(todos: list[dict[str, Any]], width: int = 0) -> list[Line]:
    lines: list[Line] = []
    for todo in todos:
        style, mark = _TODO_STYLES.get(todo["status"], ""), _MARKS.get(todo["status"], "☐")
        first: Line = [("", "  "), (style, f"{mark} ")]
        content: Line = [(style, safe(todo["content"]))]
        lines += wrap(content, width, first, [("", "    ")]) if width else [[*first, *content]]
    return lines


def verify_lines(event: VerifyChanged, texts: Texts) -> list[Line]:
    if event.state in ("skipped", "gave_up"):
        return [[("note", safe(texts.of(event.text)))]]
    text = texts.say(
        f"view.verify.{event.state}",
        command=safe(event.command),
        attempt=event.attempt,
        code=event.exit_code,
    )
    if event.state == "failed":
        return [[("bad", text)], *detail_lines(texts.of(event.text), "output", texts)]
    return [[("good" if event.state == "passed" else "", text)]]


def command_lines(event: CommandDone, texts: Texts, width: int = 0) -> list[Line]:
    """A command's reply, word-wrapped if a `width` is given; diffs are coloured, program output is not
    wrapped."""
    text = texts.of(event.text)
    if not text:
        return []
    if isinstance(todos := event.data.get("todos"), list):
        return todo_lines(todos, width)
    if event.command.startswith("!"):
        return [_command_line(event, line) for line in safe_output(text).rstrip("\n").split("\n")]
    lines = safe(text).rstrip("\n").split("\n")
    if event.command.startswith("/diff") and any(line.startswith("@@ ") for line in lines):
        return [[diff_span(line)] for line in lines]
    return [row for line in lines for row in _wrap_line(_command_line(event, line), width)]


def _command_line(event: CommandDone, line: str) -> Line:
    return [("" if event.ok else "note", line)] if line else []


def _wrap_line(line: Line, width: int) -> list[Line]:
    """Wrap with a hanging indent. A line with a word longer than a row (path, URL) is left to the terminal's
    own wrapping, so that it can be copied in one piece."""
    text = plain(line)
    if not width or text_width(text) <= width:
        return [line]
    indent = len(text) - len(text.lstrip(" "))
    margin: Line = [("", " " * min(indent + 2, width // 3))]
    room = width - line_width(margin)
    if any(word.isascii() and len(word) > room for word in text.split()):
        return [line]
    return wrap(line, width, rest=margin)


def remark_lines(event: AnyEvent, texts: Texts) -> list[Line]:
    """Lines about the turn (errors, notices, jobs); none for events that are not shown."""
    match event:
        case Failed(text):
            return [[("bad", line)] for line in safe(texts.of(text)).split("\n")]
        case Notice(text, level):
            return [
                [("note" if level == "warning" else "dim", line)] for line in safe(texts.of(text)).split("\n")
            ]
        case JobChanged(job_id, command, "ended", code):
            style = "note" if code else "dim"
            return [[(style, texts.say("job.ended", id=job_id, command=flat(command), code=code))]]
        case ContentRestarted():
            return [[("note", texts.say("view.restarted"))]]
        case ChatCompressed(before, after, summary):
            key = "view.compressed" if summary else "view.shortened"
            return [[("dim", texts.say(key, before=before, after=after))]]
        case LoopDetected(reason):
            return [[("note", texts.say("view.loop", reason=safe(texts.of(reason))))]]
        case Citation(text):
            return [[("dim", texts.say("view.citation", text=safe(text)))]]
        case InstantModeExecuted(_, _, warnings, leftover=leftover):
            left = [texts.say("modes.leftover", text=leftover)] if leftover else []
            return [
                [("note", line)] for text in (*warnings, *left) for line in safe(texts.of(text)).split("\n")
            ]
    return []
