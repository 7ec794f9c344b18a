"""Rebuilds protocol events from recorded entries, for front ends that show a past conversation.

Summaries are not recorded: they are made from the fields of the results. Replies of commands are in English,
as the record has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from coder.history.rewound import typed_line
from coder.protocol import entries, events
from coder.protocol.events import AnyEvent
from coder.protocol.evidence import evidence_line, outcome
from coder.protocol.history import HistoryEvent
from coder.protocol.messages import Usage
from coder.texts import AnyText, JoinedText, Text
from coder.tools.registry import built_in, declared
from coder.tools.tool import recorded_summary

_LARGEST_OUTPUT = 4 << 20  # bytes of an output that was kept in a file
_STATUSES = ("ok", "error", "max_steps", "prompt_limit", "cancelled")
_CHECKS = ("passed", "failed", "skipped", "gave_up")


def entries_to_events(
    log: Iterable[HistoryEvent],
    outputs: Path | None = None,
    replaced_reply: Callable[[str], AnyText | None] = lambda _command: None,
) -> Iterator[AnyEvent]:
    """The events of a log. `outputs`: the session's directory of long outputs; without it they are as the
    model got them. `replaced_reply`: what to show instead of a successful command's reply."""
    state = EntriesToEvents(outputs, replaced_reply)
    return (event for entry in log for event in state.events(entry))


def typed_text(event: AnyEvent) -> str:
    """The text that the person typed, if the event stands for it."""
    match event:
        case events.TurnStarted(text=text) | events.Steered(text=text) | events.CommandDone(command=text):
            return text
    return ""


class _Call(msgspec.Struct):
    """A call without a result. `started`: when it ran or was answered; `refusal`: the reason of a no."""

    argument: str
    started: str
    refusal: str | None = None


class EntriesToEvents:
    """Converts the entries of one log in order, see `entries_to_events`."""

    def __init__(
        self,
        outputs: Path | None = None,
        replaced_reply: Callable[[str], AnyText | None] = lambda _command: None,
    ) -> None:
        self._outputs, self._replaced_reply = outputs, replaced_reply
        self._calls: dict[str, _Call] = {}

    def events(self, event: HistoryEvent) -> Iterator[AnyEvent]:
        if event.for_model_alone:
            return
        match event.entry:
            case entries.TurnStart() as entry:
                yield events.TurnStarted(event.turn, typed_line(event, entry), "")
            case entries.Note(reason="person"):
                yield events.Steered(event.content, heard=True)
            case entries.Assistant(reasoning=reasoning):
                if reasoning:
                    yield events.Thought(reasoning)
                if event.said.strip():
                    yield events.Content(event.said)
            case entries.Action(tool=tool, call_id=call_id, input=given):
                self._calls[call_id] = _Call(call_argument(tool, given), event.ts)
            case entries.Approval(call_id=str(call_id), answer=answer) as entry if (
                answer and call_id in self._calls
            ):
                refusal = (entry.reason or "") if answer == "no" else None
                self._calls[call_id] = _Call(self._calls[call_id].argument, event.ts, refusal)
            case entries.Observation() as entry:
                yield self._result(event, entry)
            case entries.Command() as entry if entry.command != "resume":  # the resumed session shows it
                ok = entry.ok is not False
                replaced = self._replaced_reply(entry.input) if ok else None
                yield events.CommandDone(
                    entry.input, _reply(event, entry) if replaced is None else replaced, ok=ok
                )
            case _:
                yield from _remarks(event)

    def _result(self, event: HistoryEvent, entry: entries.Observation) -> AnyEvent:
        call = self._calls.pop(entry.call_id, _Call("", event.ts))
        if entry.todos is not None and entry.ok:
            return events.TodosChanged(entry.todos)
        detail, kind = self._detail(entry)
        duration = entry.duration_ms
        return events.ToolCallChanged(
            call_id=entry.call_id,
            tool=entry.tool,
            state="success" if entry.ok else "cancelled" if entry.cancelled else "error",
            argument=call.argument,
            summary=_summary(event, entry, call),
            detail=detail,
            detail_kind=kind,
            duration_ms=_milliseconds(call.started, event.ts) if duration is None else duration,
        )

    def _detail(self, entry: entries.Observation) -> tuple[str, Literal["", "diff", "output"]]:
        if entry.diff and entry.ok:
            return entry.diff, "diff"
        if built_in(entry.tool).kind != "runs":
            return "", ""
        return self._whole_output(entry.output_file) or _printed(entry), "output"

    def _whole_output(self, name: str) -> str:
        """Only files of the session's own outputs: a record from a foreign project may name any file."""
        if self._outputs is None or Path(name).parent != self._outputs:
            return ""
        try:
            with Path(name).open("rb") as file:
                return file.read(_LARGEST_OUTPUT).decode("utf-8", errors="replace")
        except OSError:
            return ""


def call_argument(tool: str, given: Any) -> str:
    """A call's key argument, which is not recorded; empty if its arguments cannot be decoded."""
    if isinstance(given, str):
        try:
            given = msgspec.json.decode(given)
        except msgspec.DecodeError:
            return ""
    return (declared(built_in(tool).argument, given) or "") if isinstance(given, dict) else ""


def _printed(entry: entries.Observation | entries.Command) -> str:
    return "\n".join(one.rstrip("\n") for one in (entry.stdout, entry.stderr) if one and one.strip())


def _reply(event: HistoryEvent, entry: entries.Command) -> AnyText:
    """The output and exit code of a `!` command, which the model gets in another form."""
    if entry.stdout is None:
        return event.content
    failed = [Text("tool.exit", code=entry.exit_code)] if entry.exit_code else []
    return JoinedText([*filter(None, [_printed(entry)]), *failed])


def _remarks(event: HistoryEvent) -> Iterator[AnyEvent]:
    match event.entry:
        case entries.Verify(state=state, command=command) as entry if state in _CHECKS:
            known = cast("Literal['passed', 'failed', 'skipped', 'gave_up']", state)
            text = event.content if state == "failed" else entry.reason
            yield events.VerifyChanged(known, command, entry.attempt, entry.exit_code, text)
        case entries.Compaction(tokens_before=before, tokens_after=after, forced=forced):
            yield events.ChatCompressed(before, after, event.content, bool(forced))
        case entries.TurnEnd(status=status, error_message=error) as entry:
            if entry.evidence is not None:
                line = evidence_line(entry.evidence, entry.verification)
                fine = outcome(entry.evidence) != "failed" and not entry.evidence.claim
                yield events.Notice(line, "info" if fine else "warning", evidence=entry.evidence)
            if status not in ("ok", "cancelled") and error:
                yield events.Failed(error)
            known_status = cast("events.TurnStatus", status if status in _STATUSES else "error")
            ended = Text("recap.interrupted") if error == "interrupted" else error or ""
            yield events.TurnEnded(event.turn, known_status, "", entry.step_count, Usage(), 0, ended)


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


def _milliseconds(start: str, end: str) -> int:
    try:
        duration = datetime.fromisoformat(end) - datetime.fromisoformat(start)
        return max(0, round(duration.total_seconds() * 1000))
    except (ValueError, TypeError):
        return 0
