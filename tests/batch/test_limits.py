"""The limits as a state machine: rates, shared back-off, money that is reserved before it is spent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coder.batch.limits import Answer, Limits


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_requests_a_minute() -> None:
    clock = Clock()
    limits = Limits({"p": 2}, clock=clock)
    assert limits.ask("a", 1, "p", 0).wait == 0
    clock.now += 20
    assert limits.ask("b", 1, "p", 0).wait == 0
    assert limits.ask("c", 1, "p", 0).wait == 40  # until the first is a minute old
    assert limits.ask("c", 1, "other", 0).wait == 0
    clock.now += 40
    assert limits.ask("c", 1, "p", 0).wait == 0


def test_a_rate_for_every_provider() -> None:
    limits = Limits({"": 1, "big": 3}, clock=Clock())
    assert [limits.ask("a", n, "small", 0).wait for n in (1, 2)] == [0, 60]
    assert [limits.ask("a", n, "big", 0).wait for n in (3, 4, 5, 6)] == [0, 0, 0, 60]


def test_a_429_is_a_pause_for_all_and_then_one_tries() -> None:
    clock = Clock()
    limits = Limits(clock=clock)
    limits.ask("a", 1, "p", 0)
    limits.ask("b", 1, "p", 0)
    limits.throttled("a", 1, "p", 7.0)
    limits.throttled("b", 1, "p", None)
    assert limits.ask("c", 1, "p", 0).wait == 7
    assert limits.ask("c", 1, "q", 0).wait == 0
    clock.now += 7
    assert limits.ask("c", 1, "p", 0).wait == 0
    assert limits.ask("a", 2, "p", 0).wait > 0  # the first answer shows whether it has recovered
    limits.answered("c", 1, "p", 0.0)
    assert limits.ask("a", 2, "p", 0).wait == 0


def test_back_off_doubles_once_for_each_round_not_for_each_request() -> None:
    clock = Clock()
    limits = Limits(clock=clock)
    waits = []
    for number in range(4):
        limits.ask("a", number, "p", 0)
        for _ in range(10):
            limits.throttled("a", number, "p", None)
        waits.append(limits.ask("b", number, "p", 0).wait)
        clock.now += waits[-1]
    assert waits == [1, 2, 4, 8]


def test_whoever_tries_after_a_pause_and_dies_blocks_nobody() -> None:
    clock = Clock()
    limits = Limits(clock=clock)
    limits.ask("a", 1, "p", 0)
    limits.throttled("a", 1, "p", 1.0)
    clock.now += 1
    assert limits.ask("b", 1, "p", 0).wait == 0
    limits.gone("b")
    assert limits.ask("c", 1, "p", 0).wait == 0


def test_money_in_flight_is_waited_for_and_money_spent_is_not() -> None:
    limits = Limits(budget=1.0, clock=Clock())
    assert limits.ask("a", 1, "p", 0.6) == Answer()
    waiting = limits.ask("b", 1, "p", 0.6)
    assert waiting.wait > 0
    assert not waiting.refused
    limits.answered("a", 1, "p", 0.1)
    assert limits.ask("b", 1, "p", 0.6) == Answer()
    limits.answered("b", 1, "p", 0.5)
    assert limits.ask("c", 1, "p", 0.6).refused
    assert limits.exhausted


def test_an_estimate_is_never_below_what_a_request_has_cost_before() -> None:
    limits = Limits(budget=1.0, clock=Clock())
    limits.ask("a", 1, "p", 0.1)
    limits.answered("a", 1, "p", 0.4)
    assert limits.ask("a", 2, "p", 0.1) == Answer()
    assert limits.reserved == 0.4
    assert limits.ask("b", 1, "p", 0.1).wait > 0


def test_an_unknown_cost_counts_as_what_was_reserved() -> None:
    limits = Limits(budget=1.0, clock=Clock())
    limits.ask("a", 1, "p", 0.3)
    limits.answered("a", 1, "p", None)
    limits.ask("b", 1, "p", 0.4)
    limits.gone("b")  # its process died while the provider answered
    assert round(limits.spent, 6) == 0.7


@given(
    st.lists(st.tuples(st.integers(0, 5), st.floats(0.01, 2.0), st.floats(0.0, 1.0)), max_size=60),
    st.floats(0.1, 10.0),
)
def test_no_order_of_requests_passes_the_budget(
    requests: list[tuple[int, float, float]], budget: float
) -> None:
    """Where no request costs more than it reserved."""
    limits = Limits(budget=budget, clock=Clock())
    flying: list[tuple[str, int, float]] = []
    for number, (which, reserve, share) in enumerate(requests):
        if limits.ask(str(which), number, "p", reserve) == Answer():
            flying.append((str(which), number, reserve * share))
        elif flying:
            task, done, cost = flying.pop(0)
            limits.answered(task, done, "p", cost)
        assert limits.spent + limits.reserved <= budget + 1e-9
