"""The vendors' own SDKs: their request types take what we send, their clients read what our fakes send."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from coder.protocol.messages import Image, Message, tool_call, tool_message
from kit import Chaos, text_of
from kit.wire_exchange import CALLS, NATIVE, READ, TEXT, TURN, conversation, exchange, message_of, request_of

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
for _sdk in ("openai", "anthropic", "google.genai"):
    if importlib.util.find_spec(_sdk.partition(".")[0]) is None:
        pytest.skip(f"{_sdk} is not installed", allow_module_level=True)


def whole_of(value: Any) -> Any:
    """Plain data; pydantic validates iterables only while they are read."""
    if isinstance(value, dict):
        return {key: whole_of(one) for key, one in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [whole_of(one) for one in value]
    return value


def accepted(form: Any, sent: Any) -> None:
    """The type takes it, and knows every field of it."""
    from pydantic import TypeAdapter

    assert whole_of(TypeAdapter(form).validate_python(sent)) == sent


def bodies(wire: str) -> list[Any]:
    """Requests with everything in them: reasoning of its own, of another, images, calls that could not be
    read, settings."""
    (first,), _ = exchange(wire, [TURN])
    own = message_of(first)
    assert own.opaque is not None
    foreign = msgspec.structs.replace(own, opaque=msgspec.structs.replace(own.opaque, wire="other"))
    bad = Message(role="assistant", content="", tool_calls=[tool_call("x", "read", "{oops")])
    image = Image("image/png", "iVBORw0=")
    seen = [tool_message(call, "seen", [image]) for call in bad.tool_calls]
    more = [bad, *seen, Message(role="user", content="look", images=[image])]
    settings = {"tools": [READ], "reasoning_effort": "high", "max_output_tokens": 5000}
    with Chaos([{"text": "ok"}] * 3, wire=wire) as server:
        from coder.models.make import make_wire

        origin = make_wire(wire, server.url).origin  # type: ignore[arg-type]  # one of them
        mine = msgspec.structs.replace(own, opaque=msgspec.structs.replace(own.opaque, origin=origin))
        requests = [
            request_of(wire),
            request_of(wire, *conversation(mine), *more, **settings),
            request_of(wire, *conversation(foreign), *more, **settings),
        ]
        _, sent = exchange(wire, [], *requests, url=server.url)
        return [request.json for request in server.requests] or [request.json for request in sent]


@pytest.mark.thorough
def test_anthropic_takes_our_requests() -> None:
    from anthropic.types.message_create_params import MessageCreateParamsStreaming

    for body in bodies("messages"):
        accepted(MessageCreateParamsStreaming, body)


@pytest.mark.thorough
def test_openai_takes_our_requests() -> None:
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

    for body in bodies("responses"):
        accepted(ResponseCreateParamsStreaming, body)


def test_openai_takes_our_chats() -> None:
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

    image = Image("image/png", "iVBORw0=")
    answer = Message(role="assistant", content="", tool_calls=[tool_call("x", "read", "{}")])
    messages = [*conversation(answer)[:3], tool_message(answer.tool_calls[0], "seen", [image])]
    request = request_of("chat", *messages, tools=[READ], reasoning_effort="high", max_output_tokens=5)
    _, sent = exchange("chat", [{"text": "ok"}], request)
    body = sent[0].json
    assert [m["role"] for m in body["messages"]] == ["system", "user", "assistant", "tool", "user"]
    del body["messages"][3]["name"]  # of our own, which servers of other makes want
    accepted(CompletionCreateParamsStreaming, body)


@pytest.mark.thorough
def test_google_takes_our_requests() -> None:
    from google.genai import types

    for body in bodies("gemini"):
        for content in body["contents"]:
            types.Content.model_validate(content)
        for tool in body.get("tools", ()):
            types.Tool.model_validate(tool)
        if "systemInstruction" in body:
            types.Content.model_validate(body["systemInstruction"])
        types.GenerationConfig.model_validate(body["generationConfig"])
        assert set(body) <= {"contents", "tools", "systemInstruction", "generationConfig"}


SAID = {**TURN, "sources": [("A page", "https://a.example/x")]}


def test_anthropic_reads_our_fake() -> None:
    import anthropic

    with Chaos([SAID], wire="messages") as server:
        client = anthropic.Anthropic(base_url=server.url.removesuffix("/v1"), api_key="k", max_retries=0)
        asked: Any = [{"role": "user", "content": "go"}]
        with client.messages.stream(model="m", max_tokens=9, messages=asked) as stream:
            message = stream.get_final_message()
        client.close()
    kinds = [block.type for block in message.content]
    assert kinds == ["thinking", "text", "tool_use", "tool_use"]
    assert [block.input for block in message.content if block.type == "tool_use"] == [
        call["arguments"] for call in CALLS
    ]
    assert message.stop_reason == "tool_use"
    assert message.usage.cache_read_input_tokens == 5


@pytest.mark.thorough
def test_openai_reads_our_fake() -> None:
    import openai

    with Chaos([SAID], wire="responses") as server:
        client = openai.OpenAI(base_url=server.url, api_key="k", max_retries=0)
        with client.responses.stream(model="m", input="go", store=False) as stream:
            response = stream.get_final_response()
        client.close()
    assert [item.type for item in response.output] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
    ]
    assert response.output_text == TEXT
    assert response.usage is not None
    assert response.usage.input_tokens_details.cached_tokens == 5


def test_google_reads_our_fake() -> None:
    from google import genai
    from google.genai import types

    with Chaos([SAID], wire="gemini") as server:
        options = types.HttpOptions(base_url=server.url.removesuffix("/v1"), api_version="v1")
        client = genai.Client(api_key="k", http_options=options)
        chunks = list(client.models.generate_content_stream(model="m", contents="go"))
        client.close()
    parts = [part for chunk in chunks for part in (chunk.parts or [])]
    assert "".join(part.text or "" for part in parts if not part.thought) == TEXT
    calls = [part for part in parts if part.function_call]
    assert [part.function_call.args for part in calls if part.function_call] == [
        c["arguments"] for c in CALLS
    ]
    assert calls[0].thought_signature == b"SIGNED"
    usage = chunks[-1].usage_metadata
    assert usage is not None
    assert usage.cached_content_token_count == 5


@pytest.mark.parametrize("wire", NATIVE)
def test_we_read_the_same(wire: str) -> None:
    (chunks,), _ = exchange(wire, [SAID])
    assert text_of(chunks) == TEXT
