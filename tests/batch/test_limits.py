"""The limits as a state machine: rates, shared back-off, money that is reserved before it is spent."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coder.addons.batch.attempt import LocalEngine
from coder.addons.batch.channel import Ask, FromTask, Grew, Permit
from coder.addons.batch.inbox import MOST_WAITING, Inbox
from coder.addons.batch.limits import Answer, Gate, Limits
from coder.addons.batch.task import Secrets
from coder.config.providers import Provider
from coder.config.schema import Price
from coder.models.make import make_wire
from coder.models.model import Chunk, ModelError, ModelRequest, TextDelta
from coder.protocol.messages import Message, Usage
from coder.texts import Text
from kit import ScriptedServer


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


class Sent:
    """A task's channel: every question is answered with yes."""

    def __init__(self) -> None:
        self.messages: list[FromTask] = []

    def send(self, message: FromTask) -> None:
        self.messages.append(message)

    async def ask(self, question: Ask) -> Permit:
        self.messages.append(question)
        return Permit(question.number)


class Breaking:
    """A model whose answer breaks off."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        for text in request.extra["said"]:
            yield TextDelta(text)
        raise ModelError(Text("batch.budget_used_up"), kind="network")

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(("said", "spent"), [([], 0.0), (["a", "b"], 0.8)])
def test_an_answer_that_breaks_off_counts_as_what_was_reserved(said: list[str], spent: float) -> None:
    sent: Any = Sent()
    gate = Gate(sent, Provider("p", "http://p"), {"m": Price(input=0.0, output=100.0)}, lambda _seconds: None)
    request = ModelRequest("m", [], max_output_tokens=8000, extra={"said": said})

    async def read() -> None:
        async for _ in gate.around(Breaking()).stream(request):
            pass

    with pytest.raises(ModelError):
        asyncio.run(read())
    inbox = Inbox(Limits(budget=1.0, clock=Clock()))
    inbox.take("a", 1, sent.messages)
    assert round(inbox.limits.spent, 6) == spent
    assert inbox.limits.reserved == 0


def test_what_goes_into_the_providers_cache_counts() -> None:
    sent: Any = Sent()
    gate = Gate(sent, Provider("p", "http://p"), {"m": Price(input=100.0)}, lambda _seconds: None)
    gate.answered(1, "m", Usage(prompt=1_000_000, written=400_000))
    assert [message.cost for message in sent.messages] == [110.0]


def test_what_a_wire_sends_once_more_by_itself_is_a_request_too() -> None:
    """Without what a server has refused: it counts both."""
    sent: Any = Sent()
    gate = Gate(sent, Provider("p", "http://p"), {"m": Price(input=0.0, output=100.0)}, lambda _seconds: None)
    request = ModelRequest("m", [Message("user", "hi")], reasoning_effort="high", max_output_tokens=1000)
    refusal = {"status": 400, "body": {"error": {"message": "Unknown parameter: reasoning_effort"}}}
    usage = {"prompt_tokens": 10, "completion_tokens": 1000, "total_tokens": 1010}

    async def read(url: str) -> None:
        wire = make_wire("chat", url)
        async for _ in gate.around(wire).stream(request):
            pass
        await wire.close()

    with ScriptedServer([refusal, {"text": "hello", "usage": usage}]) as server:
        asyncio.run(read(server.url))
        assert [message.number for message in sent.messages if isinstance(message, Ask)] == [1, 2]
        assert len(server.chats) == 2
    inbox = Inbox(Limits({"p": 2}, clock=Clock()))
    inbox.take("a", 1, sent.messages)
    assert inbox.limits.ask("b", 1, "p", 0).wait == 60
    assert (round(inbox.limits.spent, 6), inbox.limits.reserved) == (0.1, 0)


def test_requests_that_wait_at_once_are_excused_once() -> None:
    class Pausing(Sent):
        async def ask(self, question: Ask) -> Permit:
            self.messages.append(question)
            return Permit(question.number, wait=0.2 if len(self.messages) <= 2 else 0.0)

    channel: Any = Pausing()
    excused: list[float] = []
    gate = Gate(channel, Provider("p", "http://p"), {}, excused.append)

    async def two() -> None:
        await asyncio.gather(gate.enter(ModelRequest("m", [])), gate.enter(ModelRequest("m", [])))

    asyncio.run(two())
    assert len(excused) == 2
    assert 0.2 <= sum(excused) < 0.4


def test_attempts_do_not_wait_for_a_driver_that_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    engine = LocalEngine("b", 1, Limits(clock=Clock()), Secrets())
    much = Grew("patch.diff", bytes(MOST_WAITING))
    attempt = threading.Thread(target=lambda: [engine._take("a", 1, [much]) for _ in range(2)], daemon=True)
    attempt.start()
    engine.close()
    attempt.join(30)
    assert not attempt.is_alive()
