"""Asking again: when, how long after, and never showing a text twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coder.models.model import (
    CallReady,
    Chunk,
    Completed,
    ModelError,
    ReasoningDelta,
    Restarted,
    Retrying,
    TextDelta,
)
from coder.models.retry import RetryingModel
from coder.models.wires.chat_completions import ChatCompletions
from coder.protocol.messages import tool_call
from kit import Chaos, FakeModel, ask, collect, text_of


class Naps:
    """A sleep that only takes notes."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)


def broken(wait: float | None = None) -> ModelError:
    return ModelError("broke off", retryable=True, retry_after=wait)


def run(*answers: Sequence[Chunk | ModelError], max_attempts: int = 5) -> tuple[list[Chunk], Naps]:
    naps = Naps()
    model = RetryingModel(FakeModel(*answers), max_attempts=max_attempts, sleep=naps)
    return asyncio.run(collect(model)), naps


def seen(chunks: Sequence[Chunk], kind: type[TextDelta] | type[ReasoningDelta] = TextDelta) -> str:
    """The text that counts in the end: a restart voids what came before."""
    last = max((at for at, chunk in enumerate(chunks) if isinstance(chunk, Restarted)), default=-1)
    return text_of(chunks[last + 1 :], kind)


END = Completed("stop")


def test_waits_double_and_jitter() -> None:
    chunks, naps = run([broken()], [broken()], [broken()], [TextDelta("ok"), END])
    assert text_of(chunks) == "ok"
    assert [chunk.attempt for chunk in chunks if isinstance(chunk, Retrying)] == [1, 2, 3]
    assert [chunk.wait for chunk in chunks if isinstance(chunk, Retrying)] == naps.taken
    for nap, base in zip(naps.taken, [0.5, 1, 2], strict=True):
        assert 0.75 * base <= nap <= 1.25 * base


def test_attempts_are_bounded_and_the_error_says_so() -> None:
    naps = Naps()
    fake = FakeModel(*[[broken()]] * 9)
    with pytest.raises(ModelError, match="Gave up after 5 attempts"):
        asyncio.run(collect(RetryingModel(fake, sleep=naps)))
    assert len(fake.requests) == 5


@pytest.mark.parametrize("status", [429, 503, 529])
def test_a_busy_server_is_waited_for_for_a_minute(status: int) -> None:
    naps = Naps()

    async def go(url: str) -> None:
        model = RetryingModel(ChatCompletions(url, timeout_ms=5000), sleep=naps)
        try:
            await collect(model, ask())
        finally:
            await model.close()

    with Chaos([Chaos.failing(status)] * 9) as server:
        with pytest.raises(ModelError, match="Gave up after 8 attempts"):
            asyncio.run(go(server.url))
        assert len(server.chats) == 8
    assert sum(naps.taken) > 40
    assert max(naps.taken) <= 30 * 1.25


def test_an_address_that_never_answered_is_given_up_sooner() -> None:
    dead = ModelError("dead", kind="unreachable", retryable=True)
    fake = FakeModel(*[[dead]] * 9)
    with pytest.raises(ModelError, match="3 attempts"):
        asyncio.run(collect(RetryingModel(fake, sleep=Naps())))
    assert len(fake.requests) == 3


def test_a_server_asked_to_wait_for_is_waited_for_but_not_for_ever() -> None:
    _, naps = run([broken(wait=7.0)], [END])
    assert naps.taken == [7.0]
    with pytest.raises(ModelError, match="wait 10 minutes"):
        run([broken(wait=600.0)], [END])


def test_what_cannot_succeed_is_not_asked_again() -> None:
    with pytest.raises(ModelError, match="no quota"):
        run([ModelError("no quota", kind="quota")], [END])


def test_the_same_text_goes_on_where_it_broke() -> None:
    chunks, _ = run(
        [TextDelta("Hello "), TextDelta("wor"), broken()], [TextDelta("Hello world"), TextDelta("!"), END]
    )
    assert [chunk for chunk in chunks if not isinstance(chunk, Retrying)] == [
        TextDelta("Hello "),
        TextDelta("wor"),
        TextDelta("ld"),
        TextDelta("!"),
        END,
    ]


def test_another_text_restarts() -> None:
    chunks, _ = run([TextDelta("Hello wor"), broken()], [TextDelta("Hel"), TextDelta("p!"), END])
    assert chunks[2:] == [Restarted(), TextDelta("Hel"), TextDelta("p!"), END]


def test_a_shorter_text_restarts() -> None:
    chunks, _ = run([TextDelta("Hello world"), broken()], [TextDelta("Hello"), END])
    assert chunks[2:] == [Restarted(), TextDelta("Hello"), END]


def test_reasoning_is_not_shown_twice_either() -> None:
    chunks, _ = run([ReasoningDelta("hm"), broken()], [ReasoningDelta("hmm"), TextDelta("a"), END])
    assert text_of(chunks, ReasoningDelta) == "hmm"
    chunks, _ = run([ReasoningDelta("hm"), broken()], [ReasoningDelta("ah"), TextDelta("a"), END])
    assert chunks[2:] == [Restarted(), ReasoningDelta("ah"), TextDelta("a"), END]


def test_calls_given_before_a_break_become_void() -> None:
    call = CallReady(tool_call("1", "read", "{}"))
    chunks, _ = run([call, broken()], [call, END])
    assert chunks[2:] == [Restarted(), call, END]


@given(
    st.lists(st.tuples(st.text("ab", max_size=6), st.integers(1, 3)), min_size=1, max_size=4),
    st.text("ab", max_size=8),
)
def test_whatever_breaks_the_last_answer_is_what_counts(parts: list[tuple[str, int]], last: str) -> None:
    def cut(text: str, size: int) -> list[Chunk | ModelError]:
        return [TextDelta(text[at : at + size]) for at in range(0, len(text), size)]

    answers = [[*cut(text, size), broken()] for text, size in parts]
    chunks, _ = run(*answers, [*cut(last, 2), END])
    assert seen(chunks) == last
    assert chunks[-1] == END


def test_a_cancel_is_never_followed_by_another_request() -> None:
    fake = FakeModel([broken()], [END])

    async def cancelled_sleep(_: float) -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(collect(RetryingModel(fake, sleep=cancelled_sleep)))
    assert len(fake.requests) == 1


TEXT = "The quick brown fox, naïvely, jumps over the lazy dog. " * 3
FAULTS = [
    "reset",
    "half_head",
    "cut_text",
    "cut_call",
    "cut_character",
    "reset_text",
    "no_done",
    "length_short",
]


@pytest.mark.parametrize("fault", [*FAULTS, "error_midway", "429", "429 with wait", "503"])
def test_over_the_network_a_person_sees_one_whole_answer(fault: str) -> None:
    turn = {"text": TEXT, "calls": [{"name": "read", "arguments": {"path": "a" * 60}}]}
    bad = {"429": Chaos.limited(), "429 with wait": Chaos.limited("3"), "503": Chaos.failing()}
    naps = Naps()

    async def go(url: str) -> list[Chunk]:
        model = RetryingModel(ChatCompletions(url, timeout_ms=5000), sleep=naps)
        try:
            return await collect(model, ask())
        finally:
            await model.close()

    with Chaos([bad.get(fault, {**turn, "fault": fault}), turn]) as server:
        chunks = asyncio.run(go(server.url))
        assert len(server.chats) == 2
    assert text_of(chunks) == TEXT
    assert not any(isinstance(chunk, Restarted) for chunk in chunks)
    assert len([chunk for chunk in chunks if isinstance(chunk, CallReady)]) == 1
    assert len(naps.taken) == 1
    if fault == "429 with wait":
        assert naps.taken == [3.0]
