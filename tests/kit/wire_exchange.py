"""Requests to a server of each wire, and the answers as chunks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from coder.models.make import Wire, make_wire
from coder.models.model import CallReady, Chunk, Completed, ModelRequest
from coder.models.retry import RetryingModel
from coder.protocol.messages import FunctionSpec, Message, ToolSpec, tool_message
from kit import Chaos, Recorded, collect, text_of
from kit.fakes import WIRES

TEXT = "Ein Übergang: first this, then that, and then something else again."
CALLS = [
    {"name": "read", "arguments": {"path": "ä" * 30}, "id": "call_one"},
    {"name": "read", "arguments": {"path": "b"}, "id": "call_two"},
]
TURN = {"reasoning": "I had better look first.", "text": TEXT, "calls": CALLS, "signature": "U0lHTkVE"}
READ = ToolSpec(FunctionSpec("read", "reads", {"type": "object", "properties": {"path": {"type": "string"}}}))
NATIVE = [wire for wire in WIRES if wire != "chat"]
MODELS = {"chat": "m", "responses": "gpt-5.5", "messages": "claude-opus-5", "gemini": "gemini-3-pro"}


def request_of(wire: str, *messages: Message, **more: Any) -> ModelRequest:
    said = messages or (Message(role="user", content="go"),)
    return ModelRequest(model=MODELS[wire], messages=said, **more)


def exchange(
    wire: str, script: Sequence[Any], *requests: ModelRequest, url: str = "", retries: bool = False
) -> tuple[list[list[Chunk]], list[Recorded]]:
    """The chunks of each answer, and what was sent."""

    async def no_wait(seconds: float) -> None:
        pass

    async def run(base: str) -> list[list[Chunk]]:
        made = make_wire(cast(Wire, wire), base, "sk-secret-key", timeout_ms=5000)
        model = RetryingModel(made, sleep=no_wait) if retries else made
        try:
            return [await collect(model, request) for request in requests or [request_of(wire)]]
        finally:
            await model.close()

    with Chaos(script, wire=wire) as server:
        chunks = asyncio.run(run(url.replace("URL", server.url) or server.url))
        return chunks, list(server.requests)


def calls_of(chunks: Sequence[Chunk]) -> list[tuple[str, Any]]:
    ready = [chunk for chunk in chunks if isinstance(chunk, CallReady)]
    return [(chunk.call.name, json.loads(chunk.call.function.arguments)) for chunk in ready]


def end_of(chunks: Sequence[Chunk]) -> Completed:
    end = chunks[-1]
    assert isinstance(end, Completed)
    return end


def message_of(chunks: Sequence[Chunk]) -> Message:
    """The answer as it becomes part of the conversation."""
    calls = [chunk.call for chunk in chunks if isinstance(chunk, CallReady)]
    return Message(role="assistant", content=text_of(chunks), tool_calls=calls, opaque=end_of(chunks).opaque)


def conversation(answer: Message) -> list[Message]:
    """One that waits for the next answer."""
    results = [tool_message(call, f"result {at}") for at, call in enumerate(answer.tool_calls)]
    system, user = Message(role="system", content="be good"), Message(role="user", content="go")
    return [system, user, answer, *results]


def exchange_at_origin(
    wire: str, answer: Message, script: Sequence[Any] = ({"text": "done"},), *, times: int = 1
) -> tuple[list[list[Chunk]], list[Recorded]]:
    """A second request, to the server that gave that answer: what it signed is for nobody else."""

    async def run(server: Chaos) -> list[list[Chunk]]:
        model = make_wire(cast(Wire, wire), server.url)
        assert answer.opaque is not None
        own = msgspec.structs.replace(answer.opaque, origin=model.origin)
        again = conversation(msgspec.structs.replace(answer, opaque=own))
        try:
            return [await collect(model, request_of(wire, *again, tools=[READ])) for _ in range(times)]
        finally:
            await model.close()

    with Chaos(script, wire=wire) as server:
        return asyncio.run(run(server)), list(server.requests)
