"""Converts the events of a Gemini answer to chunks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from coder.models.wires.answer_stream import AnswerStream, count, dicts, source
from coder.models.wires.wire import PartList
from coder.protocol.messages import Opaque, Usage

_FINISH = {"STOP": "", "MAX_TOKENS": "length", "FINISH_REASON_UNSPECIFIED": ""}
_FILTERED = ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED", "SPII", "LANGUAGE")


class _Call(msgspec.Struct, frozen=True):
    id: str
    name: str
    arguments: str


class GeminiStream(AnswerStream):
    """One answer."""

    def __init__(self, used_ids: Iterable[str], origin: str, model: str) -> None:
        super().__init__(used_ids)
        self._origin = origin
        self._asked_model = model
        self._calls: list[_Call] = []
        self._parts = PartList()

    def calls(self) -> list[_Call]:
        return self._calls

    def opaque(self) -> Opaque | None:
        return self._parts.opaque("gemini", self._origin, self._asked_model)

    def whole(self, data: Any) -> bool:
        self.event(data)
        return "candidates" in data or "promptFeedback" in data

    def event(self, data: Any) -> None:
        if not isinstance(data, dict):
            return
        if data.get("error"):
            self.error = data["error"]
            return
        for candidate in dicts(data.get("candidates"))[:1]:  # only one was requested
            self._candidate(candidate)
        feedback = data.get("promptFeedback")
        if isinstance(feedback, dict) and feedback.get("blockReason"):
            self._finish, self.ended = "content_filter", True
        if isinstance(data.get("modelVersion"), str):
            self._model = data["modelVersion"]
        if isinstance(data.get("usageMetadata"), dict):
            self._usage = _usage(data["usageMetadata"])

    def _candidate(self, candidate: dict[str, Any]) -> None:
        content = candidate.get("content")
        for part in dicts(content.get("parts") if isinstance(content, dict) else None):
            self._part(part)
        self._sources(candidate)
        reason = candidate.get("finishReason")
        if isinstance(reason, str) and reason:
            filtered = any(word in reason for word in _FILTERED)
            self._finish = "content_filter" if filtered else _FINISH.get(reason, reason.lower())
            self.ended = True

    def _part(self, part: dict[str, Any]) -> None:
        signature = part.get("thoughtSignature")
        signed = {"thoughtSignature": signature} if isinstance(signature, str) and signature else None
        text = part.get("text")
        call = part.get("functionCall")
        if isinstance(call, dict):
            self._call(call, signed)
        elif part.get("thought"):
            if isinstance(text, str) and text:
                self._reason(text)
            if signed:
                self._parts.item({**signed, "thought": True})
        elif isinstance(text, str) and (text or signed):
            self._parts.text(text, signed)
            if text:
                self._text(text)

    def _call(self, call: dict[str, Any], signed: dict[str, str] | None) -> None:
        name, own = call.get("name"), call.get("id")
        if not isinstance(name, str) or not name:
            return
        arguments = msgspec.json.encode(call.get("args") or {}).decode("utf-8")
        call_id = own if isinstance(own, str) else ""
        made = _Call(call_id, name, arguments)
        if call_id and made in self._calls:
            return  # repeated by a later event
        self._calls.append(made)
        raw = {**({"id": call_id} if call_id else {}), **(signed or {})}
        self._parts.call(raw or None)

    def _sources(self, candidate: dict[str, Any]) -> None:
        grounding, cited = candidate.get("groundingMetadata"), candidate.get("citationMetadata")
        for chunk in dicts(grounding.get("groundingChunks") if isinstance(grounding, dict) else None):
            found = chunk.get("web") or chunk.get("retrievedContext")
            if isinstance(found, dict):
                self._cite(source({"url": found.get("uri"), "title": found.get("title")}))
        if isinstance(cited, dict):
            for one in dicts(cited.get("citationSources") or cited.get("citations")):
                self._cite(source({"url": one.get("uri"), "title": one.get("title")}))


def _usage(usage: dict[str, Any]) -> Usage:
    prompt = count(usage, "promptTokenCount") + count(usage, "toolUsePromptTokenCount")
    completion = count(usage, "candidatesTokenCount") + count(usage, "thoughtsTokenCount")
    cached = min(prompt, count(usage, "cachedContentTokenCount"))
    total = count(usage, "totalTokenCount") or prompt + completion
    return Usage(prompt, completion, total, cached, "provider")
