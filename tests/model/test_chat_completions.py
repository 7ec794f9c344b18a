"""The Chat Completions wire over real HTTP: what is sent, and what every kind of server answers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from coder.models.model import (
    CallDelta,
    CallReady,
    Chunk,
    CitationFound,
    Completed,
    ModelError,
    ModelRequest,
    Progress,
    ReasoningDelta,
    TextDelta,
)
from coder.models.wires.chat_completions import ChatCompletions
from coder.protocol.messages import FunctionSpec, Message, ToolSpec, Usage, tool_call
from kit import Chaos, ScriptedServer, ask, collect, text_of
from kit.wire_exchange import calls_of

READ = ToolSpec(FunctionSpec("read", "reads", {"type": "object", "properties": {"path": {"type": "string"}}}))


def collect_from(
    server: ScriptedServer,
    request: ModelRequest | None = None,
    *,
    times: int = 1,
    url: str = "",
    key: str = "sk-secret-key",
    headers: dict[str, str] | None = None,
) -> list[Chunk]:
    async def run() -> list[Chunk]:
        model = ChatCompletions(url or server.url, key, headers, 5000)
        try:
            return [chunk for _ in range(times) for chunk in await collect(model, request)]
        finally:
            await model.close()

    return asyncio.run(run())


def played(*deltas: dict[str, Any], finish: str = "stop", **beside: Any) -> dict[str, Any]:
    """A turn that streams these deltas as they are."""
    lines: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    lines.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], **beside})
    body = "".join(f"data: {json.dumps(line)}\n\n" for line in lines) + "data: [DONE]\n\n"
    return {"body": body, "headers": {"Content-Type": "text/event-stream"}}


def answer(*deltas: dict[str, Any], finish: str = "stop", **beside: Any) -> list[Chunk]:
    with ScriptedServer([played(*deltas, finish=finish, **beside)]) as server:
        return collect_from(server)


# what is sent


def test_the_request() -> None:
    request = ModelRequest(
        model="some-model",
        messages=[
            Message(role="system", content="be good"),
            Message(role="user", content="read x"),
            Message(
                role="assistant",
                content="",
                tool_calls=[tool_call("c1", "read", '{"path":"x"}'), tool_call("c2", "read", "{oops")],
                reasoning="private",
            ),
            Message(role="tool", content="data", tool_call_id="c1", name="read"),
        ],
        tools=[READ],
        reasoning_effort="high",
        prompt_id="p-17",
    )
    with ScriptedServer([{"text": "ok"}]) as server:
        collect_from(server, request, headers={"X-Extra": "1"})
        sent = server.requests[0]
    assert sent.path == "/v1/chat/completions"
    assert sent.headers["authorization"] == "Bearer sk-secret-key"
    assert sent.headers["user-agent"].startswith("coder/")
    assert sent.headers["x-client-request-id"] == "p-17"
    assert sent.headers["x-extra"] == "1"
    body = sent.json
    assert body["model"] == "some-model"
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    assert body["reasoning_effort"] == "high"
    assert body["tools"] == [msgspec.to_builtins(READ)]
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "tool"]
    assert "reasoning" not in body["messages"][2]
    calls = body["messages"][2]["tool_calls"]
    assert calls[0]["function"]["arguments"] == '{"path":"x"}'
    # Servers that parse the arguments of earlier calls must not choke on one that was refused.
    assert json.loads(calls[1]["function"]["arguments"]) == {"unreadable_arguments": "{oops"}
    assert body["messages"][3] == {"role": "tool", "content": "data", "tool_call_id": "c1", "name": "read"}


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ('{"command": "make", "timeout": 12', {"command": "make", "timeout": 12}),
        ('{"path": "a', {"unreadable_arguments": '{"path": "a'}),
    ],
)
def test_a_refused_call_is_sent_back_as_it_was_written_where_only_brackets_lack(
    written: str, sent: dict[str, object]
) -> None:
    message = Message(role="assistant", content="", tool_calls=[tool_call("c1", "bash", written)])
    refusal = Message(role="tool", content="error", tool_call_id="c1", name="bash")
    with ScriptedServer([{"text": "ok"}]) as server:
        asked = Message(role="user", content="go")
        collect_from(server, ModelRequest(model="some-model", messages=[asked, message, refusal]))
        back = server.requests[0].json["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(back) == sent


def test_what_is_not_set_is_not_sent() -> None:
    with ScriptedServer([{"text": "ok"}]) as server:
        collect_from(server, key="")
        sent = server.requests[0]
    assert "authorization" not in sent.headers
    assert not {"tools", "reasoning_effort", "temperature"} & set(sent.json)


@pytest.mark.parametrize("tail", ["/v1", "/v1/", "", "/", "/v1/chat/completions", "/v1/chat/completions/"])
def test_base_urls(tail: str) -> None:
    with ScriptedServer([{"text": "ok"}]) as server:
        assert text_of(collect_from(server, url=server.url.removesuffix("/v1") + tail)) == "ok"
        assert server.requests[0].path == "/v1/chat/completions"


def test_a_bare_host_without_v1_is_found_and_remembered() -> None:
    not_found = {"status": 404, "body": "not here"}
    with ScriptedServer([not_found, {"text": "ok"}, {"text": "ok"}]) as server:
        collect_from(server, url=server.url.removesuffix("/v1"), times=2)
        paths = [request.path for request in server.requests]
    assert paths == ["/v1/chat/completions", "/chat/completions", "/chat/completions"]


def test_a_query_in_the_base_url_stays_a_query() -> None:
    with ScriptedServer([{"text": "ok"}]) as server:
        collect_from(server, url=server.url + "/deploy?api-version=3")
        assert server.requests[0].path == "/v1/deploy/chat/completions?api-version=3"


def test_stream_options_are_left_out_once_refused() -> None:
    refusal = {"status": 400, "body": {"error": {"message": "Unknown parameter: stream_options"}}}
    with ScriptedServer([refusal, {"text": "a"}, {"text": "b"}]) as server:
        assert text_of(collect_from(server, times=2)) == "ab"
        assert ["stream_options" in chat for chat in server.chats] == [True, False, False]


def test_one_connection_serves_a_conversation() -> None:
    class Counting(ScriptedServer):
        connections = 0

        async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.connections += 1
            await super()._serve(reader, writer)

    with Counting() as server:
        collect_from(server, times=3)
        assert len(server.requests) == 3
        assert server.connections == 1


# what is answered


def test_text_reasoning_usage_and_model() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 5}}
    with ScriptedServer([{"text": "Grüße 😀", "reasoning": "hmm", "chunk": 2, "usage": usage}]) as server:
        chunks = collect_from(server)
    assert text_of(chunks) == "Grüße 😀"
    assert text_of(chunks, ReasoningDelta) == "hmm"
    expected = Usage(prompt=7, completion=2, total=9, cached=5, source="provider")
    assert chunks[-1] == Completed(finish_reason="stop", usage=expected, model="m")


@pytest.mark.parametrize(
    ("delta", "thought"),
    [
        ({"reasoning_content": "why"}, "why"),
        ({"reasoning": "why"}, "why"),
        ({"reasoning_details": [{"type": "reasoning.text", "text": "why"}]}, "why"),
        ({"reasoning": "why", "reasoning_details": [{"text": "why"}]}, "why"),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "why"}]}]}, "why"),
    ],
)
def test_names_of_reasoning(delta: dict[str, Any], thought: str) -> None:
    assert text_of(answer(delta), ReasoningDelta) == thought


@pytest.mark.parametrize(
    ("usage", "cached"),
    [
        ({"prompt_cache_hit_tokens": 3}, 3),
        ({"prompt_tokens_details": {"cached_tokens": 4}}, 4),
        ({"prompt_tokens_details": None}, 0),
    ],
)
def test_names_of_cached_tokens(usage: dict[str, Any], cached: int) -> None:
    last = answer({"content": "x"}, usage={"prompt_tokens": 9, "completion_tokens": 1, **usage})[-1]
    assert isinstance(last, Completed)
    assert last.usage is not None
    assert last.usage.cached == cached


def test_no_usage_is_none() -> None:
    last = answer({"content": "x"})[-1]
    assert last == Completed(finish_reason="stop", usage=None, model="")


def piece(index: int | None, call_id: str | None, name: str | None, arguments: object) -> dict[str, Any]:
    call: dict[str, Any] = {"function": {"arguments": arguments}}
    if index is not None:
        call["index"] = index
    if call_id is not None:
        call["id"] = call_id
    if name is not None:
        call["function"]["name"] = name
    return {"tool_calls": [call]}


A, B = ("read", {"path": "a"}), ("grep", {"pattern": "b"})


@pytest.mark.parametrize(
    "deltas",
    [
        pytest.param(
            [
                piece(0, "1", "read", ""),
                piece(0, None, None, '{"path":'),
                piece(1, "2", "grep", ""),
                piece(0, None, None, '"a"}'),
                piece(1, None, None, '{"pattern":"b"}'),
            ],
            id="interleaved by index",
        ),
        pytest.param(
            [
                piece(0, "1", "read", '{"path":'),
                piece(0, "1", "read", '"a"}'),
                piece(1, "2", "grep", '{"pattern":"b"}'),
            ],
            id="id and name repeated",
        ),
        pytest.param(
            [piece(0, "1", "read", '{"path":"a"}'), piece(0, "2", "grep", '{"pattern":"b"}')],
            id="index always 0",
        ),
        pytest.param(
            [piece(0, None, "read", '{"path":"a"}'), piece(0, None, "grep", '{"pattern":"b"}')],
            id="index always 0, no ids",
        ),
        pytest.param(
            [piece(None, None, "read", '{"path":"a"}'), piece(None, None, "grep", '{"pattern":"b"}')],
            id="no index, no ids",
        ),
        pytest.param(
            [
                piece(None, "1", "read", '{"path":'),
                piece(None, None, None, '"a"}'),
                piece(None, "2", "grep", '{"pattern"'),
                piece(None, "2", None, ':"b"}'),
            ],
            id="no index, pieces",
        ),
        pytest.param(
            [
                {
                    "tool_calls": [
                        *piece(None, "x", "read", {"path": "a"})["tool_calls"],
                        *piece(None, "x2", "grep", {"pattern": "b"})["tool_calls"],
                    ]
                }
            ],
            id="objects, in one delta",
        ),
        pytest.param(
            [
                piece(0, "1", "read", '{"path":'),
                piece(0, None, None, '"a"}'),
                piece(0, "1", "read", '{"path":"a"}'),
                piece(1, "2", "grep", '{"pattern":"b"}'),
            ],
            id="whole call sent again",
        ),
        pytest.param(
            [piece(0, "same", "read", '{"path":"a"}'), piece(1, "same", "grep", '{"pattern":"b"}')],
            id="one id for two calls",
        ),
        pytest.param(
            [
                {"content": "let me", **piece(0, "1", "read", '{"path":"a"}')},
                piece(1, "2", "gr", None),
                piece(1, None, "ep", None),
                piece(1, None, None, '{"pattern":"b"}'),
            ],
            id="content beside, name in pieces",
        ),
    ],
)
def test_tool_calls_however_a_server_sends_them(deltas: list[dict[str, Any]]) -> None:
    chunks = answer(*deltas, finish="tool_calls")
    assert calls_of(chunks) == [A, B]
    ids = [chunk.call.id for chunk in chunks if isinstance(chunk, CallReady)]
    assert len(set(ids)) == 2
    assert all(ids)


def test_an_id_used_earlier_in_the_conversation_is_not_used_again() -> None:
    earlier = Message(role="assistant", content="", tool_calls=[tool_call("call_0", "read", "{}")])
    with ScriptedServer([{"calls": [{"name": "read", "arguments": {}, "id": "call_0"}]}]) as server:
        chunks = collect_from(server, ModelRequest(model="m", messages=[earlier]))
    assert isinstance(chunks[0], CallDelta)
    assert isinstance(chunks[1], CallReady)
    assert chunks[1].call.id != "call_0"


def test_a_call_without_arguments() -> None:
    assert calls_of(answer(piece(0, "1", "todoread", ""), finish="tool_calls")) == [("todoread", {})]


def test_the_legacy_function_call() -> None:
    deltas = [
        {"function_call": {"name": "read", "arguments": '{"pa'}},
        {"function_call": {"arguments": 'th":"a"}'}},
    ]
    assert calls_of(answer(*deltas, finish="function_call")) == [A]


def test_broken_arguments_are_a_fault_not_a_failure() -> None:
    chunks = answer(piece(0, "1", "read", '{"path": "unfinis'), finish="length")
    assert isinstance(chunks[0], CallDelta)
    assert isinstance(chunks[1], CallReady)
    assert "cut off" in chunks[1].fault
    assert chunks[-1] == Completed(finish_reason="length")


def test_refusals_and_citations() -> None:
    cited = {"type": "url_citation", "url_citation": {"url": "http://a", "title": "A"}}
    chunks = answer(
        {"refusal": "I "}, {"refusal": "won't."}, {"annotations": [cited, cited]}, citations=["http://b"]
    )
    assert text_of(chunks) == "I won't."
    texts = [chunk.text for chunk in chunks if isinstance(chunk, CitationFound)]
    assert texts == ["A (http://a)", "http://b"]


def test_a_server_that_does_not_stream() -> None:
    def whole(request: dict[str, Any]) -> dict[str, Any]:
        message = {
            "content": "hi",
            "reasoning_content": "hm",
            "tool_calls": [{"id": "1", "function": {"name": "read", "arguments": '{"path":"a"}'}}],
        }
        usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
        return {"body": {"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": usage}}

    with ScriptedServer([whole]) as server:
        chunks = collect_from(server)
    assert text_of(chunks) == "hi"
    assert text_of(chunks, ReasoningDelta) == "hm"
    assert calls_of(chunks) == [A]
    assert chunks[-1] == Completed("tool_calls", Usage(prompt=1, completion=2, total=3, source="provider"))


def test_events_without_blank_lines_between_them() -> None:
    lines: list[Any] = [{"choices": [{"delta": {"content": text}}]} for text in "abc"]
    lines.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    body = "".join(f"data: {json.dumps(line)}\n" for line in lines)
    with ScriptedServer([{"body": body}]) as server:
        assert text_of(collect_from(server)) == "abc"


def test_done_without_a_finish_reason_is_an_end() -> None:
    body = 'data: {"choices":[{"delta":{"content":"x"}}]}\n\ndata: [DONE]\n\n'
    with ScriptedServer([{"body": body}]) as server:
        assert collect_from(server) == [TextDelta("x"), Completed("stop")]


@pytest.mark.parametrize("fault", ["garbage", "drip", "close_after"])
def test_ugly_but_whole_answers(fault: str) -> None:
    turn = {"fault": fault, "text": "Größe 😀 " * 5, "calls": [{"name": "read", "arguments": {"path": "a"}}]}
    with Chaos([turn, turn]) as server:
        chunks = collect_from(server, times=2)
    assert text_of(chunks) == "Größe 😀 " * 10
    assert calls_of(chunks) == [A, A]


@pytest.mark.parametrize(
    "fault",
    ["reset", "half_head", "cut_text", "cut_call", "cut_character", "reset_text", "no_done", "length_short"],
)
def test_broken_answers_are_retryable_and_give_no_call(fault: str) -> None:
    turn = {
        "fault": fault,
        "text": "héllo " * 20,
        "calls": [{"name": "read", "arguments": {"path": "a" * 90}}],
    }
    seen: list[Chunk] = []

    async def run(url: str) -> None:
        model = ChatCompletions(url, timeout_ms=5000)
        try:
            async for chunk in model.stream(ask()):
                seen.append(chunk)  # noqa: PERF401 - what came before the error is wanted too
        finally:
            await model.close()

    with Chaos([turn]) as server, pytest.raises(ModelError) as caught:
        asyncio.run(run(server.url))
    assert caught.value.retryable
    assert "broke off" in str(caught.value)
    assert all(isinstance(chunk, TextDelta | CallDelta) for chunk in seen)
    assert ("héllo " * 20).startswith(text_of(seen))


def test_list_models() -> None:
    async def run(url: str) -> list[str]:
        model = ChatCompletions(url)
        try:
            return await model.list_models()
        finally:
            await model.close()

    with ScriptedServer(model="tiny") as server:
        assert asyncio.run(run(server.url)) == ["tiny"]
        assert server.requests[0].path == "/v1/models"


def test_cancelling_closes_the_request() -> None:
    async def run(server: ScriptedServer) -> None:
        model = ChatCompletions(server.url)
        got: asyncio.Future[Chunk] = asyncio.get_running_loop().create_future()

        async def read() -> None:
            async for chunk in model.stream(ask()):
                if not got.done():
                    got.set_result(chunk)

        task = asyncio.create_task(read())
        await asyncio.wait_for(got, 60)
        assert server._open
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(60):
            while server._open:  # noqa: ASYNC110 - the server has no event for it
                await asyncio.sleep(0.005)
        await model.close()

    async def main() -> None:
        async with ScriptedServer([{"text": "x" * 4000, "chunk": 1, "delay": 0.01}]) as server:
            await run(server)

    asyncio.run(main())


def test_llama_cpp_tells_how_far_it_has_read_a_long_prompt() -> None:
    """Other servers are not asked to: a field that they do not know may be refused."""
    named = {
        **played({"content": "a"}),
        "headers": {"Content-Type": "text/event-stream", "Server": "llama.cpp"},
    }
    reading = {"choices": [{"delta": {}}], "prompt_progress": {"total": 400, "processed": 100}}
    slow = {**named, "body": f"data: {json.dumps(reading)}\n\n{named['body']}"}
    with ScriptedServer([played({"content": "a"}), named, slow]) as server:
        chunks = collect_from(server, times=3)
        assert ["return_progress" in chat for chat in server.chats] == [False, False, True]
    assert [chunk for chunk in chunks if isinstance(chunk, Progress)] == [Progress("reading", 0.25)]
