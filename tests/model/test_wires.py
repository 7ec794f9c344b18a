"""Every wire over real HTTP, whole and broken: the same turn of a script comes out the same."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any, ClassVar, cast

import msgspec
import pytest

from coder.models.make import Wire, make_wire
from coder.models.model import (
    CallReady,
    Chunk,
    CitationFound,
    Completed,
    ModelError,
    ReasoningDelta,
    Restarted,
)
from coder.protocol.messages import Usage
from kit import Chaos, chaos, collect, text_of
from kit.fakes import WIRES, stream_of
from kit.wire_exchange import CALLS, NATIVE, TEXT, TURN, calls_of, end_of, exchange, request_of

# answers


@pytest.mark.parametrize("wire", NATIVE)
def test_text_reasoning_parallel_calls_and_usage(wire: str) -> None:
    (chunks,), _ = exchange(wire, [TURN])
    assert text_of(chunks) == TEXT
    assert text_of(chunks, ReasoningDelta) == TURN["reasoning"]
    assert calls_of(chunks) == [("read", {"path": "ä" * 30}), ("read", {"path": "b"})]
    assert [chunk.call.id for chunk in chunks if isinstance(chunk, CallReady)] == ["call_one", "call_two"]
    end = end_of(chunks)
    assert end.finish_reason == "tool_calls"
    assert end.usage == Usage(10, 4, 14, 5, "provider", 2 if wire == "messages" else 0)
    assert end.model == "m"


@pytest.mark.parametrize(
    ("wire", "theirs", "ours"),
    [
        ("messages", "end_turn", "stop"),
        ("messages", "max_tokens", "length"),
        ("messages", "refusal", "content_filter"),
        ("messages", "model_context_window_exceeded", "length"),
        ("responses", None, "stop"),
        ("responses", "max_output_tokens", "length"),
        ("responses", "content_filter", "content_filter"),
        ("gemini", "STOP", "stop"),
        ("gemini", "MAX_TOKENS", "length"),
        ("gemini", "SAFETY", "content_filter"),
        ("gemini", "PROHIBITED_CONTENT", "content_filter"),
        ("gemini", "MALFORMED_FUNCTION_CALL", "malformed_function_call"),
    ],
)
def test_finish_reasons_in_the_words_of_the_engine(wire: str, theirs: str | None, ours: str) -> None:
    (chunks,), _ = exchange(wire, [{"text": "so", "finish": theirs}])
    assert end_of(chunks).finish_reason == ours


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("odd", [[], {}, [{"a": 1}], None, True, 10**30, "²²²"])
def test_no_value_of_a_stream_is_too_odd(wire: str, odd: Any) -> None:
    """Every number of the events is replaced: places and counts of tokens."""
    events = re.sub(rb'": ?\d+(?=[,}])', b'": ' + msgspec.json.encode(odd), b"".join(
        event for _, event in stream_of(wire, TURN)
    ))  # fmt: skip
    (chunks,), _ = exchange(
        wire, [{"body": events.decode(), "headers": {"Content-Type": "text/event-stream"}}]
    )
    usage = end_of(chunks).usage
    assert usage is None or usage.total < 10**9
    assert usage is None or not any(isinstance(n, bool) for n in msgspec.structs.astuple(usage))


@pytest.mark.parametrize("wire", WIRES)
def test_a_character_cut_apart_comes_whole(wire: str) -> None:
    """As servers in JavaScript cut it: half of a surrogate pair in each event."""
    said = "a😀b😀"
    call = {"name": "write", "arguments": {"content": said}, "id": "c"}
    whole = b"".join(event for _, event in stream_of(wire, {"text": said, "calls": [call], "chunk": 1}))
    events = whole.split(b"\n\n")
    halves = [
        half
        for event in events
        for half in (
            [event.replace("😀".encode(), half) for half in (rb"\ud83d", rb"\ude00")]
            if event.count("😀".encode()) == 1
            else [event]
        )
    ]
    assert len(halves) > len(events)
    body = b"\n\n".join(halves).decode()
    (chunks,), _ = exchange(wire, [{"body": body, "headers": {"Content-Type": "text/event-stream"}}])
    assert text_of(chunks) == said
    assert calls_of(chunks) == [("write", {"content": said})]


@pytest.mark.parametrize("wire", NATIVE)
def test_sources_are_citations(wire: str) -> None:
    (chunks,), _ = exchange(wire, [{"text": "so", "sources": [("A page", "https://a.example/x")]}])
    assert [c.text for c in chunks if isinstance(c, CitationFound)] == ["A page (https://a.example/x)"]


def test_a_blocked_prompt_is_a_filtered_answer() -> None:
    body = 'data: {"promptFeedback": {"blockReason": "SAFETY"}}\n\n'
    turn = {"body": body, "headers": {"Content-Type": "text/event-stream"}}
    (chunks,), _ = exchange("gemini", [turn])
    assert end_of(chunks).finish_reason == "content_filter"


@pytest.mark.parametrize("wire", NATIVE)
def test_a_server_that_does_not_stream(wire: str) -> None:
    answers: dict[str, Any] = {
        "messages": {
            "type": "message", "model": "m", "stop_reason": "tool_use", "usage": {"input_tokens": 1},
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "so"},
                {"type": "tool_use", "id": "c", "name": "read", "input": {"path": "x"}},
            ],
        },
        "responses": {
            "object": "response", "status": "completed", "model": "m",
            "output": [
                {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}]},
                {"type": "message", "content": [{"type": "output_text", "text": "so"}]},
                {"type": "function_call", "call_id": "c", "name": "read", "arguments": '{"path":"x"}'},
            ],
        },
        "gemini": {
            "candidates": [{
                "finishReason": "STOP",
                "content": {"parts": [
                    {"text": "hm", "thought": True},
                    {"text": "so"},
                    {"functionCall": {"name": "read", "args": {"path": "x"}}},
                ]},
            }],
        },
    }  # fmt: skip
    (chunks,), _ = exchange(wire, [{"body": answers[wire]}])
    assert (text_of(chunks), text_of(chunks, ReasoningDelta)) == ("so", "hm")
    assert calls_of(chunks) == [("read", {"path": "x"})]


# what goes wrong

WHOLE = ("garbage", "drip", "close_after")
BROKEN = (
    *("reset", "half_head", "cut_text", "cut_call", "cut_character", "reset_text", "no_done"),
    *("length_short", "error_midway"),
)


@pytest.mark.parametrize("wire", NATIVE)
@pytest.mark.parametrize("fault", WHOLE)
def test_ugly_but_whole_answers(wire: str, fault: str) -> None:
    (good,), _ = exchange(wire, [TURN])
    (ugly,), _ = exchange(wire, [{**TURN, "fault": fault}])
    assert text_of(ugly) == text_of(good)
    assert calls_of(ugly) == calls_of(good)
    assert end_of(ugly) == msgspec.structs.replace(end_of(good), opaque=end_of(ugly).opaque)


@pytest.mark.parametrize("wire", NATIVE)
@pytest.mark.parametrize("fault", [*BROKEN, "429", "503"])
def test_a_broken_answer_is_asked_for_again_and_seen_once(wire: str, fault: str) -> None:
    bad = {"429": Chaos.limited(), "503": Chaos.failing()}
    (chunks,), sent = exchange(wire, [bad.get(fault, {**TURN, "fault": fault}), TURN], retries=True)
    assert len(sent) == 2
    assert text_of(chunks) == TEXT
    assert calls_of(chunks) == [("read", {"path": "ä" * 30}), ("read", {"path": "b"})]
    assert not any(isinstance(chunk, Restarted) for chunk in chunks)


def test_no_fault_of_the_kit_is_left_out() -> None:
    assert chaos.__doc__ is not None
    named = re.findall(r"^ {4}(\w+) {2,}", chaos.__doc__, re.MULTILINE)
    assert set(named) == {*WHOLE, *BROKEN, "html", "silent"}


@pytest.mark.parametrize("wire", WIRES)
def test_a_server_that_falls_silent_is_not_waited_for_without_end(wire: str) -> None:
    async def run(url: str) -> None:
        model = make_wire(cast(Wire, wire), url, timeout_ms=50)
        try:
            await collect(model, request_of(wire))
        finally:
            await model.close()

    with Chaos([{**TURN, "fault": "silent"}], wire=wire) as server, pytest.raises(ModelError) as raised:
        asyncio.run(run(server.url))
    assert (raised.value.kind, raised.value.retryable) == ("timeout", True)


@pytest.mark.parametrize("wire", NATIVE)
def test_a_web_page_is_no_answer(wire: str) -> None:
    with pytest.raises(ModelError) as raised:
        exchange(wire, [{"fault": "html"}])
    assert raised.value.kind == "protocol"
    assert "Sign in" in str(raised.value)


@pytest.mark.parametrize(
    ("wire", "status", "error", "kind"),
    [
        ("messages", 401, {"type": "authentication_error", "message": "invalid x-api-key"}, "auth"),
        (
            "messages",
            400,
            {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"},
            "context",
        ),
        ("messages", 529, {"type": "overloaded_error", "message": "Overloaded"}, "server"),
        ("responses", 400, {"code": "context_length_exceeded", "message": "too much"}, "context"),
        ("gemini", 400, {"code": 400, "message": "API key not valid. Please pass a valid API key."}, "auth"),
        ("gemini", 400, {"code": 400, "message": "The input token count (9) exceeds the maximum"}, "context"),
    ],
)
def test_refusals(wire: str, status: int, error: dict[str, Any], kind: str) -> None:
    with pytest.raises(ModelError) as raised:
        exchange(wire, [{"status": status, "body": {"type": "error", "error": error}}])
    assert raised.value.kind == kind
    assert "sk-secret-key" not in str(raised.value)


def test_gemini_says_in_the_body_how_long_to_wait() -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17s"}]
    body = {"error": {"code": 429, "message": "slow down", "details": details}}
    with pytest.raises(ModelError) as raised:
        exchange("gemini", [{"status": 429, "body": body}])
    assert raised.value.retry_after == 17


class Cut:
    """An HTTP client whose server closes the connection in the middle of the body."""

    status, idle = 200, 1.0
    headers: ClassVar[dict[str, str]] = {}

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def request(self, *_: object) -> Cut:
        return self

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._body

    def release(self) -> None:
        pass

    abort = release

    async def close(self) -> None:
        pass


@pytest.mark.thorough
@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_cut_at_any_byte_is_whole_or_broken_never_another(wire: str) -> None:
    turn = {**TURN, "text": "Zwei Übergänge.", "chunk": 9, "calls": CALLS[:1]}
    marked = stream_of(wire, turn)
    whole = b"".join(event for _, event in marked)
    least = len(b"".join(event for kind, event in marked if kind != "end"))

    async def at_every_byte() -> list[tuple[list[Chunk], ModelError | None]]:
        return [await _cut(wire, whole[:at]) for at in range(1, len(whole) + 1)]

    *cut, (good, _) = asyncio.run(at_every_byte())
    for at, (chunks, error) in enumerate(cut, start=1):
        if error is None:
            assert at > least, at
            assert text_of(chunks) == text_of(good)
            assert calls_of(chunks) == calls_of(good)
            assert end_of(chunks).finish_reason == end_of(good).finish_reason
        else:
            assert error.retryable, (at, error)
            assert not [c for c in chunks if isinstance(c, CallReady | Completed)], at
            assert "Zwei Übergänge.".startswith(text_of(chunks)), at


async def _cut(wire: str, body: bytes) -> tuple[list[Chunk], ModelError | None]:
    model = make_wire(cast(Wire, wire), "http://127.0.0.1:1/v1")
    model._http = cast(Any, Cut(body))
    chunks: list[Chunk] = []
    try:
        async for chunk in model.stream(request_of(wire)):
            chunks += [chunk]
    except ModelError as error:
        return chunks, error
    return chunks, None
