"""Two batches of the same tasks: which verdicts changed, and what cost and steps did."""

from __future__ import annotations

from pathlib import Path

import msgspec

from coder.batch.intervals import median_interval, share_interval, sign_test
from coder.batch.results import Row, final_rows

Interval = tuple[float, float]


class Share(msgspec.Struct, frozen=True):
    """`count` of `of` tasks succeeded; the interval is exact, at 95 %."""

    count: int
    of: int
    interval: Interval


class Difference(msgspec.Struct, frozen=True):
    """Of the second batch to the first, task by task. `interval`: of the median; None for too few tasks."""

    before: float
    after: float
    median: float
    interval: Interval | None


class Comparison(msgspec.Struct, frozen=True):
    """`chance`: how probable so uneven a split of changed verdicts is where neither batch is better."""

    common: int
    only_first: list[str]
    only_second: list[str]
    first: Share
    second: Share
    better: list[str]
    worse: list[str]
    chance: float
    cost: Difference | None
    steps: Difference | None


def compare(first: Path, second: Path) -> Comparison:
    """By the last row of every task. Raises `BatchError`."""
    before, after = final_rows(first), final_rows(second)
    both = [task for task in before if task in after]
    pairs = [(before[task], after[task]) for task in both]
    better = [two.id for one, two in pairs if two.success and not one.success]
    worse = [two.id for one, two in pairs if one.success and not two.success]
    priced = [(one.cost, two.cost) for one, two in pairs if one.cost is not None and two.cost is not None]
    return Comparison(
        common=len(both),
        only_first=[task for task in before if task not in after],
        only_second=[task for task in after if task not in before],
        first=_share([one for one, _ in pairs]),
        second=_share([two for _, two in pairs]),
        better=better,
        worse=worse,
        chance=sign_test(len(better), len(worse)),
        cost=_difference(priced),
        steps=_difference([(float(one.steps), float(two.steps)) for one, two in pairs]),
    )


def _share(rows: list[Row]) -> Share:
    count = sum(row.success for row in rows)
    return Share(count, len(rows), share_interval(count, len(rows)))


def _difference(pairs: list[tuple[float, float]]) -> Difference | None:
    if not pairs:
        return None
    median, interval = median_interval([after - before for before, after in pairs])
    return Difference(sum(one for one, _ in pairs), sum(two for _, two in pairs), median, interval)
