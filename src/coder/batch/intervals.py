"""Exact intervals for small numbers: what a share or a difference may be, given how few were tried.

No approximation by the normal distribution, which is wrong where it matters: near 0 and 1, and for few tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, lgamma, log

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
    """The median, and the order statistics that cover the true one; None where there are too few."""
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
