"""What the newest turn of a record had come to, for whoever goes on with it or ends it.

Also what is read out of an event here and for the whole session alike: what a request cost in tokens and
money, and which files a tool changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

import msgspec

from coder.protocol.entries import Assistant, Note, Observation, Routing, TurnStart, Verification, Verify
from coder.protocol.entries import Usage as UsageEntry
from coder.protocol.history import HistoryEvent
from coder.protocol.usage import Usage
from coder.tools.registry import built_in

CHANGED_AFTER = "changed after the last check"
_CONTINUED = ("truncated", "empty", "announced")  # why a note told the model to go on


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
        turn = self.so_far
        if request := request_of(event):
            turn.usage = turn.usage.plus(request.usage)
            turn.cost += request.cost
        if edits := edits_of(event):
            turn.edited |= edits
            turn.checks.saw_change(sorted(edits))
        match event.entry:
            case Assistant(by=""):
                turn.steps = event.step + 1
                turn.answer = event.said
            case TurnStart(said=said):
                self.so_far = TurnSoFar(text=event.content, said=event.content if said is None else said)
            case Verify() as entry:
                turn.checks.saw_end(entry.state, entry.command, entry.attempt, entry.reason)
                if entry.state == "failed":
                    turn.unverified_answers.append(turn.answer)
            case Note(reason=reason) if reason in _CONTINUED:
                turn.continuations += 1
            case Routing(model=model):
                turn.model = model


class Request(NamedTuple):
    """What a request took. Summed request by request: a turn that was cut off has no `turn_end` to tell its
    total."""

    usage: Usage
    cost: float


def request_of(event: HistoryEvent) -> Request | None:
    """The one that the event tells of, a subagent's as well, if it does."""
    entry = event.inner.entry
    if not isinstance(entry, (Assistant, UsageEntry)):
        return None
    usage = entry.tokens.usage if entry.tokens else Usage()
    # Never less than nothing: a record that came with the project must not fill up the person's budget.
    return Request(usage, max(0.0, entry.cost_usd or 0.0))


def edits_of(event: HistoryEvent) -> set[str]:
    """The files that a tool changed, where the event tells of that."""
    entry = event.inner.entry
    if not isinstance(entry, Observation) or not entry.ok or not built_in(entry.tool).edits_files():
        return set()
    if entry.dry_run or entry.operation == "unchanged":
        return set()
    # What is not in the project (an absolute path) is no change of it: the scratch folder is there.
    paths = [entry.path] if entry.files is None else [file.path for file in entry.changed_files]
    return {path for path in paths if not path.startswith("/")}
