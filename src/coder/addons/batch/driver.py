"""The batch itself: start attempts up to the limits, write down what comes of them, retry, stop.

The driver alone writes the output directory. A task's row is written once its attempt is over and nothing of
it runs any more; what a kill of the driver cuts off has no row, and `--resume` does it again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from coder.addons.batch.channel import Answered, Done, Grew, Throttled
from coder.addons.batch.inbox import Began, Ended, Held, News
from coder.addons.batch.results import (
    RECORD,
    OutputDirectory,
    Progress,
    Row,
    Running,
    Stopped,
    dearest_so_far,
    final_rows,
    read_attempts,
    read_rows,
    recorded_cost,
    write_status,
)
from coder.addons.batch.task import Job, Outcome, Settings
from coder.addons.batch.task_file import BatchError, TaskFile


class EngineLost(BatchError):
    """What the engine ran on is gone, with all that ran there."""


class BatchEngine(Protocol):
    """Runs attempts somewhere. For each one started there is exactly one `Ended` among the news, the last of
    that attempt's; what it came to is its `Done`, and without one it was lost."""

    @property
    def capacity(self) -> int:
        """How many attempts may run now."""

    def start(self, job: Job) -> None:
        """Begin an attempt and return at once."""

    def news(self, seconds: float) -> list[News]:
        """What was reported since the last call; waits for it, but not longer than `seconds`. Raises
        `EngineLost`."""

    def exhausted(self) -> bool:
        """Whether a request was refused because the budget is used up."""

    def stop(self) -> None:
        """Cancel what runs. Its news still come."""

    def close(self) -> None:
        """Let go of everything, on every machine."""


_MOST_LOSSES = 3  # attempts whose process or machine died, before the task is given up
_TICK = 0.25
_CENT_OF_A_CENT = 0.0001
_STATUS_EVERY = 1.0


class Plan(msgspec.Struct, frozen=True):
    """Which tasks there are to do, and what earlier runs of the batch came to."""

    indexes: list[int]
    attempts: dict[str, int]  # so far
    spent: float
    dearest: float = 0.0  # of their requests
    done: int = 0
    succeeded: int = 0


def plan(tasks: TaskFile, out: OutputDirectory, *, retry_failed: bool) -> Plan:
    """Tasks without a row; with `retry_failed` also those whose last row is no success."""
    rows = final_rows(out.path)
    attempts = read_attempts(out.path)
    for task, attempt in attempts.open.items():  # of a driver that was killed
        if task not in rows or rows[task].attempt < attempt:
            cost = recorded_cost(out.path / task / RECORD) + attempts.held.get(task, 0.0)
            out.lost(task, attempt, "the driver ended", cost)
            attempts.lost_cost += cost
    kept = {task for task, row in rows.items() if row.success or not retry_failed}
    indexes = [index for index, task in enumerate(tasks.ids) if task not in kept]
    done = [rows[task] for task in tasks.ids if task in kept]
    counts = {task: max(row.attempt, attempts.count.get(task, 0)) for task, row in rows.items()}
    spent, dearest = attempts.lost_cost, dearest_so_far(out.path)
    for row in read_rows(out.path):  # of every row: what was done again had its price too
        spent += row.cost or 0.0
        dearest = max(dearest, (row.cost or 0.0) / max(1, row.steps))
    return Plan(
        indexes,
        {**attempts.count, **counts},
        spent,
        dearest,
        len(done),
        sum(row.success for row in done),
    )


class _Attempt(msgspec.Struct):
    index: int
    number: int
    losses: int
    begun: float = 0.0  # 0: it waits for a node
    outcome: Outcome | None = None
    cost: float = 0.0
    held: float = 0.0
    tokens: int = 0
    steps: int = 0


class Driver:
    """Runs a plan on an engine."""

    def __init__(
        self,
        tasks: TaskFile,
        todo: Plan,
        out: OutputDirectory,
        engine: BatchEngine,
        settings: Settings,
        *,
        show: Callable[[Progress, list[Row]], None],
        seconds: float | None = None,
    ) -> None:
        self._tasks = tasks
        self._out = out
        self._engine = engine
        self._settings = settings
        self._show = show
        self._attempts = todo.attempts
        self._waiting: Iterator[int] = iter(todo.indexes)
        self._again: deque[tuple[int, int]] = deque()  # lost ones: index and losses
        self._running: dict[str, _Attempt] = {}
        self._rows: list[Row] = []
        self._begun = time.monotonic()
        self._deadline = None if seconds is None else self._begun + seconds
        self._shown = 0.0
        self._recent: deque[tuple[float, int]] = deque()  # tokens by time
        self._interrupts = 0
        self._stopped: Stopped = ""
        self._unfinished = 0
        self.progress = Progress(
            total=len(tasks),
            done=todo.done,
            succeeded=todo.succeeded,
            cost=todo.spent,
            dearest=todo.dearest,
        )

    def interrupt(self) -> None:
        """Ctrl+C: once starts nothing more, twice cancels what runs. Safe in a signal handler."""
        self._interrupts += 1

    def cancel(self) -> None:
        self._interrupts = max(2, self._interrupts)

    def run(self) -> Progress:
        """To the end. The engine is left open."""
        try:
            while True:
                self._obey()
                if not self._stopped:
                    self._start_more()
                if not self._running:
                    break
                for news in self._engine.news(_TICK):
                    self._take(news)
                self._write()
                self._tell()
        except EngineLost as error:
            self._stopped = "engine"
            for task, attempt in self._running.items():
                self._out.lost(task, attempt.number, str(error), attempt.cost + attempt.held)
            self._running.clear()
        finally:
            self._write()
        self._tell(last=True)
        return self.progress

    # stopping

    def _obey(self) -> None:
        why: Stopped = ""
        if self._interrupts:
            why = "interrupted" if self._interrupts == 1 else "cancelled"
        elif self._engine.exhausted():
            why = "budget"
        elif self._deadline is not None and time.monotonic() >= self._deadline:
            why = "time"
        if why and why != self._stopped:
            self._stopped = why
            if why in ("cancelled", "time"):
                self._engine.stop()

    # starting

    def _start_more(self) -> None:
        while len(self._running) < self._engine.capacity:
            if self._again:
                index, losses = self._again.popleft()
            else:
                index = next(self._waiting, -1)
                losses = 0
                if index < 0:
                    return
            self._start(index, losses)

    def _start(self, index: int, losses: int) -> None:
        task = self._tasks.task(index)
        number = self._attempts.get(task.id, 0) + 1
        self._attempts[task.id] = number
        self._running[task.id] = _Attempt(index, number, losses)
        self._out.started(task.id, number)
        self._engine.start(Job(task, number, self._settings))

    # news

    def _take(self, news: News) -> None:
        attempt = self._running.get(news.task)
        if attempt is None or attempt.number != news.attempt:
            return  # of an attempt that was given up for lost
        match news.what:
            case Began():
                attempt.begun = time.monotonic()
            case Grew(name, data, whole):
                self._out.grow(news.task, name, data, whole=whole)
            case Answered(cost=cost, prompt=prompt, completion=completion):
                attempt.steps += 1
                attempt.cost += cost or 0.0
                self.progress.cost += cost or 0.0
                self.progress.dearest = max(self.progress.dearest, cost or 0.0)
                self._count_tokens(attempt, prompt + completion)
            case Throttled():
                self.progress.throttled += 1
            case Done(outcome):
                attempt.outcome = outcome
                # Where the provider does not say, the record has an estimate.
                self._count_tokens(attempt, outcome.tokens.get("total", 0) - attempt.tokens)
            case Held(usd):
                attempt.held = usd
                self._out.held(news.task, attempt.number, usd)
            case Ended(why, charged):
                self._ended(news.task, attempt, why, charged)

    def _count_tokens(self, attempt: _Attempt, more: int) -> None:
        if more > 0:
            attempt.tokens += more
            self.progress.tokens += more
            self._recent.append((time.monotonic(), more))

    def _ended(self, task: str, attempt: _Attempt, why: str, charged: float) -> None:
        del self._running[task]
        outcome = attempt.outcome
        if outcome is not None and outcome.status == "cancelled" and not self._stopped:
            outcome = None  # not by us: a signal from elsewhere, as good as a kill
        if outcome is None and attempt.losses + 1 >= _MOST_LOSSES:
            outcome = Outcome("lost", error=why or f"its process died {_MOST_LOSSES} times")
        if outcome is not None and outcome.final:
            row = Row.of(task, attempt.number, outcome, self._out.path)
            if charged > (row.cost or 0.0) + _CENT_OF_A_CENT:
                self._out.beyond(task, attempt.number, charged - (row.cost or 0.0))
            self._rows.append(row)
            self.progress.done += 1
            self.progress.ran += 1
            self.progress.succeeded += row.success
            return
        why = outcome.status if outcome else why or "died"
        self._out.lost(task, attempt.number, why, max(charged, attempt.cost))
        if outcome is None and not self._stopped:
            self.progress.lost += 1
            self._again.append((attempt.index, attempt.losses + 1))

    # telling

    def _write(self) -> None:
        if self._rows:
            self._out.append(self._rows)
            self._show(self.progress, self._rows)
            self._rows = []

    def _tell(self, *, last: bool = False) -> None:
        now = time.monotonic()
        if not last and now - self._shown < _STATUS_EVERY:
            return
        self._shown = now
        while self._recent and self._recent[0][0] < now - 30:
            self._recent.popleft()
        progress = self.progress
        progress.elapsed = now - self._begun
        span = min(30.0, max(1.0, progress.elapsed))
        progress.tokens_per_second = sum(tokens for _, tokens in self._recent) / span
        remaining = progress.total - progress.done
        progress.seconds_left = progress.elapsed / progress.ran * remaining if progress.ran else None
        progress.stopped = self._stopped
        progress.running = [
            Running(task, one.number, now - one.begun, one.steps, one.cost)
            for task, one in self._running.items()
            if one.begun
        ]
        progress.waiting = len(self._running) - len(progress.running)
        progress.ended = last
        write_status(self._out.path, progress)
        self._show(progress, [])
