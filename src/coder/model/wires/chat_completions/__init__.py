"""OpenAI's Chat Completions API, at any base URL that speaks it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from coder.config.provider import azure_base
from coder.model.base import ModelRequest
from coder.model.wires.client import HttpWire, endpoints, used_ids
from coder.protocol.messages import FunctionCall, Message, ToolCall, chat_messages

if TYPE_CHECKING:
    from coder.model.wires.answer_stream import AnswerStream

_PATH = "/chat/completions"
_OLD_LIMIT = "max_tokens"


class ChatCompletions(HttpWire):
    """The wire that most servers speak."""

    def prepare(self) -> None:
        self.urls = endpoints(self.base_url, _PATH)
        self._include_usage = True
        self._limit_name = "max_completion_tokens"

    def url(self, model: str) -> str:
        base = azure_base(self.base_url, model)
        return self.urls[0] if base == self.base_url else endpoints(base, _PATH)[0]

    def models_url(self) -> str:
        base = azure_base(self.base_url)
        return (self.urls[0] if base == self.base_url else endpoints(base, _PATH)[0]).replace(
            _PATH, "/models"
        )

    def leave_out(self, body: bytes, model: str) -> bool:
        if self._include_usage and b"stream_options" in body:
            self._include_usage = False
        elif b"max_completion_tokens" in body and self._limit_name != _OLD_LIMIT:
            self._limit_name = _OLD_LIMIT
        else:
            return False
        return True

    def body(self, request: ModelRequest) -> bytes:
        body: dict[str, Any] = {"model": request.model, "messages": _wire_messages(request.messages)}
        if request.tools:
            body["tools"] = request.tools
        if request.reasoning_effort:
            body["reasoning_effort"] = request.reasoning_effort
        if request.max_output_tokens:
            body[self._limit_name] = request.max_output_tokens
        body["stream"] = True
        if self._include_usage:
            body["stream_options"] = {"include_usage": True}
        if self.server == "llama.cpp":
            body["return_progress"] = True  # of a long prompt, before the first token
        body.update(request.extra)
        return msgspec.json.encode(body)

    def answer(self, request: ModelRequest) -> AnswerStream:
        from coder.model.wires.chat_completions.stream import ChatStream

        return ChatStream(used_ids(request))


def _wire_messages(messages: Sequence[Message]) -> list[Message | dict[str, Any]]:
    return chat_messages(
        [_wire_message(m) if m.reasoning is not None or m.tool_calls else m for m in messages]
    )


def _wire_message(message: Message) -> Message:
    """Without our `reasoning`, and with arguments that are valid JSON."""
    calls = [_valid_call(call) for call in message.tool_calls]
    return msgspec.structs.replace(message, reasoning=None, tool_calls=calls)


def _valid_call(call: ToolCall) -> ToolCall:
    from coder.model.arguments import object_text

    sent = call.function.arguments
    text = object_text(sent)
    if text == sent:
        return call
    return ToolCall(id=call.id, function=FunctionCall(name=call.name, arguments=text))
