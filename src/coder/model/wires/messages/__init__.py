"""Anthropic's Messages API: thinking with signatures, and marks for the prompt cache."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import msgspec

from coder.model.base import Chunk, Completed, ModelRequest, TextDelta, closing
from coder.model.wires.client import HttpWire, endpoints, used_ids
from coder.model.wires.messages.request import Limits, body_of
from coder.protocol.messages import Message, Opaque
from coder.protocol.usage import Usage

if TYPE_CHECKING:
    from coder.model.wires.answer_stream import AnswerStream

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
        from coder.model.wires.messages.stream import MessageStream

        return MessageStream(used_ids(request), self.origin, request.model)

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
