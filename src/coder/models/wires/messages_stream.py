"""Converts the events of a Messages answer to chunks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from coder.models.arguments import object_text
from coder.models.wires.answer_stream import AnswerStream, count, dicts, place, source
from coder.models.wires.wire import PartList
from coder.protocol.messages import Opaque, Usage

# `pause_turn` stays: the wire itself goes on with the answer.
_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}


class _Block:
    """A content block being assembled. `raw`: its fields, without what its deltas carry."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw
        self.kind = raw.get("type")
        self.id = str(raw.get("id") or "")
        self.name = str(raw.get("name") or "")
        self.parts: list[str] = []
        self.length = 0  # characters of text
        self.thinking: list[str] = []

    @property
    def arguments(self) -> str:
        if not self.parts and self.raw.get("input"):
            return msgspec.json.encode(self.raw["input"]).decode("utf-8")
        return "".join(self.parts)

    def item(self) -> dict[str, Any]:
        """As it is sent back."""
        if self.kind == "thinking":
            return {**self.raw, "thinking": "".join(self.thinking)}
        return (
            {**self.raw, "input": msgspec.json.decode(object_text(self.arguments))}
            if self.parts
            else self.raw
        )


class MessageStream(AnswerStream):
    """One answer. Text is counted in characters, so that its blocks can be told apart again."""

    def __init__(self, used_ids: Iterable[str], origin: str, model: str) -> None:
        super().__init__(used_ids)
        self._origin = origin
        self._asked_model = model
        self._blocks: dict[object, _Block] = {}
        self._counts: dict[str, Any] = {}

    def calls(self) -> list[_Block]:
        return [block for block in self._blocks.values() if block.kind == "tool_use" and block.name]

    def opaque(self) -> Opaque | None:
        parts = PartList()
        for block in self._blocks.values():
            if block.kind == "text":
                parts.text("x" * block.length)
            elif block.kind == "tool_use":
                if block.name:
                    parts.call()
            elif block.kind != "thinking" or block.raw.get("signature"):
                parts.item(block.item())
        return parts.opaque("messages", self._origin, self._asked_model)

    def whole(self, data: Any) -> bool:
        if data.get("error"):
            self.error = data["error"]
            return False
        self._message(data)
        for at, block in enumerate(dicts(data.get("content"))):
            self._start(at, block)
        self._end(data)
        return bool(data.get("type") == "message")

    def event(self, data: Any) -> None:
        if not isinstance(data, dict):
            return
        kind = data.get("type")
        if kind == "content_block_delta":
            self._delta(place(data.get("index")), data.get("delta"))
        elif kind == "content_block_start":
            self._start(place(data.get("index")), data.get("content_block"))
        elif kind == "message_start":
            self._message(data.get("message"))
        elif kind == "message_delta":
            self._end(data.get("delta"))
            self._count(data.get("usage"))
        elif kind == "message_stop":
            self.done = self.ended = True
        elif kind == "error" or data.get("error"):
            self.error = data.get("error") or data

    def _message(self, message: Any) -> None:
        if isinstance(message, dict):
            self._model = str(message.get("model") or "")
            self._count(message.get("usage"))

    def _start(self, index: object, raw: Any) -> None:
        if not isinstance(raw, dict) or not isinstance(raw.get("type"), str):
            return
        block = self._blocks[index] = _Block(dict(raw))
        if block.kind == "text":
            self._say(block, raw.get("text"))
            self._citations(raw.get("citations"))
        elif block.kind == "thinking":
            self._think(block, raw.get("thinking"))

    def _delta(self, index: object, delta: Any) -> None:
        block = self._blocks.get(index)
        if block is None or not isinstance(delta, dict):
            return
        kind = delta.get("type")
        if kind == "text_delta":
            self._say(block, delta.get("text"))
        elif kind == "thinking_delta":
            self._think(block, delta.get("thinking"))
        elif kind == "signature_delta":
            block.raw["signature"] = delta.get("signature")
        elif kind == "input_json_delta":
            block.parts.append(str(delta.get("partial_json") or ""))
            self._write_call(list(self._blocks).index(index), block.name, block.parts[-1])
        elif kind == "citations_delta":
            self._citations([delta.get("citation")])

    def _say(self, block: _Block, text: Any) -> None:
        if isinstance(text, str) and text:
            block.length += len(text)
            self._text(text)

    def _think(self, block: _Block, text: Any) -> None:
        if isinstance(text, str) and text:
            block.thinking.append(text)
            self._reason(text)

    def _citations(self, citations: Any) -> None:
        for citation in dicts(citations):
            self._cite(source(citation) or str(citation.get("document_title") or ""))

    def _end(self, delta: Any) -> None:
        reason = delta.get("stop_reason") if isinstance(delta, dict) else None
        if isinstance(reason, str) and reason:
            self._finish = _FINISH.get(reason, reason)
            self.ended = True

    def _count(self, usage: Any) -> None:
        """Later counts replace earlier ones. What was read from or written to the cache is counted apart."""
        if not isinstance(usage, dict):
            return
        self._counts |= {name: value for name, value in usage.items() if isinstance(value, int)}
        counts = self._counts
        cached = count(counts, "cache_read_input_tokens")
        written = count(counts, "cache_creation_input_tokens")
        prompt = count(counts, "input_tokens") + written + cached
        completion = count(counts, "output_tokens")
        self._usage = Usage(prompt, completion, prompt + completion, cached, "provider", written)
