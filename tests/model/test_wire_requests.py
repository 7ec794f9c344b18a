"""What each wire sends: the conversation in the form of its API, with the reasoning that is its own."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, cast

import msgspec
import pytest

from coder.models.arguments import plain_id
from coder.models.make import Wire, make_wire
from coder.models.model import Adapted
from coder.protocol.messages import Image, Message, Usage, tool_call, tool_message
from kit import Chaos, Recorded, collect, text_of
from kit.fakes import stream_of
from kit.wire_exchange import (
    NATIVE,
    READ,
    TEXT,
    TURN,
    conversation,
    end_of,
    exchange,
    exchange_at_origin,
    message_of,
    request_of,
)


def reasoning_in(wire: str, body: Any) -> list[Any]:
    """What a request carries of earlier reasoning."""
    if wire == "responses":
        return [item for item in body["input"] if item["type"] == "reasoning"]
    if wire == "messages":
        blocks = [block for message in body["messages"] for block in message["content"]]
        return [block for block in blocks if block["type"] == "thinking"]
    parts = [part for content in body["contents"] for part in content["parts"]]
    return [part["thoughtSignature"] for part in parts if "thoughtSignature" in part]


REASONING: dict[str, Any] = {
    "messages": [{"type": "thinking", "thinking": TURN["reasoning"], "signature": "U0lHTkVE"}],
    "responses": [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": TURN["reasoning"]}],
            "encrypted_content": "U0lHTkVE",
        }
    ],
    "gemini": ["U0lHTkVE"],
}


@pytest.mark.parametrize("wire", NATIVE)
def test_reasoning_goes_back_as_it_came(wire: str) -> None:
    (first,), _ = exchange(wire, [TURN])
    answer = message_of(first)
    kept = msgspec.json.decode(msgspec.json.encode(answer), type=Message)  # as the record keeps it
    assert kept == answer
    _, sent = exchange_at_origin(wire, kept)
    assert reasoning_in(wire, sent[0].json) == REASONING[wire]


@pytest.mark.parametrize("wire", NATIVE)
@pytest.mark.parametrize("other", ["wire", "origin", "model"])
def test_foreign_reasoning_is_left_out(wire: str, other: str) -> None:
    (first,), _ = exchange(wire, [TURN])
    answer = message_of(first)
    assert answer.opaque is not None
    foreign = msgspec.structs.replace(answer.opaque, **{other: "another"})
    answer = msgspec.structs.replace(answer, opaque=foreign)
    _, sent = exchange(wire, [{"text": "ok"}], request_of(wire, *conversation(answer), tools=[READ]))
    body = sent[0].json
    # calls that another model made are refused by Gemini without any signature
    assert reasoning_in(wire, body) == (["skip_thought_signature_validator"] if wire == "gemini" else [])
    assert TEXT in json.dumps(body, ensure_ascii=False)
    assert "call_one" in json.dumps(body) or wire == "gemini"


def test_parts_keep_their_order() -> None:
    """Text before and after thinking, as with interleaved thinking."""
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": "First."},
        {"type": "thinking", "thinking": "hm", "signature": "s1"},
        {"type": "text", "text": "Then."},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "x"}},
    ]
    whole = {"type": "message", "model": "m", "stop_reason": "tool_use", "content": blocks}
    (first,), _ = exchange("messages", [{"body": whole}])
    _, sent = exchange_at_origin("messages", message_of(first))
    assert sent[0].json["messages"][1]["content"] == blocks


def test_messages_request() -> None:
    answer = Message(
        role="assistant",
        content="",
        tool_calls=[tool_call("c:1", "read", '{"path":"x"}'), tool_call("c2", "read", "{oops")],
    )
    image = Image("image/png", "iVBORw0=")
    messages = [
        *conversation(answer),
        Message(role="user", content="and this?", images=[image]),
    ]
    request = request_of("messages", *messages, tools=[READ], reasoning_effort="high", prompt_id="p-1")
    _, sent = exchange("messages", [{"text": "ok"}], request)
    assert sent[0].path == "/v1/messages"
    assert sent[0].headers["x-api-key"] == "sk-secret-key"
    assert sent[0].headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in sent[0].headers
    body = sent[0].json
    mark = {"type": "ephemeral"}
    assert body["system"] == [{"type": "text", "text": "be good", "cache_control": mark}]
    assert body["tools"] == [
        {
            "name": "read",
            "description": "reads",
            "input_schema": READ.function.parameters,
            "cache_control": mark,
        }
    ]
    assert body["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert body["output_config"] == {"effort": "high"}
    user, calls, results, last = body["messages"]
    assert user["content"] == [{"type": "text", "text": "go", "cache_control": mark}]
    assert [block["id"] for block in calls["content"]] == [plain_id("c:1"), "c2"]
    assert calls["content"][1]["input"] == {"unreadable_arguments": "{oops"}
    assert [block["tool_use_id"] for block in results["content"]] == [plain_id("c:1"), "c2"]
    assert last["content"][0]["source"] == {"type": "base64", "media_type": "image/png", "data": "iVBORw0="}
    assert last["content"][1] == {"type": "text", "text": "and this?", "cache_control": mark}
    assert json.dumps(body).count("cache_control") == 4


def test_blank_text_and_thinking_that_led_to_nothing_are_not_sent_to_claude() -> None:
    """Both are refused, and with them every later request of the conversation."""
    call = {"name": "read", "arguments": {"path": "x"}, "id": "c"}
    for turn, kinds in (
        ({"text": "\n\n", "calls": [call]}, ["tool_use"]),
        ({"text": "\n\n", "reasoning": "hm", "calls": [call]}, ["thinking", "tool_use"]),
        ({"text": "\n", "reasoning": "hm"}, None),
    ):
        (first,), _ = exchange("messages", [turn])
        answer = message_of(first)
        again = [*conversation(answer), Message(role="user", content="go on")]
        if answer.opaque is None:
            _, sent = exchange("messages", [{"text": "ok"}], request_of("messages", *again))
        else:
            _, sent = exchange_at_origin("messages", answer)
        answers = [m["content"] for m in sent[0].json["messages"] if m["role"] == "assistant"]
        assert [[block["type"] for block in content] for content in answers] == ([kinds] if kinds else [])


def test_a_block_of_no_type_is_none() -> None:
    odd = 'data: {"type":"content_block_start","index":9,"content_block":{"data":"x"}}\n\n'
    events = b"".join(event for _, event in stream_of("messages", {"text": "so", "reasoning": "hm"}))
    (first,), _ = exchange("messages", [{"body": odd + events.decode()}])
    _, sent = exchange_at_origin("messages", message_of(first))
    assert [block["type"] for block in sent[0].json["messages"][1]["content"]] == ["thinking", "text"]


@pytest.mark.parametrize("wire", ["responses", "messages"])
def test_odd_ids_stay_different_and_short(wire: str) -> None:
    ids = ["a.b", "a:b", "a_b", "x" * 64, "x" * 65, "x" * 66]
    calls = [tool_call(one, "n" * 300, "{}") for one in ids]
    answer = Message(role="assistant", content="", tool_calls=calls)
    _, sent = exchange(wire, [{"text": "ok"}], request_of(wire, *conversation(answer)))
    if wire == "responses":
        items = sent[0].json["input"]
        asked = [item for item in items if item["type"] == "function_call"]
        got = [item["call_id"] for item in asked]
        answered = [item["call_id"] for item in items if item["type"] == "function_call_output"]
    else:
        _, calls_sent, results = sent[0].json["messages"]
        asked = calls_sent["content"]
        got = [block["id"] for block in asked]
        answered = [block["tool_use_id"] for block in results["content"]]
    assert got == answered
    assert len(set(got)) == len(ids)
    assert [got[2], got[3]] == [ids[2], ids[3]]
    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", one) for one in got)
    assert {call["name"] for call in asked} == {"n" * 64}


def test_what_servers_refuse_in_a_chat_is_not_sent() -> None:
    """An answer that says nothing, and a made-up name: each would spoil every later request."""
    call = tool_call("c1", "multi_tool_use.parallel", "{}")
    messages = [
        Message(role="user", content="go"),
        Message(role="assistant", content="\n"),
        Message(role="user", content="Please continue."),
        Message(role="assistant", content="", tool_calls=[call]),
        tool_message(call, "no such tool"),
    ]
    _, requests = exchange("chat", [{"text": "ok"}], request_of("chat", *messages))
    sent = requests[0].json["messages"]
    assert [message["role"] for message in sent] == ["user", "user", "assistant", "tool"]
    assert sent[2]["tool_calls"][0]["function"]["name"] == "multi_tool_use_parallel" == sent[3]["name"]


@pytest.mark.parametrize(
    "message",
    [
        "Tool call id was call_7 but must be a-z, A-Z, 0-9, with a length of 9.",
        "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a maximum length of 40.",
        "Invalid 'messages[3].tool_call_id': string too long.",
    ],
)
def test_ids_of_a_chat_are_shortened_once_they_are_refused(message: str) -> None:
    calls = [tool_call("call_7", "read", "{}"), tool_call("Ab3456789", "read", "{}")]
    answer = Message(role="assistant", content="", tool_calls=calls)
    request = request_of("chat", *conversation(answer))
    refusal = {"status": 400, "body": {"error": {"message": message}}}
    _, requests = exchange("chat", [refusal, {"text": "a"}, {"text": "b"}], request, request)
    first, *others = (one.json["messages"] for one in requests)
    assert [call["id"] for call in first[2]["tool_calls"]] == ["call_7", "Ab3456789"]
    assert len(others) == 2
    for sent in others:
        short, kept = (call["id"] for call in sent[2]["tool_calls"])
        assert re.fullmatch("[a-zA-Z0-9]{9}", short)
        assert kept == "Ab3456789"
        assert [result["tool_call_id"] for result in sent[3:]] == [short, kept]


def test_a_paused_turn_goes_on_by_itself() -> None:
    paused = {"text": "Searching", "reasoning": "hm", "finish": "pause_turn"}
    (chunks,), sent = exchange("messages", [paused, {"text": ", found it.", "reasoning": "so"}])
    assert text_of(chunks) == "Searching, found it."
    assert end_of(chunks).finish_reason == "stop"
    assert end_of(chunks).usage == Usage(20, 8, 28, 10, written=4)
    assert [m["role"] for m in sent[1].json["messages"]] == ["user", "assistant"]
    assert sent[1].json["messages"][1]["content"][0]["type"] == "thinking"
    opaque = end_of(chunks).opaque
    assert opaque is not None
    assert [part.text for part in opaque.parts] == [0, 9, 0, 11]


@pytest.mark.parametrize(
    ("wire", "message", "name", "value"),
    [
        ("messages", "max_tokens: 32000 > 8192, which is the maximum allowed", "max_tokens", 8192),
        ("messages", "adaptive thinking is not supported on this model", "thinking", None),
        ("messages", "This model does not support the effort parameter.", "output_config", None),
        ("responses", "Unsupported parameter: 'reasoning.effort'", "reasoning", {"summary": "auto"}),
        ("responses", "must be verified to generate reasoning summaries", "reasoning", {"effort": "low"}),
        ("responses", "Encrypted content is not supported with this model.", "include", None),
        ("gemini", "Thinking level is not supported for this model.", "generationConfig",
         {"thinkingConfig": {"includeThoughts": True}}),
        ("gemini", "Thinking is not enabled for this model", "generationConfig", None),
        ("chat", "Unsupported parameter: max_completion_tokens", "max_tokens", 99),
        ("chat", "'reasoning_effort' is not supported with this model.", "reasoning_effort", None),
        ("chat", '"qwen3-coder" does not support thinking', "reasoning_effort", None),
    ],
)  # fmt: skip
def test_what_a_model_refuses_is_left_out_from_then_on(
    wire: str, message: str, name: str, value: object
) -> None:
    refusal = {"status": 400, "body": {"error": {"type": "invalid_request_error", "message": message}}}
    limit = {"max_output_tokens": 99} if wire == "chat" else {}
    request = request_of(wire, reasoning_effort="low", **limit)
    _, sent = exchange(wire, [refusal, {"text": "ok"}, {"text": "ok"}], request, request)
    assert sent[0].json.get(name) != value
    assert [one.json.get(name) for one in sent[1:]] == [value, value]


REFUSED_EFFORTS = {
    "chat": "Unsupported parameter: 'reasoning_effort'",
    "responses": "Invalid value: 'max'. (reasoning.effort)",
    "messages": "This model does not support the effort parameter.",
    "gemini": "Thinking level is not supported for this model.",
}


@pytest.mark.parametrize("wire", REFUSED_EFFORTS)
def test_a_refused_effort_is_told_once(wire: str) -> None:
    refusal = {"status": 400, "body": {"error": {"message": REFUSED_EFFORTS[wire]}}}
    request = request_of(wire, reasoning_effort="max")
    answers, _ = exchange(wire, [refusal, {"text": "ok"}, {"text": "ok"}], request, request)
    told = [[chunk.phrase.key for chunk in chunks if isinstance(chunk, Adapted)] for chunks in answers]
    assert told == [["model.no_effort"], []]


LISTED = {
    "chat": "Unsupported value: 'minimal' is not supported with this model. Supported values are: 'none', "
    "'low', 'medium', 'high', and 'xhigh'. (reasoning_effort)",
    "responses": "Unsupported value: 'minimal' is not supported with the 'gpt-5.5' model. Supported values "
    "are: 'none', 'low', 'medium', 'high', and 'xhigh'. (reasoning.effort)",
    "messages": "output_config.effort: Input should be 'low', 'medium', 'high' or 'max'",
}


@pytest.mark.parametrize(
    ("wire", "efforts", "sent"),
    [
        ("chat", ["minimal", "max", "medium", "none"], ["low", "xhigh", "medium", "none"]),
        ("responses", ["minimal", "max", "medium", "none"], ["low", "xhigh", "medium", "none"]),
        ("messages", ["xhigh", "max", "low", "none"], ["high", "max", "low", None]),
    ],
)
def test_instead_of_a_refused_effort_the_nearest_is_sent(
    wire: str, efforts: list[str], sent: list[str | None]
) -> None:
    def effort(body: dict[str, Any]) -> Any:
        about = body.get("reasoning") or body.get("output_config") or {}
        return body.get("reasoning_effort") or about.get("effort")

    refusal = {"status": 400, "body": {"error": {"message": LISTED[wire]}}}
    asked = [request_of(wire, reasoning_effort=one) for one in efforts]
    answers, requests = exchange(wire, [refusal, *[{"text": "ok"}] * 4], *asked)
    assert [effort(one.json) for one in requests] == [efforts[0], *sent]
    told = [[chunk.phrase for chunk in chunks if isinstance(chunk, Adapted)] for chunks in answers]
    assert [[(one.key, one.values["other"]) for one in each] for each in told] == [
        [("model.other_effort", sent[0])], [], [], []
    ]  # fmt: skip


def test_gemini_without_its_lowest_level_gets_the_next() -> None:
    refusal = {"status": 400, "body": {"error": {"message": "Thinking level MINIMAL is not supported."}}}
    asked = [request_of("gemini", reasoning_effort=one) for one in ("none", "minimal", "medium")]
    _, sent = exchange("gemini", [refusal, *[{"text": "ok"}] * 3], *asked)
    levels = [one.json["generationConfig"]["thinkingConfig"]["thinkingLevel"] for one in sent]
    assert levels == ["minimal", "low", "low", "medium"]


REFUSED_SIGNATURES = {
    "messages": "messages.1.content.0: Invalid `signature` in `thinking` block",
    "responses": "The encrypted content gAAA could not be verified.",
    "gemini": "Thought signature is not valid",
}


@pytest.mark.parametrize("wire", NATIVE)
def test_reasoning_that_is_refused_is_left_out_from_then_on(wire: str) -> None:
    """As after a change of the account."""
    (first,), _ = exchange(wire, [TURN])
    refusal = {"status": 400, "body": {"error": {"message": REFUSED_SIGNATURES[wire]}}}
    _, sent = exchange_at_origin(wire, message_of(first), [refusal, {"text": "a"}, {"text": "b"}], times=2)
    assert ["U0lHTkVE" in json.dumps(one.json) for one in sent] == [True, False, False]


def test_a_model_that_wants_its_reasoning_back_gets_it() -> None:
    message = "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2"
    refusal = {"status": 400, "body": {"error": {"message": message}}}
    calls = [tool_call("call_7", "read", "{}")]
    answer = Message(role="assistant", content="", tool_calls=calls, reasoning="I look.")
    silent = Message(role="assistant", content="So.")
    request = request_of("chat", *conversation(answer), silent)
    _, sent = exchange("chat", [refusal, {"text": "a"}, {"text": "b"}], request, request)
    answers = [[m for m in one.json["messages"] if m["role"] == "assistant"] for one in sent]
    assert [[m.get("reasoning_content") for m in one] for one in answers] == [
        [None, None],
        *[["I look.", " "]] * 2,
    ]
    assert answers[1][0]["tool_calls"] == answers[0][0]["tool_calls"]


def test_responses_request() -> None:
    answer = Message(role="assistant", content="So.", tool_calls=[tool_call("c1", "read", '{"path":"x"}')])
    image = Image("image/png", "iVBORw0=")
    seen = msgspec.structs.replace(tool_message(answer.tool_calls[0], "an image"), images=[image])
    messages = [*conversation(answer)[:3], seen]
    request = request_of("responses", *messages, tools=[READ], max_output_tokens=77)
    _, sent = exchange("responses", [{"text": "ok"}], request)
    assert sent[0].path == "/v1/responses"
    body = sent[0].json
    assert body["store"] is False
    assert body["include"] == ["reasoning.encrypted_content"]
    assert body["reasoning"] == {"summary": "auto"}
    assert body["instructions"] == "be good"
    assert body["max_output_tokens"] == 77
    assert body["tools"][0] == {
        "type": "function",
        "name": "read",
        "description": "reads",
        "parameters": READ.function.parameters,
        "strict": False,
    }
    assert body["input"] == [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
        {"type": "message", "role": "assistant", "content": "So."},
        {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"path":"x"}'},
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": [
                {"type": "input_text", "text": "an image"},
                {"type": "input_image", "image_url": image.url, "detail": "auto"},
            ],
        },
    ]


def test_a_model_that_does_not_reason_is_not_asked_to() -> None:
    request = msgspec.structs.replace(request_of("responses"), model="gpt-4.1")
    _, sent = exchange("responses", [{"text": "ok"}], request)
    assert not {"include", "reasoning"} & set(sent[0].json)


def test_gemini_request() -> None:
    (first,), _ = exchange("gemini", [TURN])
    _, sent = exchange_at_origin("gemini", message_of(first))
    assert sent[0].path == "/v1/models/gemini-3-pro:streamGenerateContent?alt=sse"
    body = sent[0].json
    assert body["systemInstruction"] == {"parts": [{"text": "be good"}]}
    declared = body["tools"][0]["functionDeclarations"][0]
    assert declared["parametersJsonSchema"] == READ.function.parameters
    assert [content["role"] for content in body["contents"]] == ["user", "model", "user"]
    text, one, two = body["contents"][1]["parts"]
    assert text == {"text": TEXT}
    assert one["functionCall"] == {"id": "call_one", "name": "read", "args": {"path": "ä" * 30}}
    assert "thoughtSignature" not in two
    assert body["contents"][2]["parts"][0] == {
        "functionResponse": {"id": "call_one", "name": "read", "response": {"output": "result 0"}}
    }


@pytest.mark.parametrize(
    ("wire", "base", "path"),
    [
        ("messages", "/v1", "/v1/messages"),
        ("messages", "", "/v1/messages"),
        ("messages", "/api/anthropic", "/api/anthropic/v1/messages"),
        ("messages", "/v1/messages", "/v1/messages"),
        ("messages", "/v1/chat/completions", "/v1/messages"),
        ("chat", "/v1/messages", "/v1/chat/completions"),
        ("responses", "/v1/chat/completions", "/v1/responses"),
        ("gemini", "/v1beta/chat/completions", "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse"),
        ("responses", "", "/v1/responses"),
        ("responses", "/openai/v1", "/openai/v1/responses"),
        ("gemini", "", "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse"),
        ("gemini", "/v1beta/openai", "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse"),
        ("chat", "/openai/deployments/d?api-version=2024-10-21",
         "/openai/deployments/d/chat/completions?api-version=2024-10-21"),
        ("chat", "?api-version=2024-10-21", "/openai/deployments/m/chat/completions?api-version=2024-10-21"),
    ],
)  # fmt: skip
def test_addresses(wire: str, base: str, path: str) -> None:
    with Chaos([{"text": "ok"}], wire=wire) as server:

        async def run() -> None:
            model = make_wire(cast(Wire, wire), server.url.removesuffix("/v1") + base, "sk-secret-key")
            await collect(model, request_of(wire))
            await model.close()

        asyncio.run(run())
        sent = server.requests[0]
    assert sent.path == path
    assert ("api-key" in sent.headers) == ("api-version" in base)
    assert sent.headers.get("api-key", "sk-secret-key") == "sk-secret-key"


@pytest.mark.parametrize("wire", NATIVE)
def test_the_models_of_a_server(wire: str) -> None:
    listed: dict[str, Any] = {"data": [{"id": "one"}, {"id": "two"}]}
    if wire == "gemini":
        names = [
            ("models/one", ["generateContent"]),
            ("models/two", ["generateContent"]),
            ("models/e", ["embed"]),
        ]
        listed = {"models": [{"name": n, "supportedGenerationMethods": m} for n, m in names]}

    class Lists(Chaos):
        async def answer(self, request: Recorded, writer: asyncio.StreamWriter) -> None:
            await self.play({"body": listed}, request, writer)

    async def run(url: str) -> list[str]:
        model = make_wire(cast(Wire, wire), url)
        try:
            return await model.list_models()
        finally:
            await model.close()

    with Lists(wire=wire) as server:
        assert asyncio.run(run(server.url)) == ["one", "two"]
        assert server.requests[0].path.partition("?")[0] == "/v1/models"
