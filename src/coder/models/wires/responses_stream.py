"""Converts the events of a Responses answer to chunks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coder.models.wires.answer_stream import AnswerStream, count, dicts, place, source
from coder.models.wires.wire import PartList
from coder.protocol.messages import Opaque, Usage

_INCOMPLETE = {"max_output_tokens": "length", "content_filter": "content_filter"}
_KEPT = ("type", "id", "summary", "content", "encrypted_content")  # of a reasoning item


class _Item:
    """An output item being assembled. `raw`: the newest form of it that came whole."""

    def __init__(self) -> None:
        self.key = ""  # its id, once known
        self.raw: dict[str, Any] = {}
        self.deltas: list[str] = []
        self.text = ""  # as it was emitted
        self.reasoned = False  # something of its reasoning was emitted

    @property
    def kind(self) -> object:
        return self.raw.get("type")

    @property
    def id(self) -> str:
        return str(self.raw.get("call_id") or self.raw.get("id") or "")

    @property
    def name(self) -> str:
        return str(self.raw.get("name") or "")

    @property
    def arguments(self) -> str:
        return str(self.raw.get("arguments") or "") or "".join(self.deltas)


class ResponseStream(AnswerStream):
    """One answer."""

    def __init__(self, used_ids: Iterable[str], origin: str, model: str) -> None:
        super().__init__(used_ids)
        self._origin = origin
        self._asked_model = model
        self._items: list[_Item] = []
        self._by_place: dict[object, _Item] = {}

    def calls(self) -> list[_Item]:
        return [item for item in self._items if item.kind == "function_call" and item.name]

    def opaque(self) -> Opaque | None:
        parts = PartList()
        for item in self._items:
            if item.kind == "function_call" and item.name:
                parts.call()
            elif item.kind == "reasoning" and item.raw.get("encrypted_content"):
                parts.item({name: item.raw[name] for name in _KEPT if item.raw.get(name) is not None})
            elif item.text:
                phase = item.raw.get("phase")
                parts.text(item.text, {"phase": phase} if phase else None)
        return parts.opaque("responses", self._origin, self._asked_model)

    def whole(self, data: Any) -> bool:
        if data.get("object") != "response" and not data.get("output"):
            self.error = data.get("error")
            return False
        self._end(data)
        return True

    def event(self, data: Any) -> None:
        if not isinstance(data, dict):
            return
        kind, delta = str(data.get("type") or ""), data.get("delta")
        if kind.endswith(".delta") and isinstance(delta, str):
            self._delta(kind, self._item(data.get("output_index"), data.get("item_id")), delta)
        elif kind in ("response.output_item.added", "response.output_item.done"):
            self._whole_item(data.get("output_index"), data.get("item"), done=kind.endswith("done"))
        elif kind == "response.reasoning_summary_part.added" and data.get("summary_index"):
            self._reason("\n\n")
        elif kind == "response.output_text.annotation.added":
            self._annotations([data.get("annotation")])
        elif kind in ("response.completed", "response.incomplete", "response.failed"):
            self._end(data.get("response"))
        elif kind == "error" or (not kind and data.get("error")):
            self.error = data.get("error") or data

    def _item(self, index: object, own: object) -> _Item:
        """By its id, else by its place: servers count places in more than one way."""
        key = own if isinstance(own, str) else ""
        item = next((item for item in self._items if key and item.key == key), None)
        if item is None:
            item = self._by_place.get(place(index))
            if item is None or (key and item.key):
                item = self._by_place[place(index)] = _Item()
                self._items.append(item)
            item.key = item.key or key
        return item

    def _delta(self, kind: str, item: _Item, delta: str) -> None:
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            item.text += delta
            self._text(delta)
        elif kind == "response.function_call_arguments.delta":
            item.deltas.append(delta)
            self._write_call(self._items.index(item), item.name, delta)
        elif kind in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
            item.reasoned = True
            self._reason(delta)

    def _whole_item(self, index: object, raw: Any, *, done: bool) -> None:
        if not isinstance(raw, dict):
            return
        item = self._item(index, raw.get("id") or raw.get("call_id"))
        item.raw = raw
        if not done:
            return
        for part in dicts(raw.get("content")) if item.kind == "message" else ():
            self._annotations(part.get("annotations"))
        text = "".join(str(p.get("text") or p.get("refusal") or "") for p in dicts(raw.get("content")))
        if item.kind == "message" and text.startswith(item.text) and text != item.text:
            self._text(text[len(item.text) :])  # a server that sends no deltas
            item.text = text
        summary = "\n\n".join(str(part.get("text") or "") for part in dicts(raw.get("summary")))
        if summary and not item.reasoned:
            item.reasoned = True
            self._reason(summary)

    def _annotations(self, annotations: Any) -> None:
        for annotation in dicts(annotations):
            self._cite(source(annotation))

    def _end(self, response: Any) -> None:
        """The response as a whole, which repeats all items."""
        if not isinstance(response, dict):
            response = {}
        if response.get("error") or response.get("status") == "failed":
            self.error = response.get("error") or {"message": "the response failed"}
            return
        for index, raw in enumerate(dicts(response.get("output"))):
            self._whole_item(index, raw, done=True)
        self._model = str(response.get("model") or "")
        details = response.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) else None
        self._finish = _INCOMPLETE.get(str(reason), str(reason)) if reason else ""
        if isinstance(response.get("usage"), dict):
            self._usage = _usage(response["usage"])
        self.ended = self.done = True


def _usage(usage: dict[str, Any]) -> Usage:
    prompt, completion = count(usage, "input_tokens"), count(usage, "output_tokens")
    details = usage.get("input_tokens_details")
    cached = min(prompt, count(details, "cached_tokens"))
    written = min(prompt, count(details, "cache_write_tokens"))
    total = count(usage, "total_tokens") or prompt + completion
    return Usage(prompt, completion, total, cached, "provider", written)
