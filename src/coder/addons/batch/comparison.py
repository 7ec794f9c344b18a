"""Two batches of the same tasks: which verdicts changed, and what cost and steps did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, lgamma, log
from pathlib import Path

import msgspec

from coder import Exit, Parser, UsageError, flat, parser_for, settings_from, show, show_json
from coder.addons.batch.results import Row, final_rows
from coder.addons.batch.task_file import BatchError
from coder.texts import Catalog

_BISECTIONS = 60
_NEGLIGIBLE = 1e-17


def share_interval(count: int, of: int, confidence: float = 0.95) -> tuple[float, float]:
    """Clopper–Pearson: the shares that would not make `count` of `of` surprising."""
    if of == 0:
        return 0.0, 1.0
    tail = (1 - confidence) / 2
    low = 0.0 if count == 0 else _solve(lambda p: 1 - binomial_cdf(count - 1, of, p), tail)
    high = 1.0 if count == of else _solve(lambda p: 1 - binomial_cdf(count, of, p), 1 - tail)
    return low, high


def sign_test(better: int, worse: int) -> float:
    """How probable a split at least as uneven is, if neither side were better (exact McNemar test)."""
    changed = better + worse
    return min(1.0, 2 * binomial_cdf(min(better, worse), changed, 0.5)) if changed else 1.0


def median_interval(
    values: Sequence[float], confidence: float = 0.95
) -> tuple[float, tuple[float, float] | None]:
    """The median, and the order statistics that cover the true one; None if there are too few."""
    ordered = sorted(values)
    count = len(ordered)
    middle = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    tail, rank, reached = (1 - confidence) / 2, 0, 0.0
    while rank < count // 2:
        reached += _mass(rank, count, 0.5)
        if reached > tail:
            break
        rank += 1
    return middle, (ordered[rank - 1], ordered[count - rank]) if rank else None


def binomial_cdf(count: int, of: int, share: float) -> float:
    if share <= 0.0 or count >= of:
        return 1.0
    if share >= 1.0:
        return 0.0
    if count > of * share:
        return max(0.0, 1 - _tail(of - count - 1, of, 1 - share))
    return min(1.0, _tail(count, of, share))


def _tail(count: int, of: int, share: float) -> float:
    """P(X <= count) for a count below the mean: the terms shrink on the way down, so that few of them count,
    however many tasks there were."""
    term = total = _mass(count, of, share)
    for k in range(count, 0, -1):
        term *= k * (1 - share) / ((of - k + 1) * share)
        total += term
        if term < total * _NEGLIGIBLE:
            break
    return total


def _mass(k: int, n: int, p: float) -> float:
    return exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) + k * log(p) + (n - k) * log(1 - p))


def _solve(rising: Callable[[float], float], value: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < value else (low, middle)
    return (low + high) / 2


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


_MOST_NAMED = 50


def run(arguments: list[str]) -> int:
    chosen = parser(arguments).parse_args(arguments)
    try:
        found = compare(chosen.first, chosen.second)
    except BatchError as error:
        raise UsageError(error.phrase) from None
    if chosen.json:
        show_json(found)
    else:
        _, settings = settings_from(chosen)
        show("\n".join(_lines(found, settings.texts)))
    return Exit.ANSWERED


def parser(arguments: list[str]) -> Parser:
    made = parser_for("compare", arguments)
    made.arguments.add_argument("first", type=Path, metavar="DIR", help=made.say("batch.help.first"))
    made.arguments.add_argument("second", type=Path, metavar="DIR2", help=made.say("batch.help.second"))
    made.options.add_argument("--json", action="store_true", help=made.say("cli.help.json_object"))
    return made


def _lines(found: Comparison, texts: Catalog) -> list[str]:
    say = texts.say
    lines = [
        say("batch.compare.tasks", n=found.common),
        say("batch.compare.success", before=_share_column(found.first), after=_share_column(found.second)),
        say("batch.compare.better", n=len(found.better)),
        *_named(found.better, texts),
        say("batch.compare.worse", n=len(found.worse)),
        *_named(found.worse, texts),
        say("batch.compare.chance", chance=f"{found.chance:.3f}"),
    ]
    if found.cost is not None:
        lines.append(say("batch.compare.cost", change=_change(found.cost, "${:.4f}", texts)))
    if found.steps is not None:
        lines.append(say("batch.compare.steps", change=_change(found.steps, "{:g}", texts)))
    for key, tasks in (
        ("batch.compare.first", found.only_first),
        ("batch.compare.second", found.only_second),
    ):
        if tasks:
            lines += [say(key, n=len(tasks)), *_named(tasks, texts)]
    return lines


def _share_column(share: Share) -> str:
    low, high = share.interval
    return f"{share.count}/{share.of} ({100 * low:.1f}–{100 * high:.1f} %)"


def _named(tasks: list[str], texts: Catalog) -> list[str]:
    more = [texts.say("batch.more", n=len(tasks) - _MOST_NAMED)] if len(tasks) > _MOST_NAMED else []
    return [*(f"  {flat(task)}" for task in tasks[:_MOST_NAMED]), *more]


def _change(found: Difference, form: str, texts: Catalog) -> str:
    total = f"{form.format(found.before)} → {form.format(found.after)}"
    median = _signed(form, found.median)
    if found.interval is None:
        return texts.say("batch.compare.few", total=total, median=median)
    low, high = (_signed(form, value) for value in found.interval)
    return texts.say("batch.compare.median", total=total, median=median, low=low, high=high)


def _signed(form: str, value: float) -> str:
    """The sign goes before the currency."""
    return ("-" if value < 0 else "") + form.format(abs(value))
