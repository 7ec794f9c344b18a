"""A record told again as the events that a front end was told, to show a conversation that is over.

Summaries are not recorded: they are made from the fields of the results. Replies of commands are in English,
as the record has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from coder.engine.setup import is_read_only_command
from coder.history.rewound import typed_line
from coder.protocol import entries
from coder.protocol.events import (
    AnyEvent,
    ChatCompressed,
    CommandDone,
    Content,
    Failed,
    Notice,
    PastTurn,
    SessionStarted,
    Thought,
    TodosChanged,
    ToolCallChanged,
    TurnEnded,
    TurnStatus,
    VerifyChanged,
)
from coder.protocol.evidence import outcome
from coder.protocol.evidence import told as evidence_line
from coder.protocol.history import HistoryEvent
from coder.protocol.messages import Usage
from coder.texts import AnyText, Catalog, JoinedText, Text
from coder.tools.registry import built_in, declared
from coder.tools.tool import recorded_summary
from coder.ui.terminal.render.escapes import flat, safe
from coder.ui.terminal.render.theme import filled
from coder.ui.terminal.render.width import Line, clip_left, line_width, wrap
from coder.ui.terminal.screen_state import display_path

_LARGEST_OUTPUT = 4 << 20  # bytes of an output that was kept in a file
_STATUSES = ("ok", "error", "max_steps", "prompt_limit", "cancelled")
_LISTS = ("/hooks", "/mcp", "/memory", "/modes", "/permissions", "/sessions", "/skills", "/tools")
_CHECKS = ("passed", "failed", "skipped", "gave_up")


class Typed(msgspec.Struct, frozen=True):
    """What the person sent."""

    text: str


Told = AnyEvent | Typed


class _Call(msgspec.Struct):
    """A call without a result yet. `begun`: when it started, or was answered; `refusal`: the person's why."""

    argument: str
    begun: str
    refusal: str | None = None


class RecordedEvents:
    """Takes the events of a record in order. `outputs`: where the session keeps long outputs; None if they
    are shown as the model got them. `brief`: without replies that told how things stood at the time."""

    def __init__(self, outputs: Path | None = None, *, brief: bool = False) -> None:
        self._outputs, self._brief = outputs, brief
        self._calls: dict[str, _Call] = {}

    def all(self, events: Iterable[HistoryEvent]) -> Iterator[Told]:
        return (told for event in events for told in self.take(event))

    def take(self, event: HistoryEvent) -> Iterator[Told]:
        if event.for_model_alone:
            return
        match event.entry:
            case entries.TurnStart() as entry:
                yield Typed(typed_line(event, entry))
            case entries.Note(reason="person"):
                yield Typed(event.content)
            case entries.Assistant(reasoning=reasoning):
                yield from [Thought(reasoning)] if reasoning else []
                yield from [Content(event.said)] if event.said.strip() else []
            case entries.Action(tool=tool, call_id=call_id, input=given):
                self._calls[call_id] = _Call(call_argument(tool, given), event.ts)
            case entries.Approval(call_id=str(call_id), answer=answer) as entry if (
                answer and call_id in self._calls
            ):
                refusal = (entry.reason or "") if answer == "no" else None
                self._calls[call_id] = _Call(self._calls[call_id].argument, event.ts, refusal)
            case entries.Observation() as entry:
                yield self._result(event, entry)
            case entries.Command() as entry if entry.command != "resume":  # by which it is told
                yield Typed(entry.input)
                brief = self._brief and entry.ok is not False and _only_tells(entry.input)
                reply = Text("recap.not_again") if brief else _reply(event, entry)
                yield CommandDone(entry.input, reply, ok=entry.ok is not False)
            case _:
                yield from _around(event)

    def _result(self, event: HistoryEvent, entry: entries.Observation) -> Told:
        call = self._calls.pop(entry.call_id, _Call("", event.ts))
        if entry.todos is not None and entry.ok:
            return TodosChanged(entry.todos)
        detail, kind = self._detail(entry)
        spent = entry.duration_ms
        return ToolCallChanged(
            call_id=entry.call_id,
            tool=entry.tool,
            state="success" if entry.ok else "cancelled" if entry.cancelled else "error",
            argument=call.argument,
            summary=_summary(event, entry, call),
            detail=detail,
            detail_kind=kind,
            duration_ms=_milliseconds(call.begun, event.ts) if spent is None else spent,
        )

    def _detail(self, entry: entries.Observation) -> tuple[str, Literal["", "diff", "output"]]:
        if entry.diff and entry.ok:
            return entry.diff, "diff"
        if built_in(entry.tool).kind != "runs":
            return "", ""
        return self._whole_output(entry.output_file) or _printed(entry), "output"

    def _whole_output(self, name: str) -> str:
        """Of a session's own outputs only: a record that came with a project may name any file."""
        if self._outputs is None or Path(name).parent != self._outputs:
            return ""
        try:
            with Path(name).open("rb") as file:
                return file.read(_LARGEST_OUTPUT).decode("utf-8", errors="replace")
        except OSError:
            return ""


def _printed(entry: entries.Observation | entries.Command) -> str:
    return "\n".join(one.rstrip("\n") for one in (entry.stdout, entry.stderr) if one and one.strip())


def _only_tells(line: str) -> bool:
    return line in _LISTS or is_read_only_command(line)


def _reply(event: HistoryEvent, entry: entries.Command) -> AnyText:
    """Of a `!` command what it printed, and how it failed: the model has got it in another form."""
    if entry.stdout is None:
        return event.content
    failed = [Text("tool.exit", code=entry.exit_code)] if entry.exit_code else []
    return JoinedText([*filter(None, [_printed(entry)]), *failed])


def _around(event: HistoryEvent) -> Iterator[Told]:
    match event.entry:
        case entries.Verify(state=state, command=command) as entry if state in _CHECKS:
            known = cast("Literal['passed', 'failed', 'skipped', 'gave_up']", state)
            text = event.content if state == "failed" else entry.reason
            yield VerifyChanged(known, command, entry.attempt, entry.exit_code, text)
        case entries.Compaction(tokens_before=before, tokens_after=after, forced=forced):
            yield ChatCompressed(before, after, event.content, bool(forced))
        case entries.TurnEnd(status=status, error_message=error) as entry:
            if entry.evidence is not None:
                line = evidence_line(entry.evidence, entry.verification)
                fine = outcome(entry.evidence) != "failed" and not entry.evidence.claim
                yield Notice(line, "info" if fine else "warning", evidence=entry.evidence)
            if status not in ("ok", "cancelled") and error:
                yield Failed(error)
            known_status = cast("TurnStatus", status if status in _STATUSES else "error")
            ended = Text("recap.interrupted") if error == "interrupted" else error or ""
            yield TurnEnded(event.turn, known_status, "", entry.step_count, Usage(), 0, ended)


def call_argument(tool: str, given: Any) -> str:
    """What the row of a call names."""
    if isinstance(given, str):
        try:
            given = msgspec.json.decode(given)
        except msgspec.DecodeError:
            return ""
    return (declared(built_in(tool).argument, given) or "") if isinstance(given, dict) else ""


def _summary(event: HistoryEvent, entry: entries.Observation, call: _Call) -> AnyText:
    if entry.exit_code is not None:
        return Text("tool.exit", code=entry.exit_code) if entry.tool == "bash" or not entry.ok else ""
    if entry.denied and call.refusal is not None:
        return Text("approval.refused") + (f": {call.refusal}" if call.refusal else "")
    if not entry.ok:
        first = event.content.split("\n", 1)[0]
        return first.removeprefix("error: ").removeprefix("denied: ")
    if entry.additions is not None and entry.deletions is not None:
        key = "tool.created" if entry.operation == "created" else "tool.updated"
        return Text(key, path=call.argument, added=entry.additions, deleted=entry.deletions)
    return recorded_summary(entry.tool, event.meta) or ""


def _milliseconds(begun: str, ended: str) -> int:
    try:
        spent = datetime.fromisoformat(ended) - datetime.fromisoformat(begun)
        return max(0, round(spent.total_seconds() * 1000))
    except (ValueError, TypeError):
        return 0


_ASKED_ROWS = 3
_ANSWER_ROWS = 6
_LAST_ANSWER_ROWS = 12
_RECAP_STATUSES = ("cancelled", "error", "max_steps", "prompt_limit")
_LEAST_PATH = 12  # columns
_MARGIN: Line = [("", "  ")]


def session_lines(event: SessionStarted, texts: Catalog, width: int) -> list[Line]:
    """Model, directory and id of the session; of the home directory a warning."""
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
    """What the person said: marked and tinted, so that turns can be told apart."""
    rows: list[Line] = []
    for line in safe(text).split("\n"):
        first: Line = [("said", "  ")] if rows else [("prompt said", "› ")]
        rows += wrap([("said", line)], width, first=first, rest=[("said", "  ")])
    return [filled(row, "said", width) for row in rows]


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
