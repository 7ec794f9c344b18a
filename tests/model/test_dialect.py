"""`dialect = "auto"`, the factory, and the scripted server itself."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from typing import Any

import pytest

from coder.models.errors import says_no_tools
from coder.models.make import Dialect, make_model
from coder.models.model import CallReady, Chunk, ModelError
from coder.protocol.messages import FunctionSpec, ToolSpec
from kit import ScriptedServer, ask, collect, text_of

READ = ToolSpec(
    FunctionSpec("read", "reads", {"properties": {"path": {"type": "string"}}, "required": ["path"]})
)


def collect_from(server: ScriptedServer, dialect: Dialect, *models: str) -> list[list[Chunk]]:
    async def run() -> list[list[Chunk]]:
        model = make_model(server.url, "key", dialect=dialect, max_attempts=1)
        try:
            return [await collect(model, ask(tools=[READ], model=name)) for name in models]
        finally:
            await model.close()

    return asyncio.run(run())


def toolless(request: dict[str, Any]) -> dict[str, Any]:
    if "tools" in request:
        message = f"registry.ollama.ai/library/{request['model']} does not support tools"
        return {"status": 400, "body": {"error": {"message": message}}}
    return {"text": '<thought>hm</thought><action tool="read">{"path":"a"}</action>'}


def test_auto_turns_to_react_on_the_same_request_and_remembers() -> None:
    with ScriptedServer([toolless] * 5) as server:
        answers = collect_from(server, "auto", "small", "small")
        assert ["tools" in chat for chat in server.chats] == [True, False, False]
    for chunks in answers:
        (call,) = [chunk.call for chunk in chunks if isinstance(chunk, CallReady)]
        assert (call.name, call.function.arguments) == ("read", '{"path":"a"}')


def test_auto_stays_native_for_models_that_can() -> None:
    def by_model(request: dict[str, Any]) -> dict[str, Any]:
        return toolless(request) if request["model"] == "small" else {"text": "<final>as it is</final>"}

    with ScriptedServer([by_model] * 5) as server:
        _, big = collect_from(server, "auto", "small", "big")
        assert "tools" in server.chats[-1]
    assert text_of(big) == "<final>as it is</final>"


def test_other_refusals_are_not_mistaken() -> None:
    refusal = {"status": 400, "body": {"error": {"message": "bad temperature"}}}
    with ScriptedServer([refusal] * 3) as server:
        with pytest.raises(ModelError, match="bad temperature"):
            collect_from(server, "auto", "m")
        assert len(server.chats) == 1


def test_native_reports_the_refusal() -> None:
    with ScriptedServer([toolless]) as server, pytest.raises(ModelError, match="does not support tools"):
        collect_from(server, "native", "m")


def test_react_never_sends_tools() -> None:
    with ScriptedServer([toolless]) as server:
        collect_from(server, "react-xml", "m")
        assert "tools" not in server.chats[0]
        assert "## read" in server.chats[0]["messages"][0]["content"]


@pytest.mark.parametrize(
    "message",
    [
        "gemma does not support tools",
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        "tools param requires --jinja flag",
        "Unrecognized request argument supplied: tools",
        "No endpoints found that support tool use",
        "Function calling is not supported for this model",
        "`tool_choice` is not supported by this model",
        "tool use is not supported",
    ],
)
def test_how_servers_say_that_they_have_no_tools(message: str) -> None:
    assert says_no_tools(message)


@pytest.mark.parametrize("message", ["bad temperature", "tool_calls must be followed by tool messages", ""])
def test_what_is_not_about_missing_tools(message: str) -> None:
    assert not says_no_tools(message)


def test_the_scripted_server_without_streaming_and_after_the_script() -> None:
    with ScriptedServer([{"text": "hi", "calls": [{"name": "read", "arguments": {"path": "a"}}]}]) as server:

        def post() -> Any:
            body = json.dumps({"model": "m", "messages": []}).encode()
            request = urllib.request.Request(server.url + "/chat/completions", body)
            with urllib.request.urlopen(request) as response:
                return json.load(response)

        choice = post()["choices"][0]
        assert choice["message"]["content"] == "hi"
        assert choice["message"]["tool_calls"][0]["function"]["arguments"] == '{"path":"a"}'
        assert choice["finish_reason"] == "tool_calls"
        assert "no further answer" in post()["choices"][0]["message"]["content"]
        with urllib.request.urlopen(server.url + "/models") as response:
            assert json.load(response)["data"][0]["id"] == "scripted"
        assert [request.method for request in server.requests] == ["POST", "POST", "GET"]
        assert server.requests[0].time <= server.requests[1].time
