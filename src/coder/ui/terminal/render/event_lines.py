"""Renders events as styled lines, for the transcript and plain output. Untrusted text is sanitized."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coder.engine.setup import is_read_only_command
from coder.protocol.events import (
    AnyEvent,
    ChatCompressed,
    Citation,
    CommandDone,
    ContentRestarted,
    Evidence,
    Failed,
    JobChanged,
    LoopDetected,
    Notice,
    PastTurn,
    SessionStarted,
    ToolCallChanged,
    VerifyChanged,
)
from coder.protocol.evidence import outcome as evidence_outcome
from coder.protocol.modes import InstantModeExecuted
from coder.texts import Catalog, Text
from coder.tools.registry import built_in
from coder.ui.terminal.render.escapes import coloured_lines, flat, has_colours, safe, safe_output
from coder.ui.terminal.render.theme import tinted_row
from coder.ui.terminal.render.width import Line, Span, clip, clip_left, line_width, plain, text_width, wrap
from coder.ui.terminal.screen_state import display_path

OUTPUT_LINES = 500  # of a call's output or diff under its summary (`ui.output_lines`)
_LEAST_ARGUMENT = 8  # columns
TAB_STOPS = 8  # of the terminal
NEW_FILE_HEAD = 23  # lines of the diff of a long new file: twenty of its own
_LONG_NEW_FILE = 100  # lines
_BAR, _END = "  │ ", "  └ "  # before each line of a tool's output, and below a long one
_LONG_OUTPUT = 30  # lines
_LEFT_OUT = re.compile(r"\[… (\d+) (?:lines \(|more lines like this)")  # see `process.output`
_BETWEEN = " · "
_CHANGES = ("tool.created", "tool.updated", "tool.patched")
_SENTENCE_END = re.compile(r"\.(?= |$)|。")
_VERBS = {"bash": "run"}
_MARKS = {"pending": "☐", "in_progress": "▸", "completed": "☑", "cancelled": "☒"}
_EVIDENCE_MARKS = {"passed": ("good", "✓"), "failed": ("bad", "✗"), "unchecked": ("dim", "–")}
_ENDED = ("completed", "cancelled")
_TODO_STYLES = {"in_progress": "strong", "completed": "dim", "cancelled": "dim"}


def tool_lines(
    event: ToolCallChanged, texts: Catalog, width: int = 0, most: int = OUTPUT_LINES
) -> list[Line]:
    """The summary (tool, key argument, result, time), then at most `most` lines of diff or output. With a
    `width` the summary fits one row, and a long result is below it."""
    mark = ("good", "✓") if event.state == "success" else ("bad", "✗")
    outcome, time = _outcome(event, texts), _time(event.duration_ms)
    result = plain(outcome).removeprefix(_BETWEEN)
    below: list[Line] = []
    if width and line_width(outcome) > width // 2:
        outcome, below = [], wrap([("dim", result)], width, [("", "  ")], [("", "  ")])
    head: Line = [("strong", verb(event.tool))]
    path = built_in(event.tool).argument_is_path()
    row = _row(mark, head, flat(event.argument), [*outcome, time], width, from_left=path)
    return [row, *below, *detail_lines(event.detail, event.detail_kind, texts, width, most, result)]


def _outcome(event: ToolCallChanged, texts: Catalog) -> Line:
    """The result; for a change to the file named in the row, only its size."""
    result = event.summary
    if isinstance(result, Text) and result.key in _CHANGES:
        size = change_size(int(str(result.values["added"])), int(str(result.values["deleted"])))
        if _is_change(result, event.argument):
            return size
        if result.key == "tool.patched":
            return [("dim", _BETWEEN + texts.say("tool.files", n=result.values["n"])), *size]
    summary = texts.of(result) or (texts.say("view.cancelled") if event.state == "cancelled" else "")
    return [("dim", f"{_BETWEEN}{flat(summary)}" if summary else "")]


def _is_change(result: Text, named: str) -> bool:
    """Whether it is the size of a change to the one file that the row names."""
    if result.key == "tool.patched":
        return result.values["n"] == 1 and bool(named)
    return result.key in _CHANGES and result.values.get("path") == named


def change_size(added: int, removed: int) -> Line:
    sizes = (("good", f" +{added}" if added else ""), ("bad", f" −{removed}" if removed else ""))
    return [size for size in sizes if size[1]]


def verb(tool: str) -> str:
    return _VERBS.get(tool, flat(tool))


def lookup_line(events: Sequence[ToolCallChanged], texts: Catalog, width: int) -> Line:
    """Consecutive look-ups as one row: each tool and its arguments."""
    named: dict[str, list[str]] = {}
    for event in events:
        named.setdefault(event.tool, []).append(flat(event.argument))
    parts = [_asked_for(verb(tool), names, texts) for tool, names in named.items()]
    time = _time(sum(event.duration_ms for event in events))
    first, _, more = _sharing(parts, width - line_width([("", "✓ "), time])).partition(" ")
    return _row(("good", "✓"), [("strong", first)], more, [time], width)


def _sharing(parts: list[str], room: int) -> str:
    """All parts in a row: long ones are clipped to the room that short ones leave."""
    room -= len(_BETWEEN) * (len(parts) - 1)
    widths = {part: text_width(part) for part in parts}
    shown = {}
    for n, part in enumerate(sorted(parts, key=widths.__getitem__)):
        share = max(_LEAST_ARGUMENT, min(widths[part], room // (len(parts) - n)))
        shown[part], room = plain(clip([("", part)], share)), room - share
    return _BETWEEN.join(shown[part] for part in parts)


def _asked_for(tool: str, names: list[str], texts: Catalog) -> str:
    names = list(dict.fromkeys(names))
    if len(names) == 1:
        return f"{tool} {names[0]}".rstrip()
    key = "view.files" if tool == "read" else "view.times"
    return f"{tool} {texts.say(key, n=len(names), names=', '.join(filter(None, names)))}"


def _row(mark: Span, head: Line, argument: str, rest: Line, width: int, *, from_left: bool = False) -> Line:
    """`from_left`: clip a long argument from the left."""
    line: Line = [mark, ("", " "), *head]
    if argument and width:
        room = max(width - line_width(line) - line_width(rest), _LEAST_ARGUMENT)
        if from_left:
            argument = clip_left(argument, room - 1)
        line += clip([("", f" {argument}")], room)
    elif argument:
        line.append(("", f" {argument}"))
    return [span for span in (*line, *rest) if span[1]]


def _time(milliseconds: int) -> Span:
    return "dim", f" · {milliseconds / 1000:.1f}s"


def output_line(line: Line) -> Line:
    return [("bar", _BAR), *line]


def output_lines(text: str) -> list[Line]:
    """Program output in its own colours; other escape sequences are shown as text."""
    text = text.strip("\n")
    if has_colours(text):
        return coloured_lines(text, "dim")
    return _plain_lines(text)


def detail_lines(
    detail: str, kind: str, texts: Catalog, width: int = 0, most: int = OUTPUT_LINES, outcome: str = ""
) -> list[Line]:
    """`outcome`: repeated below a long output, whose summary may have scrolled off."""
    if not detail:
        return []
    if kind == "diff":
        rows = safe(detail).rstrip("\n").split("\n")
        hidden = texts.say("view.hidden", n=len(rows) - most) if len(rows) > most else ""
        return diff_rows("\n".join([*rows[:most], *([hidden] if hidden else [])]), width, heads=False)
    lines = output_lines(detail) if kind == "output" else _plain_lines(detail)
    end = _end_lines(lines, outcome, texts) if kind == "output" else []
    if len(lines) > most:
        head, tail = most - most // 2, most // 2
        note: Line = [("dim", texts.say("view.hidden", n=len(lines) - most))]
        lines = [*lines[:head], note, *lines[len(lines) - tail :]]
    if width and any(width - len(_BAR) < _printed_width(line) <= width for line in lines):
        return [*lines, *end]  # a bar would wrap output made for this width
    return [*(row for line in lines for row in _barred(line, width)), *end]


def _end_lines(lines: Sequence[Line], outcome: str, texts: Catalog) -> list[Line]:
    if len(lines) < _LONG_OUTPUT:
        return []
    left_out = [int(found[1]) - 1 for line in lines if (found := _LEFT_OUT.match(plain(line)))]
    count = texts.say("tool.all_lines", n=len(lines) + sum(left_out))
    return [[("bar", _END), ("dim", _BETWEEN.join(filter(None, [count, outcome])))]]


def _barred(line: Line, width: int) -> list[Line]:
    """A line of words wraps with a bar before each row; one with a long word or tabs is left to the
    terminal."""
    text, room = plain(line), width - len(_BAR)
    longest = max(map(text_width, text.split()), default=0)
    if not width or text_width(text) <= room or longest > room or "\t" in text:
        return [output_line(line)]
    return wrap(line, width, output_line([]), output_line([]))


def _plain_lines(text: str) -> list[Line]:
    return [[("dim", line)] if line else [] for line in safe_output(text).rstrip("\n").split("\n")]


def _printed_width(line: Line) -> int:
    return text_width(plain(line).expandtabs(TAB_STOPS))


def is_new_file(diff: str) -> bool:
    """Whether the diff is of one file that does not exist yet."""
    return diff.startswith("--- /dev/null\n") and diff.count("\n@@ ") == 1


def is_long_new_file(diff: str) -> bool:
    return is_new_file(diff) and diff.count("\n") > _LONG_NEW_FILE


def diff_rows(text: str, width: int = 0, *, heads: bool = True) -> list[Line]:
    """Imported late: sessions without changes need no syntax colours."""
    from coder.ui.terminal.render.diff_rows import diff_lines

    return diff_lines(text, width, heads=heads)


def todo_line(todos: list[dict[str, Any]], width: int) -> Line:
    """The progress in one row: the current item, else the next."""
    done = sum(todo["status"] in _ENDED for todo in todos)
    open_ = [todo for todo in todos if todo["status"] not in _ENDED]
    now = next((todo for todo in open_ if todo["status"] == "in_progress"), open_[0] if open_ else None)
    row: Line = [("dim", f"  ▸ {done}/{len(todos)} "), ("", flat(now["content"]) if now else "")]
    return clip(row, width)


def todos_ended(todos: list[dict[str, Any]]) -> bool:
    return all(todo["status"] in _ENDED for todo in todos)


def todo_lines(todos: list[dict[str, Any]], width: int = 0) -> list[Line]:
    lines: list[Line] = []
    for todo in todos:
        style, mark = _TODO_STYLES.get(todo["status"], ""), _MARKS.get(todo["status"], "☐")
        first: Line = [("", "  "), (style, f"{mark} ")]
        content: Line = [(style, flat(todo["content"]))]
        lines += wrap(content, width, first, [("", "    ")]) if width else [[*first, *content]]
    return lines


def verify_lines(event: VerifyChanged, texts: Catalog, width: int = 0) -> list[Line]:
    if event.state in ("skipped", "gave_up"):
        return _wrapped(("note", safe(texts.of(event.text))), width)
    text = texts.say(
        f"view.verify.{event.state}",
        command=flat(event.command),
        attempt=event.attempt,
        code=event.exit_code,
    )
    if event.state == "failed":
        return [
            *_wrapped(("bad", text), width),
            *detail_lines(
                texts.of(event.text),
                "output",
                texts,
                width,
                outcome=texts.say("tool.exit", code=event.exit_code),
            ),
        ]
    return _wrapped(("good" if event.state == "passed" else "", text), width)


def _wrapped(span: Span, width: int) -> list[Line]:
    return wrap([span], width) if width else [[span]]


def command_lines(event: CommandDone, texts: Catalog, width: int = 0) -> list[Line]:
    """A command's reply, word-wrapped if a `width` is given; diffs are coloured, program output is not
    wrapped."""
    text = texts.of(event.text)
    if not text:
        return []
    if isinstance(todos := event.data.get("todos"), list):
        return todo_lines(todos, width)
    if event.data.get("on_terminal") and "duration_ms" in event.data:  # which showed the output itself
        code = event.data.get("exit_code", 0)
        return [[("bad", texts.say("tool.exit", code=code))]] if code else []
    if event.command.startswith("!"):
        if has_colours(text):
            return coloured_lines(text.rstrip("\n"), "" if event.ok else "note")
        return [_command_line(event, line) for line in safe_output(text).rstrip("\n").split("\n")]
    lines = safe(text).rstrip("\n").split("\n")
    if event.command.startswith("/diff") and any(line.startswith("@@ ") for line in lines):
        return diff_rows("\n".join(lines), width)
    return [row for line in lines for row in _wrap_line(_command_line(event, line), width)]


def _command_line(event: CommandDone, line: str) -> Line:
    return [("" if event.ok else "note", line)] if line else []


def _wrap_line(line: Line, width: int) -> list[Line]:
    """Wrap with a hanging indent. A line with a word longer than a row (path, URL) is left to the terminal,
    so that it can be copied in one piece."""
    text = plain(line)
    if not width or text_width(text) <= width:
        return [line]
    indent = len(text) - len(text.lstrip(" "))
    margin: Line = [("", " " * min(indent + 2, width // 3))]
    room = width - line_width(margin)
    if any(word.isascii() and len(word) > room for word in text.split()):
        return [line]
    return wrap(line, width, rest=margin)


def is_retry(event: Notice) -> bool:
    return isinstance(event.text, Text) and event.text.key == "model.retry"


def gave_up(event: Failed) -> bool:
    return isinstance(event.text, Text) and event.text.key == "fault.gave_up"


def retry_line(event: Notice, texts: Catalog, width: int) -> Line:
    """A repeated request in one row: how often, and why."""
    values = event.text.values if isinstance(event.text, Text) else {}
    reason = values.get("reason", "")
    why = texts.of(reason) if isinstance(reason, Text) else str(reason)
    key = texts.say("view.retry", n=values.get("attempt", 1))
    head: Line = [("retry", f"↻ {key}"), ("dim", _BETWEEN)]
    return clip([*head, ("dim", _whole_sentences(flat(why), width - line_width(head)))], width)


def _whole_sentences(text: str, room: int) -> str:
    """As many whole sentences as fit, if any."""
    ends = [found.end() for found in _SENTENCE_END.finditer(text)]
    return next((text[:end] for end in reversed(ends) if text_width(text[:end]) <= room), text)


def remark_lines(event: AnyEvent, texts: Catalog) -> list[Line]:
    """Lines about the turn (errors, notices, jobs); empty for events that are not shown."""
    match event:
        case Failed(text):
            return [[("bad", line)] for line in safe(texts.of(text)).split("\n")]
        case Notice(text, level, evidence=Evidence() as evidence):
            style = "note" if level == "warning" else "dim"
            return [[_EVIDENCE_MARKS[evidence_outcome(evidence)], (style, f" {flat(texts.of(text))}")]]
        case Notice(text, level):
            return [
                [("note" if level == "warning" else "dim", line)] for line in safe(texts.of(text)).split("\n")
            ]
        case JobChanged(job_id, command, "ended", code):
            style = "note" if code else "dim"
            return [[(style, texts.say("job.ended", id=job_id, command=flat(command), code=code))]]
        case ContentRestarted():
            return [[("note", texts.say("view.restarted"))]]
        case ChatCompressed(before, after, summary, forced=False):  # /compact replies itself
            key = "view.compressed" if summary else "view.shortened"
            return [[("dim", texts.say(key, before=f"{before:,}", after=f"{after:,}"))]]
        case LoopDetected(reason):
            return [[("note", texts.say("view.loop", reason=flat(texts.of(reason))))]]
        case Citation(text):
            return [[("dim", texts.say("view.citation", text=flat(text)))]]
        case InstantModeExecuted(_, _, warnings, leftover=leftover):
            left = [texts.say("modes.leftover", text=leftover)] if leftover else []
            return [
                [("note", line)] for text in (*warnings, *left) for line in safe(texts.of(text)).split("\n")
            ]
    return []


_LISTS = ("/hooks", "/mcp", "/memory", "/modes", "/permissions", "/sessions", "/skills", "/tools")
_ASKED_ROWS = 3
_ANSWER_ROWS = 6
_LAST_ANSWER_ROWS = 12
_RECAP_STATUSES = ("cancelled", "error", "max_steps", "prompt_limit")
_LEAST_PATH = 12  # columns
_MARGIN: Line = [("", "  ")]


def brief_reply(command: str) -> Text | None:
    """Replaces the reply of a command that reported the state of that time."""
    outdated = command in _LISTS or is_read_only_command(command)
    return Text("recap.not_again") if outdated else None


def session_lines(event: SessionStarted, texts: Catalog, width: int) -> list[Line]:
    """The session's model, directory and id; a warning in the home directory."""
    name: Line = [("strong", "coder"), ("dim", f" · {flat(event.model)} · ")]
    shown = display_path(Path(event.cwd))
    cwd = clip_left(shown, max(width - line_width(name), _LEAST_PATH))
    session = texts.say("view.session", id=flat(event.session_id))
    hint: Line = [("dim", f"{session} · {texts.say('view.hint')}")]
    home = wrap([("note", texts.say("view.home"))], width) if shown == "~" else []
    return [*wrap([*name, ("", cwd)], width), *wrap(hint, width), *home]


def recent_lines(turns: Sequence[PastTurn], texts: Catalog, width: int) -> list[Line]:
    """The last turns of a session, each shortened."""
    lines: list[Line] = []
    for turn in turns:
        limit = _LAST_ANSWER_ROWS if turn is turns[-1] else _ANSWER_ROWS
        lines += _turn_lines(turn, limit, texts, width)
    return lines


def message_lines(text: str, width: int) -> list[Line]:
    """A typed message, marked and tinted to separate turns."""
    rows: list[Line] = []
    for line in safe(text).split("\n"):
        first: Line = [("said", "  ")] if rows else [("prompt said", "› ")]
        rows += wrap([("said", line)], width, first=first, rest=[("said", "  ")])
    return [tinted_row(row, "said", width) for row in rows]


def _turn_lines(turn: PastTurn, limit: int, texts: Catalog, width: int) -> list[Line]:
    lines = _beginning(message_lines(turn.text.strip(), width), _ASKED_ROWS, texts)
    if turn.answer.strip():
        lines += _beginning(_rows(turn.answer, "", _MARGIN, width), limit, texts)
    if turn.status != "ok":
        how = turn.status if turn.status in _RECAP_STATUSES else "interrupted"
        lines.append([*_MARGIN, ("note", texts.say(f"recap.{how}"))])
    return lines


def _rows(text: str, style: str, first: Line, width: int) -> list[Line]:
    rows: list[Line] = []
    for line in safe(text).strip().split("\n"):
        rows += wrap([(style, line)], width, first=_MARGIN if rows else first, rest=_MARGIN)
    return rows


def _beginning(rows: list[Line], limit: int, texts: Catalog) -> list[Line]:
    if len(rows) <= limit:
        return rows
    more = texts.say("recap.more", n=len(rows) - limit + 1)
    return [*rows[: limit - 1], [*_MARGIN, ("dim", more)]]
