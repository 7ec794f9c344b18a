"""Figures of one session, counted from its record."""

from __future__ import annotations

from datetime import datetime

import msgspec

from coder.history.log import local_time
from coder.history.turn_so_far import request_of
from coder.protocol import entries
from coder.protocol.history import HistoryEvent

_MOST = 10**12  # of one request: sums of a record made by hand stay within what JSON readers take


class ModelFacts(msgspec.Struct, omit_defaults=True):
    """Requests to one model; those of the engine's own and of subagents too. `wait_ms` of the main loop."""

    requests: int = 0
    prompt: int = 0
    cached: int = 0
    completion: int = 0
    cost_usd: float = 0.0
    wait_ms: int = 0


class ToolFacts(msgspec.Struct, omit_defaults=True):
    """Calls of one tool. `failures` are those that ran and did not succeed, `denied` never ran."""

    calls: int = 0
    failures: int = 0
    denied: int = 0
    run_ms: int = 0


class SessionFacts(msgspec.Struct, omit_defaults=True):
    """`day` is local, of the first event. `person_ms`: waiting for the answer to an approval."""

    day: str = ""
    turns: int = 0
    steps: int = 0
    files: int = 0
    person_ms: int = 0
    ends: dict[str, int] = {}
    checks: dict[str, int] = {}
    models: dict[str, ModelFacts] = {}
    tools: dict[str, ToolFacts] = {}


class FactCounter:
    """Consumes the events of a part in order. Durations are differences of the events' timestamps: a request
    begins with the event before its answer, a call with its `action` or the approval that let it run."""

    def __init__(self) -> None:
        self.facts = SessionFacts()
        self._model = ""
        self._before = 0.0
        self._begun: dict[str, float] = {}

    def restart(self) -> None:
        """Begin the next part, of the same session."""
        self.facts = SessionFacts()

    def take(self, event: HistoryEvent) -> None:
        now = seconds_of(event.ts)
        facts = self.facts
        if not facts.day and now:
            facts.day = local_time(now).partition(" ")[0]  # the person's own day
        self._count_request(event, now)
        match event.entry:
            case entries.SessionStart(model=model):
                self._model = model
            case entries.TurnStart():
                facts.turns += 1
            case entries.Assistant(by=""):
                facts.steps += 1
            case entries.Action(call_id=call_id):
                self._begun[call_id] = now
            case entries.Approval(call_id=call_id, answer=answer) if answer and call_id:
                facts.person_ms += self._elapsed(call_id, now)
                self._begun[call_id] = now
            case entries.Observation() as entry:
                self._count_call(entry, now)
            case entries.Verify(state=state, command=command) if command:
                _count(facts.checks, state)
            case entries.TurnEnd(status=status):
                _count(facts.ends, status)
        self._before = now or self._before

    def _count_request(self, event: HistoryEvent, now: float) -> None:
        request = request_of(event)
        if request is None:
            return
        entry = event.inner.entry
        own = isinstance(event.entry, entries.Assistant)
        if own and event.entry.by:  # type: ignore[union-attr] # the engine's own message
            return
        name = getattr(entry, "model", None) or self._model or "-"
        model = self.facts.models.setdefault(name, ModelFacts())
        model.requests += 1
        model.prompt += _bounded(request.usage.prompt)
        model.cached += _bounded(request.usage.cached)
        model.completion += _bounded(request.usage.completion)
        model.cost_usd += min(request.cost, _MOST)
        if own and self._before and now:
            model.wait_ms += max(0, round((now - self._before) * 1000))

    def _count_call(self, entry: entries.Observation, now: float) -> None:
        if entry.by == "engine" or entry.interrupted:
            return
        tool = self.facts.tools.setdefault(entry.tool, ToolFacts())
        tool.calls += 1
        tool.denied += entry.denied
        tool.failures += not entry.ok and not entry.denied
        tool.run_ms += self._elapsed(entry.call_id, now)
        self.facts.files += bool(entry.diff and entry.path) + len(entry.changed_files) + len(entry.changed)

    def _elapsed(self, call_id: str, now: float) -> int:
        begun = self._begun.pop(call_id, 0.0)
        return max(0, round((now - begun) * 1000)) if begun and now else 0


def seconds_of(ts: str) -> float:
    """A record's timestamp as seconds; 0 if it is none."""
    try:
        return datetime.fromisoformat(ts).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0


def _bounded(count: int) -> int:
    return max(0, min(count, _MOST))


def _count(counts: dict[str, int], name: str) -> None:
    counts[name] = counts.get(name, 0) + 1
