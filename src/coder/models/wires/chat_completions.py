"""OpenAI's Chat Completions API, at any base URL that speaks it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from coder import models
from coder.config.providers import azure_base
from coder.models import wires
from coder.models.model import ModelRequest
from coder.models.wires.wire import HttpWire, cache_key, endpoints, used_ids
from coder.protocol.messages import FunctionCall, Message, ToolCall, chat_messages

if TYPE_CHECKING:
    from coder.models.wires.answer_stream import AnswerStream

_PATH = "/chat/completions"
_OLD_LIMIT = "max_tokens"
# OpenAI takes ids of up to 40 characters, Mistral those of its own form alone.
_ABOUT_EFFORT = re.compile(rb"reasoning[_.]effort|not support (thinking|reasoning)", re.IGNORECASE)
# Services that cache by a key, in a field or (xAI) in a header. Others may refuse what they do not know.
_KEYED = ["api.openai.com", "api.mistral.ai"]
_KEYED_BY_HEADER = ["api.x.ai"]
_ABOUT_IDS = re.compile(rb"tool[ _]call(s\[\d+\]\.|[ _])id", re.IGNORECASE)


class ChatCompletions(HttpWire):
    """The wire that most servers speak."""

    path = _PATH

    def prepare(self) -> None:
        self.urls = endpoints(self.base_url, _PATH)
        self._include_usage = True
        self._limit_name = "max_completion_tokens"
        self._short_ids = False
        self._without_effort: set[str] = set()  # models
        self._with_reasoning: set[str] = set()  # models that want theirs back: Kimi, DeepSeek

    def url(self, model: str) -> str:
        base = azure_base(self.base_url, model)
        return self.urls[0] if base == self.base_url else endpoints(base, _PATH)[0]

    def models_url(self) -> str:
        base = azure_base(self.base_url)
        return (self.urls[0] if base == self.base_url else endpoints(base, _PATH)[0]).replace(
            _PATH, "/models"
        )

    def routing(self, request: ModelRequest) -> dict[str, str]:
        key = cache_key(request) if self.origin in _KEYED_BY_HEADER else ""
        return {"x-grok-conv-id": key} if key else {}

    def takes_effort(self, model: str) -> bool:
        return model not in self._without_effort

    def leave_out(self, body: bytes, model: str) -> bool:
        if self._include_usage and b"stream_options" in body:
            self._include_usage = False
        elif b"max_completion_tokens" in body and self._limit_name != _OLD_LIMIT:
            self._limit_name = _OLD_LIMIT
        elif not self._short_ids and _ABOUT_IDS.search(body):
            self._short_ids = True
        elif b"reasoning_content" in body and model not in self._with_reasoning:
            self._with_reasoning.add(model)
        elif _ABOUT_EFFORT.search(body) and model not in self._without_effort:
            self._without_effort.add(model)
        else:
            return False
        return True

    def body(self, request: ModelRequest) -> bytes:
        body: dict[str, Any] = {"model": request.model, "messages": self._messages(request)}
        if request.tools:
            body["tools"] = request.tools
        if request.reasoning_effort and self.takes_effort(request.model):
            body["reasoning_effort"] = request.reasoning_effort
        if request.max_output_tokens:
            body[self._limit_name] = request.max_output_tokens
        if self.origin in _KEYED and (key := cache_key(request)):
            body["prompt_cache_key"] = key
        body["stream"] = True
        if self._include_usage:
            body["stream_options"] = {"include_usage": True}
        if self.server == "llama.cpp":
            body["return_progress"] = True  # of a long prompt, before the first token
        body.update(request.extra)
        return msgspec.json.encode(body)

    def _messages(self, request: ModelRequest) -> list[Message | dict[str, Any]]:
        """Without our `reasoning`, and without answers that say nothing, which some servers refuse."""
        said = [m for m in request.messages if m.role != "assistant" or m.tool_calls or m.content.strip()]
        chat = chat_messages([self._message(m) if m.role in ("assistant", "tool") else m for m in said])
        return _with_reasoning(chat, said) if request.model in self._with_reasoning else chat

    def _message(self, message: Message) -> Message:
        calls = [_valid_call(call) for call in message.tool_calls]
        call_id, name = message.tool_call_id, message.name
        if self._short_ids:
            calls = [msgspec.structs.replace(call, id=models.arguments.short_id(call.id)) for call in calls]
            call_id = models.arguments.short_id(call_id) if call_id else call_id
        return msgspec.structs.replace(
            message,
            reasoning=None,
            tool_calls=calls,
            tool_call_id=call_id,
            name=models.arguments.plain_name(name) if name else name,
        )

    def answer(self, request: ModelRequest) -> AnswerStream:
        return wires.chat_completions_stream.ChatStream(used_ids(request))


def _with_reasoning(
    chat: Sequence[Message | dict[str, Any]], said: Sequence[Message]
) -> list[Message | dict[str, Any]]:
    """The answers with their reasoning. Where there was none, a blank: what is empty counts as missing."""
    reasoning = (message.reasoning or " " for message in said if message.role == "assistant")
    return [
        {**msgspec.to_builtins(one), "reasoning_content": next(reasoning)}
        if isinstance(one, Message) and one.role == "assistant"
        else one
        for one in chat
    ]


def _valid_call(call: ToolCall) -> ToolCall:
    """As the model sent it, where servers take that."""
    name, text = models.arguments.plain_name(call.name), models.arguments.object_text(call.function.arguments)
    if (name, text) == (call.name, call.function.arguments):
        return call
    return ToolCall(id=call.id, function=FunctionCall(name=name, arguments=text))
