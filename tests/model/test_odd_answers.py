"""Answers in forms that no API describes and that servers send: nothing is lost, and nothing comes twice."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from coder.models.make import make_wire
from coder.models.model import CallReady, ModelError
from coder.models.scripted import Recorded, http_head
from kit import Chaos, collect, text_of
from kit.fakes import stream_of
from kit.wire_exchange import CALLS, calls_of, end_of, exchange, request_of

READ_B = ("read", {"path": "b"})
ITEM = {"type": "function_call", "id": "fc1", "call_id": "c1", "name": "read", "arguments": '{"path":"b"}'}
REASONING = {"type": "reasoning", "id": "r", "summary": []}
MESSAGE = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Hello"}]}
DONE = "response.output_item.done"
GEMINI_CALL = {"parts": [{"functionCall": {"id": "a", "name": "read", "args": {"path": "b"}}}]}


def events(*data: Any, raw: str = "") -> dict[str, Any]:
    body = raw + "".join(f"data: {json.dumps(one)}\n\n" for one in data)
    return {"body": body, "headers": {"Content-Type": "text/event-stream"}}


def completed(*items: dict[str, Any]) -> dict[str, Any]:
    whole = {"object": "response", "status": "completed", "output": items}
    return {"type": "response.completed", "response": whole}


def delta(content: str, finish: str | None = None, **beside: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": finish, **beside}]}


@pytest.mark.parametrize(
    ("wire", "answer"),
    [
        ("responses", [{"type": DONE, "item": ITEM}, completed(ITEM)]),
        ("responses", [{"type": DONE, "output_index": 1, "item": ITEM}, completed(ITEM)]),
        (
            "responses",
            [
                {"type": DONE, "output_index": 0, "item": REASONING},
                {"type": DONE, "output_index": 1, "item": ITEM},
                completed(ITEM),
            ],
        ),
        (
            "gemini",
            [
                {"candidates": [{"content": GEMINI_CALL}]},
                {"candidates": [{"content": GEMINI_CALL, "finishReason": "STOP"}]},
            ],
        ),
    ],
)
def test_a_call_that_is_repeated_is_made_once(wire: str, answer: list[Any]) -> None:
    (chunks,), _ = exchange(wire, [events(*answer)])
    assert calls_of(chunks) == [READ_B]


@pytest.mark.parametrize(
    "beside", [{"output_index": 1, "item_id": "m"}, {"output_index": 0}, {"item_id": "m"}]
)
def test_a_text_that_is_repeated_is_said_once(beside: dict[str, Any]) -> None:
    said = {"type": "response.output_text.delta", "delta": "Hello", **beside}
    (chunks,), _ = exchange("responses", [events(said, completed(MESSAGE))])
    assert text_of(chunks) == "Hello"


@pytest.mark.parametrize(
    "answer",
    [
        events(
            delta(" you", "stop"), raw='data: {"choices":[{"delta":{"content":"hi"},"logprobs":NaN}]}\n\n'
        ),
        events(delta(" you", "stop"), raw='data: {"choices":[{"delta":{"content":"hi"}}],"n":1e999}\n\n'),
        events(raw=f"data:  {json.dumps(delta('hi you', 'stop'))}\n\n"),
        events(
            delta("hi"),
            delta(" you"),
            {"choices": [{"message": {"content": "hi you"}, "finish_reason": "stop"}]},
        ),
        events(delta(""), {"choices": [{"message": {"content": "hi you"}, "finish_reason": "stop"}]}),
    ],
    ids=["NaN", "out of range", "two blanks", "a whole message at the end", "only a whole message"],
)
def test_the_text_of_a_chat_is_whole(answer: dict[str, Any]) -> None:
    (chunks,), _ = exchange("chat", [answer])
    assert text_of(chunks) == "hi you"
    assert end_of(chunks).finish_reason == "stop"


def test_gemini_events_in_one_list() -> None:
    said = [{"content": {"parts": [{"text": text}]}} for text in ("hi", " you")]
    body = json.dumps([{"candidates": [said[0]]}, {"candidates": [{**said[1], "finishReason": "STOP"}]}])
    (chunks,), _ = exchange("gemini", [{"body": body}])
    assert text_of(chunks) == "hi you"


def test_two_calls_of_one_id_and_no_index_are_two() -> None:
    calls = [{"id": "c", "function": {"name": "read", "arguments": json.dumps({"path": p})}} for p in "ab"]
    end = {"choices": [{"delta": {"tool_calls": calls}, "finish_reason": "tool_calls"}]}
    (chunks,), _ = exchange("chat", [events(end)])
    assert calls_of(chunks) == [("read", {"path": "a"}), READ_B]


FILTERED = {
    "messages": "refusal",
    "chat": "content_filter",
    "responses": "content_filter",
    "gemini": "SAFETY",
}


@pytest.mark.parametrize("wire", FILTERED)
def test_calls_of_a_filtered_answer_are_not_run(wire: str) -> None:
    (chunks,), _ = exchange(wire, [{"calls": CALLS, "finish": FILTERED[wire]}])
    faults = [chunk.fault for chunk in chunks if isinstance(chunk, CallReady)]
    assert len(faults) == 2
    assert all("content filter" in fault for fault in faults)


class Pinging(Chaos):
    """After the finish reason it sends comments until it is left."""

    async def play(self, turn: Any, request: Recorded, writer: asyncio.StreamWriter) -> None:
        said = b"".join(event for kind, event in stream_of("chat", turn) if kind != "end")
        end = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n'
        writer.write(http_head(200, {"Content-Type": "text/event-stream"}) + said + end)
        while not writer.is_closing():
            writer.write(b": ping\n\n")
            await writer.drain()
            await asyncio.sleep(0.01)


def test_pings_after_the_end_are_not_listened_to_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coder.models.wires.wire._PATIENCE_AFTER_END", 0.1)

    async def run(url: str) -> str:
        model = make_wire("chat", url)
        try:
            return text_of(await collect(model, request_of("chat")))
        finally:
            await model.close()

    with Pinging([{"text": "done"}]) as server:
        assert asyncio.run(run(server.url)) == "done"


@pytest.mark.parametrize(
    "answer",
    [{"text": "x" * 300}, {"reasoning": "x" * 300}, {"calls": [{"name": "read", "arguments": {}}] * 9}],
)
def test_an_answer_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any]) -> None:
    monkeypatch.setattr("coder.models.wires.wire._ANSWER_LIMIT", 200)
    monkeypatch.setattr("coder.models.wires.wire._MOST_CALLS", 8)
    with pytest.raises(ModelError) as raised:
        exchange("messages", [answer])
    assert (raised.value.kind, raised.value.retryable) == ("protocol", False)
    assert "was cut off" in str(raised.value)
