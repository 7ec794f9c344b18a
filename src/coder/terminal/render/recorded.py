"""A record told again as the events that a front end was told, to show a conversation that is over.

Summaries are not recorded: they are made from the fields of the results. Replies of commands are in English,
as the record has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from coder.protocol import entries
from coder.protocol.events import (
    AnyEvent,
    ChatCompressed,
    CommandDone,
    Content,
    Failed,
    Notice,
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
from coder.protocol.usage import Usage
from coder.record.rewound import typed_line
from coder.texts import Joined, Phrase, Said
from coder.tools.registry import built_in, declared

_LARGEST_OUTPUT = 4 << 20  # bytes of an output that was kept in a file
_STATUSES = ("ok", "error", "max_steps", "prompt_limit", "cancelled")
_CHECKS = ("passed", "failed", "skipped", "gave_up")


class Typed(msgspec.Struct, frozen=True):
    """What the person sent."""

    text: str


Told = AnyEvent | Typed


class _Call(msgspec.Struct):
    """A call without a result yet. `begun`: when it started, or was allowed."""

    argument: str
    begun: str


class RecordedEvents:
    """Takes the events of a record in order. `outputs`: where the session keeps long outputs; None if they
    are shown as the model got them."""

    def __init__(self, outputs: Path | None = None) -> None:
        self._outputs = outputs
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
                self._calls[call_id] = _Call(_argument(tool, given), event.ts)
            case entries.Approval(call_id=str(call_id), answer=answer) if answer and call_id in self._calls:
                self._calls[call_id].begun = event.ts
            case entries.Observation() as entry:
                yield self._result(event, entry)
            case entries.Command(input=line, ok=ok, command=name) if name != "resume":  # by which it is told
                yield Typed(line)
                yield CommandDone(line, _reply(event), ok=ok is not False)
            case _:
                yield from _around(event)

    def _result(self, event: HistoryEvent, entry: entries.Observation) -> Told:
        call = self._calls.pop(entry.call_id, _Call("", event.ts))
        if entry.todos is not None and entry.ok:
            return TodosChanged(entry.todos)
        detail, kind = self._detail(event, entry)
        spent = event.meta.get("duration_ms")
        return ToolCallChanged(
            call_id=entry.call_id,
            tool=entry.tool,
            state="success" if entry.ok else "cancelled" if event.meta.get("cancelled") else "error",
            argument=call.argument,
            summary=_summary(event, entry, call.argument),
            detail=detail,
            detail_kind=kind,
            duration_ms=spent if isinstance(spent, int) else _milliseconds(call.begun, event.ts),
        )

    def _detail(
        self, event: HistoryEvent, entry: entries.Observation
    ) -> tuple[str, Literal["", "diff", "output"]]:
        if entry.diff and entry.ok:
            return entry.diff, "diff"
        if built_in(entry.tool).kind != "runs":
            return "", ""
        return self._whole_output(event.meta.get("output_file")) or _printed(event), "output"

    def _whole_output(self, name: Any) -> str:
        """Of a session's own outputs only: a record that came with a project may name any file."""
        if self._outputs is None or not isinstance(name, str) or Path(name).parent != self._outputs:
            return ""
        try:
            with Path(name).open("rb") as file:
                return file.read(_LARGEST_OUTPUT).decode("utf-8", errors="replace")
        except OSError:
            return ""


def _printed(event: HistoryEvent) -> str:
    printed = [event.meta.get(stream) for stream in ("stdout", "stderr")]
    return "\n".join(one.rstrip("\n") for one in printed if isinstance(one, str) and one.strip())


def _reply(event: HistoryEvent) -> Said:
    """Of a `!` command what it printed, and how it failed: the model has got it in another form."""
    if not isinstance(event.meta.get("stdout"), str):
        return event.content
    code = event.meta.get("exit_code")
    return Joined([*filter(None, [_printed(event)]), *([Phrase("tool.exit", code=code)] if code else [])])


def _around(event: HistoryEvent) -> Iterator[Told]:
    match event.entry:
        case entries.Verify(state=state, command=command) as entry if state in _CHECKS:
            known = cast("Literal['passed', 'failed', 'skipped', 'gave_up']", state)
            text = event.content if state == "failed" else entry.reason
            yield VerifyChanged(known, command, entry.attempt, entry.exit_code, text)
        case entries.Compaction(tokens_before=before, tokens_after=after):
            yield ChatCompressed(before, after, event.content)
        case entries.TurnEnd(status=status, error_message=error) as entry:
            if entry.evidence is not None:
                line = evidence_line(entry.evidence, entry.verification)
                fine = outcome(entry.evidence) != "failed" and not entry.evidence.claim
                yield Notice(line, "info" if fine else "warning", evidence=entry.evidence)
            if status not in ("ok", "cancelled") and error:
                yield Failed(error)
            known_status = cast("TurnStatus", status if status in _STATUSES else "error")
            ended = Phrase("recap.interrupted") if error == "interrupted" else error or ""
            yield TurnEnded(event.turn, known_status, "", entry.step_count, Usage(), 0, ended)


def _argument(tool: str, given: Any) -> str:
    if isinstance(given, str):
        try:
            given = msgspec.json.decode(given)
        except msgspec.DecodeError:
            return ""
    return (declared(built_in(tool).argument, given) or "") if isinstance(given, dict) else ""


def _summary(event: HistoryEvent, entry: entries.Observation, argument: str) -> Said:
    if entry.exit_code is not None:
        return Phrase("tool.exit", code=entry.exit_code) if not entry.ok else ""
    if not entry.ok:
        first = event.content.split("\n", 1)[0]
        return first.removeprefix("error: ").removeprefix("denied: ")
    added, deleted = event.meta.get("additions"), event.meta.get("deletions")
    if isinstance(added, int) and isinstance(deleted, int):
        key = "tool.created" if entry.operation == "created" else "tool.updated"
        return Phrase(key, path=argument, added=added, deleted=deleted)
    return ""


def _milliseconds(begun: str, ended: str) -> int:
    try:
        spent = datetime.fromisoformat(ended) - datetime.fromisoformat(begun)
        return max(0, round(spent.total_seconds() * 1000))
    except (ValueError, TypeError):
        return 0
