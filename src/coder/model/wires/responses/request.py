"""The body of a Responses request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from coder.model.arguments import object_text, plain_id, plain_name
from coder.model.base import ModelRequest
from coder.model.wires.client import cache_key
from coder.model.wires.parts import Piece, pieces
from coder.protocol.messages import Image, Message

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
