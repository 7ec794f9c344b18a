"""OpenAI's Responses API, stateless: nothing is stored there, encrypted reasoning comes with each request."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from coder.config.providers import azure_base
from coder.models import wires
from coder.models.arguments import object_text, plain_id, plain_name
from coder.models.model import ModelRequest
from coder.models.wires.wire import HttpWire, Piece, cache_key, endpoints, pieces, used_ids
from coder.protocol.messages import Image, Message

if TYPE_CHECKING:
    from coder.models.wires.answer_stream import AnswerStream


_UNTHINKING = ("gpt-3", "gpt-4", "chatgpt", "gpt-5-chat", "gpt-5.1-chat", "gpt-5.2-chat")

Item = dict[str, Any]


class Limits(msgspec.Struct, frozen=True):
    """What a model at this server was found to take. `reasoning`: that it reasons, and encrypts it."""

    reasoning: bool = True
    summary: bool = True
    effort: bool = True
    own: bool = True  # that it takes back what it signed or encrypted
    keyed: bool = True  # that it takes a key by which it finds the conversation in its cache


def body_of(request: ModelRequest, origin: str, limits: Limits) -> bytes:
    """The input comes last and is only appended to."""
    body: dict[str, Any] = {"model": request.model, "stream": True, "store": False}
    if limits.keyed and (key := cache_key(request)):
        body["prompt_cache_key"] = key
    if request.max_output_tokens:
        body["max_output_tokens"] = request.max_output_tokens
    if limits.reasoning and not request.model.lower().startswith(_UNTHINKING):
        body["include"] = ["reasoning.encrypted_content"]
        if reasoning := _reasoning(request.reasoning_effort, limits):
            body["reasoning"] = reasoning
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.function.description,
                "parameters": tool.function.parameters,
                "strict": False,
            }
            for tool in request.tools
        ]
    if system := "\n\n".join(m.content for m in request.messages if m.role == "system"):
        body["instructions"] = system
    items = _items(request.messages, origin if limits.own else "", request.model)
    return msgspec.json.encode({**body, "input": items})


def _reasoning(effort: str | None, limits: Limits) -> dict[str, str]:
    said: dict[str, str] = {}
    if effort and limits.effort:
        said["effort"] = effort
    if limits.summary and effort != "none":
        said["summary"] = "auto"
    return said


def _items(messages: Sequence[Message], origin: str, model: str) -> list[Item]:
    said: list[Item] = []
    for message in messages:
        if message.role == "assistant":
            own = pieces(message, "responses", origin, model)
            while own and not own[-1].text and own[-1].call is None:
                own.pop()  # reasoning is refused without what it led to
            said += [_item(piece) for piece in own]
        elif message.role == "tool":
            call_id = plain_id(message.tool_call_id or "")
            output = _content(message) if message.images else message.content
            said.append({"type": "function_call_output", "call_id": call_id, "output": output})
        elif message.role == "user":
            said.append({"type": "message", "role": "user", "content": _content(message)})
    return said


def _item(piece: Piece) -> Item:
    if piece.call is not None:
        return {
            "type": "function_call",
            "call_id": plain_id(piece.call.id),
            "name": plain_name(piece.call.name),
            "arguments": object_text(piece.call.function.arguments),
        }
    if piece.text:
        return {"type": "message", "role": "assistant", "content": piece.text, **piece.raw}
    return piece.raw


def _content(message: Message) -> list[Item]:
    text = [{"type": "input_text", "text": message.content}] if message.content else []
    return [*text, *map(_image, message.images)]


def _image(image: Image) -> Item:
    return {"type": "input_image", "image_url": image.url, "detail": "auto"}


_PATH = "/responses"


class Responses(HttpWire):
    """What the server refused (summaries, reasoning, effort) is left out from then on."""

    path = _PATH

    def prepare(self) -> None:
        self.urls = endpoints(azure_base(self.base_url), _PATH)
        self._limits: dict[str, Limits] = {}  # by model

    def models_url(self) -> str:
        return self.urls[0].replace(_PATH, "/models")

    def body(self, request: ModelRequest) -> bytes:
        return body_of(request, self.origin, self._limits.get(request.model, Limits()))

    def answer(self, request: ModelRequest) -> AnswerStream:
        return wires.responses_stream.ResponseStream(used_ids(request), self.origin, request.model)

    def takes_effort(self, model: str) -> bool:
        return self._limits.get(model, Limits()).effort

    def leave_out(self, body: bytes, model: str) -> bool:
        before = self._limits.get(model, Limits())
        after = before
        if before.keyed and b"prompt_cache_key" in body:
            after = msgspec.structs.replace(before, keyed=False)
        elif before.summary and (b"reasoning.summary" in body or b"reasoning summar" in body):
            after = msgspec.structs.replace(before, summary=False)
        elif before.effort and b"reasoning.effort" in body:
            after = msgspec.structs.replace(before, effort=False)
        elif before.own and re.search(rb"be (verified|decrypted)|invalid_encrypted", body):
            after = msgspec.structs.replace(before, own=False)
        elif b"ncrypted content" in body or b"encrypted_content" in body or b"'reasoning'" in body:
            after = msgspec.structs.replace(before, reasoning=False, summary=False, effort=False)
        self._limits[model] = after
        return after != before
