"""Anthropic's Messages API: thinking with signatures, and marks for the prompt cache."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from coder.models import wires
from coder.models.arguments import object_text, plain_id, plain_name
from coder.models.model import Chunk, Completed, ModelRequest, TextDelta, closing
from coder.models.wires.wire import HttpWire, Piece, endpoints, pieces, used_ids
from coder.protocol.messages import Image, Message, Opaque, ToolSpec, Usage

if TYPE_CHECKING:
    from coder.models.wires.answer_stream import AnswerStream


_OUTPUT = 32_000  # tokens of an answer, where nothing is set; a server that allows less says how many
_CACHED = {"type": "ephemeral"}
# These think by a budget, later ones adaptively, earlier ones not at all.
_BUDGETED = re.compile(r"claude-(3-7|(opus|sonnet|haiku)-4(?!-[6-9]))")
_UNTHINKING = re.compile(r"claude-(3-(?!7)|2|instant)")
_BY_ITSELF = re.compile(r"claude-[a-z]+-[5-9]")  # thinks unless it is told not to
_BUDGETS = {"minimal": 1024, "low": 4096, "medium": 8192, "high": 16_384, "xhigh": 24_576, "max": 30_720}
_EFFORTS = {"minimal": "low", "none": "low"}
_THINKING = ("thinking", "redacted_thinking")  # types of blocks

Block = dict[str, Any]


class Limits(msgspec.Struct, frozen=True):
    """What a model at this server was found to take."""

    thinking: bool = True
    effort: bool = True
    own: bool = True  # that it takes back what it signed or encrypted
    drop: bool = False  # that it is to pass over what it signed before something in front of it changed
    off: str = "disabled"  # how it is told not to think; empty if it always does
    output: int = 0


def body_of(request: ModelRequest, origin: str, limits: Limits) -> bytes:
    """Messages come last and are only appended to; of what precedes, only the cache marks move."""
    system = [m.content for m in request.messages if m.role == "system" and m.content]
    said = [m for m in request.messages if m.role != "system"]
    messages = _messages(said, origin if limits.own else "", request.model)
    _mark_turns(messages)
    output = request.max_output_tokens or _OUTPUT
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": min(output, limits.output or output),
        "stream": True,
        **_thinking(request, limits, messages),
    }
    if request.tools:
        body["tools"] = _tools(request.tools)
    if system:
        body["system"] = [{"type": "text", "text": text} for text in system]
        body["system"][-1]["cache_control"] = _CACHED
    return msgspec.json.encode({**body, "messages": messages})


def _tools(tools: Sequence[ToolSpec]) -> list[Block]:
    said = [
        {
            "name": tool.name,
            "description": tool.function.description,
            "input_schema": {"type": "object", **tool.function.parameters},
        }
        for tool in tools
    ]
    said[-1]["cache_control"] = _CACHED
    return said


def _thinking(request: ModelRequest, limits: Limits, messages: Sequence[Block]) -> dict[str, Any]:
    effort, model = request.reasoning_effort, request.model.lower()
    if not limits.thinking or _UNTHINKING.search(model):
        return {}
    if effort == "none" and not _BY_ITSELF.search(model):
        return {}
    if effort == "none" and limits.off:
        return {"thinking": {"type": limits.off}}
    if _BUDGETED.search(model) or "claude" not in model:
        budget = min(_BUDGETS.get(effort or "", 0), (request.max_output_tokens or _OUTPUT) - 1024)
        if limits.output:
            budget = min(budget, limits.output - 1024)
        if budget < 1024 or not _may_think(messages):
            return {}
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}
    said: dict[str, Any] = {"thinking": {"type": "adaptive", "display": "summarized"}}
    if limits.drop:
        said["thinking"]["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    if effort and limits.effort:
        said["output_config"] = {"effort": _EFFORTS.get(effort, effort)}
    return said


def _may_think(messages: Sequence[Block]) -> bool:
    """With a budget, the calls being answered must come with their thinking, which another model's lack."""
    last = next((m for m in reversed(messages) if m["role"] == "assistant"), None)
    if last is None or not any(block["type"] == "tool_use" for block in last["content"]):
        return True
    return last["content"][0]["type"] in _THINKING


def _messages(messages: Sequence[Message], origin: str, model: str) -> list[Block]:
    said: list[Block] = []
    results: list[Block] | None = None  # of the calls before: all in one message
    for message in messages:
        if message.role == "tool":
            if results is None:
                results = []
                said.append({"role": "user", "content": results})
            results.append(_result(message))
            continue
        results = None
        if message.role == "assistant":
            content = _answer(pieces(message, "messages", origin, model))
        else:
            content = [*map(_image, message.images), *_text(message.content)]
        if content:
            said.append({"role": message.role, "content": content})
    return said


def _answer(own: Sequence[Piece]) -> list[Block]:
    """Blank text is refused, and thinking that nothing follows."""
    content = [_block(piece) for piece in own if not piece.text or piece.text.strip()]
    while content and content[-1].get("type") in _THINKING:
        content.pop()
    return content


def _text(text: str) -> list[Block]:
    """Blank text is refused."""
    return [{"type": "text", "text": text}] if text.strip() else []


def _block(piece: Piece) -> Block:
    if piece.call is not None:
        return {
            "type": "tool_use",
            "id": plain_id(piece.call.id),
            "name": plain_name(piece.call.name),
            "input": msgspec.Raw(object_text(piece.call.function.arguments).encode("utf-8")),
        }
    return {"type": "text", "text": piece.text} if piece.text else dict(piece.raw)


def _result(message: Message) -> Block:
    content = [*_text(message.content), *map(_image, message.images)]
    said: Block = {"type": "tool_result", "tool_use_id": plain_id(message.tool_call_id or "")}
    return {**said, "content": content} if content else said


def _image(image: Image) -> Block:
    source = {"type": "base64", "media_type": image.media_type, "data": image.data}
    return {"type": "image", "source": source}


def _mark_turns(messages: Sequence[Block]) -> None:
    """The end of this request, which the next one reads from the cache, and of the one before, which this one
    does."""
    before = next((at for at in range(len(messages) - 1, -1, -1) if messages[at]["role"] == "assistant"), 0)
    for at in {len(messages) - 1, before - 1}:
        if at >= 0 and messages[at]["role"] == "user":
            messages[at]["content"][-1]["cache_control"] = _CACHED


_PATH = "/messages"
_VERSION = "2023-06-01"
_BINDING = "thinking-binding-controls-2026-08-01"
_MOST_PAUSES = 20  # of one answer
_OUTPUT_LIMIT = re.compile(rb"max_tokens[^0-9]{1,20}\d+ ?> ?(\d+)")


class Messages(HttpWire):
    """What the server refused (thinking, signatures, effort, the output limit) is left out from then on."""

    key_header = "x-api-key"
    none_is_effort = False
    path = _PATH

    def prepare(self) -> None:
        self.urls = _urls(self.base_url)
        self._limits: dict[str, Limits] = {}  # by model

    def models_url(self) -> str:
        base, _, query = self.urls[0].partition("?")
        return f"{base.removesuffix(_PATH)}/models?{query or 'limit=1000'}"

    def authorization(self) -> dict[str, str]:
        beta = {"anthropic-beta": _BINDING} if any(one.drop for one in self._limits.values()) else {}
        return {"anthropic-version": _VERSION, **beta, **super().authorization()}

    def body(self, request: ModelRequest) -> bytes:
        return body_of(request, self.origin, self._limits.get(request.model, Limits()))

    def answer(self, request: ModelRequest) -> AnswerStream:
        return wires.messages_stream.MessageStream(used_ids(request), self.origin, request.model)

    def takes_effort(self, model: str) -> bool:
        limits = self._limits.get(model, Limits())
        return limits.effort and limits.thinking

    def leave_out(self, body: bytes, model: str) -> bool:
        before = self._limits.get(model, Limits())
        after = before
        if found := _OUTPUT_LIMIT.search(body):
            after = msgspec.structs.replace(before, output=int(found.group(1)))
        elif before.own and not before.drop and b"drop_block" in body:  # something before it has changed
            after = msgspec.structs.replace(before, drop=True)
        elif before.own and (b"signature" in body or b"block_binding" in body):  # of another account
            after = msgspec.structs.replace(before, own=False, drop=False)
        elif before.off and re.search(rb"thinking\.type\.disabled|between_tools", body):
            other = "between_tools" if b"between_tools" in body and before.off == "disabled" else ""
            after = msgspec.structs.replace(before, off=other)
        elif b"thinking" in body:  # of a model older or newer than we know
            after = msgspec.structs.replace(before, thinking=False)
        elif b"effort" in body or b"output_config" in body:
            after = msgspec.structs.replace(before, effort=False)
        self._limits[model] = after
        return after != before

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """An answer that the server pauses is sent back for it to go on, without the engine knowing."""
        usage: Usage | None = None
        opaque: Opaque | None = None
        for _ in range(_MOST_PAUSES):
            said: list[str] = []
            end = Completed(finish_reason="stop")
            async with closing(super().stream(request)) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, Completed):
                        end = chunk
                        break
                    if isinstance(chunk, TextDelta):
                        said.append(chunk.text)
                    yield chunk
            usage = end.usage if usage is None or end.usage is None else usage.plus(end.usage)
            opaque = _joined(opaque, end.opaque)
            if end.finish_reason != "pause_turn":
                break
            paused = Message(role="assistant", content="".join(said), opaque=end.opaque)
            request = msgspec.structs.replace(request, messages=[*request.messages, paused])
        reason = "stop" if end.finish_reason == "pause_turn" else end.finish_reason
        yield msgspec.structs.replace(end, finish_reason=reason, usage=usage, opaque=opaque)


def _joined(before: Opaque | None, after: Opaque | None) -> Opaque | None:
    if before is None or after is None:
        return before or after
    return msgspec.structs.replace(before, parts=[*before.parts, *after.parts])


def _urls(base_url: str) -> list[str]:
    """An address whose path has no version, such as `…/anthropic`, may lack `/v1` as a bare host may."""
    path = base_url.partition("?")[0].rstrip("/")
    if re.search(r"/v\d+$", path) or path.endswith(_PATH):
        return endpoints(base_url, _PATH)
    return [*endpoints(base_url, "/v1" + _PATH, bare=("",)), *endpoints(base_url, _PATH, bare=("",))]
