"""OpenAI's Chat Completions API, at any base URL that speaks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from coder.model.base import ModelRequest
from coder.model.wires.chat_completions.stream import ChatStream
from coder.model.wires.client import HttpWire, endpoints, object_text, used_ids
from coder.protocol.messages import FunctionCall, Message, ToolCall

_PATH = "/chat/completions"


class ChatCompletions(HttpWire):
    """The wire that most servers speak."""

    def __init__(
        self,
        base_url: str,
        api_key: str = "",
        headers: Mapping[str, str] | None = None,
        timeout_ms: int = 120_000,
        *,
        environment: Mapping[str, str] | None = None,
        names: Sequence[str] = (),
    ) -> None:
        super().__init__(base_url, api_key, headers, timeout_ms, environment=environment, names=names)
        self._urls = endpoints(base_url, _PATH)
        self._include_usage = True

    def url(self, model: str) -> str:
        return self._urls[0]

    def models_url(self) -> str:
        return self._urls[0].replace(_PATH, "/models")

    def adapt(self, status: int, body: bytes, model: str) -> bool:
        if status in (400, 422) and self._include_usage and b"stream_options" in body:
            self._include_usage = False
        elif status == 404 and len(self._urls) > 1 and b'"error"' not in body:
            self._urls = self._urls[1:]  # a bare host that does without `/v1`
        else:
            return False
        return True

    def body(self, request: ModelRequest) -> bytes:
        body: dict[str, Any] = {"model": request.model, "messages": _wire_messages(request.messages)}
        if request.tools:
            body["tools"] = request.tools
        if request.reasoning_effort:
            body["reasoning_effort"] = request.reasoning_effort
        body["stream"] = True
        if self._include_usage:
            body["stream_options"] = {"include_usage": True}
        return msgspec.json.encode(body)

    def answer(self, request: ModelRequest) -> ChatStream:
        return ChatStream(used_ids(request))


def _wire_messages(messages: Sequence[Message]) -> list[Message]:
    return [_wire_message(m) if m.reasoning is not None or m.tool_calls else m for m in messages]


def _wire_message(message: Message) -> Message:
    """Without our `reasoning`, and with arguments that are valid JSON."""
    calls = [_valid_call(call) for call in message.tool_calls]
    return msgspec.structs.replace(message, reasoning=None, tool_calls=calls)


def _valid_call(call: ToolCall) -> ToolCall:
    sent = call.function.arguments
    text = object_text(sent)
    if text == sent:
        return call
    return ToolCall(id=call.id, function=FunctionCall(name=call.name, arguments=text))
