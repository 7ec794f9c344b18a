"""What the newest turn of a record had come to, for whoever goes on with it or ends it.

Also what is read out of an event here and for the whole session alike: what a request cost in tokens and
money, and which files a tool changed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from coder.protocol.events import Verification
from coder.protocol.history import HistoryEvent
from coder.protocol.usage import Usage
from coder.tools.registry import built_in

CHANGED_AFTER = "changed after the last check"
_CONTINUED = ("truncated", "empty", "announced")  # why a note told the model to go on
_USAGE_FIELDS = ("prompt", "completion", "total", "cached")


class Checks:
    """What the checks of a turn have shown so far, and what changed since."""

    def __init__(self) -> None:
        self.status: Literal["passed", "failed", "not_run"] = "not_run"
        self.command = ""
        self.attempts = 0
        self.reason = ""
        self.changed: dict[str, None] = {}  # since the last one that passed
        self.current = True  # nothing has changed since the last one
        self.runs = 0  # by the engine; the first, and one after each repair
        self.own = False  # the last one was run by the model itself
        self.over = False  # no further one in this turn

    def saw_change(self, paths: Iterable[str]) -> None:
        new = dict.fromkeys(paths)
        self.changed |= new
        self.current = self.current and not new
        if new and self.own and self.status == "failed":  # of an earlier state, and no verification
            self.status, self.command, self.own = "not_run", "", False

    def saw_end(self, state: str, command: str, attempt: int, reason: str = "") -> None:
        """`state` as the record's `verify` has it."""
        self.command, self.attempts, self.reason = command, max(attempt, self.attempts), reason
        self.current, self.own = True, False
        self.status = "passed" if state == "passed" else "failed" if state == "failed" else "not_run"
        self.over = self.status == "not_run"
        self.runs += not self.over
        if state == "passed":
            self.changed = {}

    def saw_own(self, state: Literal["passed", "failed"], command: str) -> None:
        """A check that the model ran."""
        self.saw_end(state, command, self.attempts + 1)
        self.runs -= 1
        self.own = True

    def result(self) -> Verification:
        reason = self.reason
        if self.status != "not_run" and not self.current:
            reason = CHANGED_AFTER
        return Verification(self.status, self.command, self.attempts, sorted(self.changed), reason)


class TurnSoFar(msgspec.Struct):
    """A turn as far as it is recorded. `model` is the one that routing chose, where it did."""

    text: str = ""
    said: str = ""
    steps: int = 0
    usage: Usage = Usage()
    cost: float = 0.0
    edited: set[str] = set()
    checks: Checks = msgspec.field(default_factory=Checks)
    continuations: int = 0
    model: str = ""
    answer: str = ""  # the newest
    unverified_answers: list[str] = []


class NewestTurn:
    """Takes the events of a record in order; `so_far` is the turn that began last."""

    def __init__(self) -> None:
        self.so_far = TurnSoFar()

    def take(self, event: HistoryEvent) -> None:
        if event.type == "turn_start":
            said = event.meta.get("said", event.content)
            self.so_far = TurnSoFar(text=event.content, said=said if isinstance(said, str) else "")
            return
        # A line that another version wrote in another shape is passed over like one of an unknown type.
        with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
            self._take(event, self.so_far)

    def _take(self, event: HistoryEvent, turn: TurnSoFar) -> None:
        meta = event.meta
        turn.usage = turn.usage.plus(tokens_of(event))
        turn.cost += cost_of(event)
        turn.edited |= (edits := edits_of(event))
        turn.checks.saw_change(sorted(edits))
        if event.type == "assistant" and "by" not in meta:
            turn.steps = event.step + 1
            turn.answer = event.said
        elif event.type == "verify":
            attempt, state = int(meta.get("attempt", 0)), str(meta.get("state"))
            turn.checks.saw_end(state, str(meta.get("command", "")), attempt, str(meta.get("reason", "")))
            if state == "failed":
                turn.unverified_answers.append(turn.answer)
        elif event.type == "note" and meta.get("reason") in _CONTINUED:
            turn.continuations += 1
        elif event.type == "routing":
            turn.model = str(meta.get("model", ""))


def _inner(event: HistoryEvent) -> tuple[str, dict[str, Any]]:
    """The event's type and meta, those of a subagent's event taken out of their wrapping."""
    inner = event.meta.get("event") if event.type == "subagent" else None
    if isinstance(inner, dict):
        return str(inner.get("type")), inner.get("meta") or {}
    return event.type, event.meta


def tokens_of(event: HistoryEvent) -> Usage:
    """Of the request that the event tells of, if it does. Summed request by request: a turn that was cut off
    has no `turn_end` to tell its total."""
    kind, meta = _inner(event)
    tokens = meta.get("tokens") if kind in ("assistant", "usage") else None
    return Usage(**{k: tokens.get(k, 0) for k in _USAGE_FIELDS}) if isinstance(tokens, dict) else Usage()


def cost_of(event: HistoryEvent) -> float:
    """What one request cost, a subagent's as well, where its model had a price."""
    kind, meta = _inner(event)
    # Never less than nothing: a record that came with the project must not fill up the person's budget.
    return max(0.0, float(meta.get("cost_usd") or 0)) if kind in ("assistant", "usage") else 0.0


def edits_of(event: HistoryEvent) -> set[str]:
    """The files that a tool changed, where the event tells of that."""
    kind, meta = _inner(event)
    done = kind == "observation" and meta.get("ok") and built_in(str(meta.get("tool"))).edits_files()
    return edited_paths(meta) if done else set()


def edited_paths(meta: Mapping[str, Any]) -> set[str]:
    """By the fields that tools which edit files record. What is not in the project (an absolute path) is
    no change of it: the scratch folder is there."""
    if meta.get("dry_run") or meta.get("operation") == "unchanged":
        return set()
    files = meta.get("files", [meta])
    return {path for path in (str(f.get("path", "")) for f in files) if not path.startswith("/")}
