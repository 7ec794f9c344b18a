"""State of a record's newest turn, to continue or close it after a resume.

Also reads an event's token usage, cost and edited files, here and for the whole session.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

import msgspec

from coder import policy
from coder.policy.verification import is_document
from coder.protocol import entries
from coder.protocol.history import HistoryEvent
from coder.protocol.messages import Usage
from coder.tools.registry import built_in

CHANGED_AFTER = "changed after the last check"
# What stands before the program that a check is.
_BEFORE = re.compile(
    r"-.*|\w+=.*|[\d.]+[smhd]?|python[\d.]*|env|time|timeout|nice|uv|uvx|npx|poetry|pdm|pipenv|run|exec"
)
_CONTINUED = ("truncated", "empty", "announced")  # reasons of notes that ask the model to continue


class Checks:
    """Results of a turn's verification runs, and files changed since."""

    def __init__(self) -> None:
        self.status: Literal["passed", "failed", "not_run"] = "not_run"
        self.command = ""
        self.attempts = 0
        self.reason = ""
        self.changed: dict[str, None] = {}  # since the last run that passed
        self.touched: dict[str, None] = {}  # in the whole turn
        self.since: list[entries.CheckRun] = []  # runs of any kind since the last change
        self.current = True  # nothing has changed since the last run
        self.runs = 0  # by the engine: the first, and one after each repair
        self.own = False  # the model itself made the last run
        self.over = False  # no further run in this turn

    def saw_change(self, paths: Iterable[str]) -> None:
        new = dict.fromkeys(paths)
        self.changed |= new
        self.touched |= new
        if new:
            self.since = []
        self.current = self.current and not new
        if new and self.own and self.status == "failed":  # outdated, and not the engine's verification
            self.status, self.command, self.own = "not_run", "", False

    def saw_end(self, state: str, command: str, attempt: int, reason: str = "") -> None:
        """`state` as in the record's `verify` entry."""
        self._end(state, command, attempt, reason)
        self.runs += not self.over
        if state == "passed" or state == "failed":
            self.saw_run([entries.CheckRun(command, "passed" if state == "passed" else "failed", "coder")])

    def _end(self, state: str, command: str, attempt: int, reason: str = "") -> None:
        self.command, self.attempts, self.reason = command, max(attempt, self.attempts), reason
        self.current, self.own = True, False
        self.status = "passed" if state == "passed" else "failed" if state == "failed" else "not_run"
        self.over = self.status == "not_run"
        if state == "passed":
            self.changed = {}

    def saw_run(self, runs: Iterable[entries.CheckRun]) -> None:
        """Checks, whether or not they verify. One that passes as a whole outdates failures of its parts."""
        for run in runs:
            self.since = [other for other in self.since if not _outdates(run, other)]
            self.since.append(run)

    def saw_own(self, state: Literal["passed", "failed"], command: str) -> None:
        """A check that the model ran; it is among those of `saw_run` too."""
        self._end(state, command, self.attempts + 1)
        self.own = True

    def result(self) -> entries.Verification:
        reason = self.reason
        if self.status != "not_run" and not self.current:
            reason = CHANGED_AFTER
        return entries.Verification(self.status, self.command, self.attempts, sorted(self.changed), reason)

    @property
    def tests_passed(self) -> bool:
        """After the last change, and none failed since."""
        states = [run.state for run in self.since if run.kind == "tests"]
        return "passed" in states and "failed" not in states

    def evidence(self) -> entries.Evidence | None:
        """What is shown of the turn's changes; None if nothing was changed."""
        if not self.touched:
            return None
        passed = any(run.kind == "tests" and run.state == "passed" for run in self.since)
        unchecked = [] if passed else sorted(path for path in self.changed if not is_document(path))
        return entries.Evidence(sorted(self.touched), list(self.since), unchecked)


def _outdates(run: entries.CheckRun, other: entries.CheckRun) -> bool:
    if other.command == run.command:
        return True
    whole = run.kind == other.kind == "tests" and run.state == "passed" and not run.part
    return whole and other.state == "failed" and _program(run.command) in _words(other.command)


def _program(command: str) -> str:
    """`pytest` of `timeout 60 python -m pytest -q`."""
    return next((word for word in _words(command) if not _BEFORE.fullmatch(word)), "")


def _words(command: str) -> list[str]:
    return [word.rsplit("/", 1)[-1] for word in command.split()]


class TurnSoFar(msgspec.Struct):
    """A turn as recorded so far. `model` is the one chosen by routing, if any."""

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
    earlier_answers: list[str] = []
    unverified_answers: list[str] = []
    heard: list[str] = []  # of the person, while it ran


def given_answers(earlier: list[str], unverified: list[str], newest: str, checks: Checks) -> list[str]:
    """A turn's answers in order. After a failed verification the newest is about the failure alone."""
    return [*earlier, *(unverified if checks.status == "failed" else ()), newest]


class NewestTurn:
    """Consumes events in order; `so_far` is the newest turn."""

    def __init__(self) -> None:
        self.so_far = TurnSoFar()
        self.shown: tuple[entries.Evidence, entries.Verification] | None = (
            None  # of the last turn that changed files
        )
        self._line = ""  # of the newest shell call
        self._answered = False  # nothing but words came last of the model, and they stand

    def take(self, event: HistoryEvent) -> None:
        turn = self.so_far
        if request := request_of(event):
            turn.usage = turn.usage.plus(request.usage)
            turn.cost += request.cost
        turn.edited |= edits_of(event)
        turn.checks.saw_change(sorted(changes_of(event)))
        match event.entry:
            case entries.Assistant(by="") as entry:
                turn.steps = event.step + 1
                turn.answer = event.said
                self._answered = not entry.tool_calls
            case entries.TurnStart(said=said):
                self.so_far = TurnSoFar(text=event.content, said=event.content if said is None else said)
            case entries.Action(input={"command": str(line)}):
                self._line = line
            case entries.Observation(exit_code=int(code), statuses=statuses, denied=False, background=False):
                turn.checks.saw_run(policy.check_lines.checks_in(self._line, code, event.content, statuses))
            case entries.Verify() as entry:
                turn.checks.saw_end(entry.state, entry.command, entry.attempt, entry.reason)
                if entry.state == "failed":
                    turn.unverified_answers.append(turn.answer)
            case entries.TurnEnd(evidence=entries.Evidence() as evidence, verification=verification):
                self.shown = evidence, verification
            case entries.Undo():  # what it says of those files may no longer hold
                self.shown = None
            case entries.Note(reason=reason):
                self._note(reason, event.content)
            case entries.Routing(model=model):
                turn.model = model

    def _note(self, reason: str, text: str) -> None:
        turn = self.so_far
        turn.continuations += reason in _CONTINUED
        if reason == "person":
            turn.heard.append(text)
            if self._answered:
                given = given_answers(turn.earlier_answers, turn.unverified_answers, turn.answer, turn.checks)
                turn.earlier_answers, turn.unverified_answers = given, []
        self._answered = self._answered and reason == "rules"  # which come before what the person said


class Request(NamedTuple):
    """Usage of one request. Totals are summed per request: an interrupted turn has no `turn_end`."""

    usage: Usage
    cost: float


def request_of(event: HistoryEvent) -> Request | None:
    """The request that the event reports, also a subagent's."""
    entry = event.inner.entry
    if not isinstance(entry, (entries.Assistant, entries.Usage)):
        return None
    usage = entry.tokens.usage if entry.tokens else Usage()
    # Never negative: a record shipped with a project must not refill the budget.
    return Request(usage, max(0.0, entry.cost_usd or 0.0))


def changes_of(event: HistoryEvent) -> set[str]:
    """The files that the event says a tool or a command changed."""
    entry = event.inner.entry
    by_command = entry.changed if isinstance(entry, entries.Observation) else ()
    return edits_of(event) | {path for path in by_command if not path.startswith("/")}


def edits_of(event: HistoryEvent) -> set[str]:
    """The files that the event says a tool changed."""
    entry = event.inner.entry
    if not isinstance(entry, entries.Observation) or not entry.ok or not built_in(entry.tool).edits_files():
        return set()
    if entry.dry_run or entry.operation == "unchanged":
        return set()
    # Absolute paths are outside the project, such as the scratch directory.
    paths = [entry.path] if entry.files is None else [file.path for file in entry.changed_files]
    return {path for path in paths if not path.startswith("/")}
