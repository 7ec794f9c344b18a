"""Converts Chat Completions events to chunks, tolerating the deviations of known servers.

Takes decoded events, or one non-streamed response.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from coder.models.model import Progress
from coder.models.wires.answer_stream import AnswerStream, count, dicts, source
from coder.protocol.messages import Usage


def _share(progress: dict[str, Any]) -> float:
    done, total = progress.get("processed"), progress.get("total")
    return min(1.0, done / total) if isinstance(done, int) and isinstance(total, int) and total > 0 else 0.0


class _Call:
    """A tool call being assembled from deltas."""

    def __init__(self, key: object) -> None:
        self.key = key
        self.id = ""
        self.name = ""
        self.parts: list[str] = []

    @property
    def arguments(self) -> str:
        return "".join(self.parts)

    @property
    def whole(self) -> bool:
        """Whether the arguments so far are a complete JSON object."""
        try:
            return isinstance(msgspec.json.decode(self.arguments), dict)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            return False


class ChatStream(AnswerStream):
    """One answer."""

    def __init__(self, used_ids: Iterable[str] = ()) -> None:
        super().__init__(used_ids)
        self._calls: list[_Call] = []
        self._begun = False  # something was said or called

    def calls(self) -> list[_Call]:
        return [call for call in self._calls if call.name]

    def whole(self, data: Any) -> bool:
        self.event(data)
        return bool(data.get("choices"))

    def event(self, data: Any) -> None:
        """One decoded event."""
        if not isinstance(data, dict):
            return
        choices = data.get("choices")
        if data.get("error") or data.get("object") == "error":
            self.error = data.get("error") or data
            return
        if isinstance(choices, list):
            for choice in choices[:1]:  # only one was requested
                if isinstance(choice, dict):
                    self._choice(choice)
        self._beside(data)

    def _choice(self, choice: dict[str, Any]) -> None:
        delta, message = choice.get("delta"), choice.get("message")
        if isinstance(delta, dict):
            self._delta(delta)
        if isinstance(message, dict) and not self._begun:  # else it repeats the deltas
            self._delta(message)
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self._finish = reason
            self.ended = True
        if isinstance(choice.get("usage"), dict):  # Moonshot puts it here
            self._usage = read_usage(choice["usage"])

    def _delta(self, delta: dict[str, Any]) -> None:
        content = delta.get("content")
        # Fast path: nearly every event is just {"content": …}, perhaps with the role.
        if content and content.__class__ is str and len(delta) == 1 + ("role" in delta):
            self._text(content)
            self._begun = True
            return
        reasoning = _reasoning(delta)
        if reasoning:
            self._reason(reasoning)
        for kind, text in _parts(content):
            if kind == "thinking":
                self._reason(text)
            else:
                self._text(text)
        if isinstance(delta.get("refusal"), str) and delta["refusal"]:
            self._text(delta["refusal"])
        for at, call in enumerate(dicts(delta.get("tool_calls"))):
            self._call_delta(call, at)
        function = delta.get("function_call")
        if isinstance(function, dict):
            self._call_delta({"index": "function_call", "function": function}, 0)
        self._annotations(delta.get("annotations"))
        self._begun = self._begun or bool(reasoning or content or delta.get("refusal") or self._calls)

    # tool calls

    def _call_delta(self, delta: dict[str, Any], at: int) -> None:
        function = delta.get("function")
        if not isinstance(function, dict):
            function = delta if "name" in delta or "arguments" in delta else {}
        name = function.get("name") if isinstance(function.get("name"), str) else ""
        call_id = delta.get("id") if isinstance(delta.get("id"), str) else ""
        arguments = function.get("arguments")
        if arguments is None:
            text = ""
        else:
            text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode("utf-8")
        call = self._call_for(delta.get("index"), call_id or "", name or "", text)
        if call_id and not call.id:
            call.id = call_id
        if name and not call.name:
            call.name = name
        elif name and name != call.name and not call.parts:
            call.name += name  # a name sent in pieces
        if text and not (name and call.parts and text == call.arguments and call.whole):
            call.parts.append(text)  # else: the complete call is repeated
            self._write_call(self._calls.index(call), call.name, text)

    def _call_for(self, index: object, call_id: str, name: str, text: str) -> _Call:
        """The call a delta belongs to: by index, else by id, else the latest; a new one if none matches."""
        known = [c for c in self._calls if index is not None and c.key == index]
        if index is None and call_id:
            known = [c for c in self._calls if c.id == call_id]
        elif index is None:
            known = self._calls
        latest = known[-1] if known else None
        if latest is None or (name and self._is_another(latest, index, call_id, name, text)):
            latest = _Call(index)
            self._calls.append(latest)
        return latest

    @staticmethod
    def _is_another(latest: _Call, index: object, call_id: str, name: str, text: str) -> bool:
        """Whether a named delta begins a new call: some servers send index 0 for every call, or none."""
        if call_id and latest.id and (call_id != latest.id or index is not None):
            return call_id != latest.id
        if text and latest.whole:
            if call_id and latest.id and latest.arguments == "{}":
                return False  # an empty object in place of the one that follows
            return name != latest.name or text != latest.arguments
        return index is None and bool(latest.name) and name != latest.name

    # metadata

    def _beside(self, data: dict[str, Any]) -> None:
        model = data.get("model")
        if isinstance(model, str) and model:
            self._model = model
        usage = data.get("usage")
        if usage is None and isinstance(data.get("x_groq"), dict):
            usage = data["x_groq"].get("usage")
        if isinstance(usage, dict):
            self._usage = read_usage(usage)
        if isinstance(done := data.get("prompt_progress"), dict):  # of llama.cpp
            self._out.append(Progress("reading", _share(done)))
        citations = data.get("citations")
        if isinstance(citations, list):
            for citation in citations:
                self._cite(citation if isinstance(citation, str) else source(citation))

    def _annotations(self, annotations: Any) -> None:
        for annotation in dicts(annotations):
            inner = annotation.get("url_citation")
            self._cite(source(inner if isinstance(inner, dict) else annotation))


def read_usage(usage: dict[str, Any]) -> Usage:
    """Token counts, under the names that different servers use."""
    prompt, completion = count(usage, "prompt_tokens"), count(usage, "completion_tokens")
    prompt = prompt or count(usage, "input_tokens")
    completion = completion or count(usage, "output_tokens")
    details = usage.get("prompt_tokens_details")
    cached = count(details, "cached_tokens")
    cached = cached or count(usage, "prompt_cache_hit_tokens") or count(usage, "cached_tokens")
    return Usage(
        prompt=prompt,
        completion=completion,
        total=count(usage, "total_tokens") or prompt + completion,
        cached=min(cached, prompt),  # some servers count more than they were sent
        source="provider",
        written=min(count(details, "cache_write_tokens"), prompt),
    )


def _reasoning(delta: dict[str, Any]) -> str:
    for name in ("reasoning_content", "reasoning"):
        if isinstance(delta.get(name), str) and delta[name]:
            return str(delta[name])
    # OpenRouter's structured form repeats the plain one, so it is a fallback.
    details = dicts(delta.get("reasoning_details"))
    return "".join(str(d.get("text") or d.get("summary") or "") for d in details)


def _parts(content: Any) -> list[tuple[str, str]]:
    """Content as text, or as a list of typed parts (Mistral: `thinking` contains a list)."""
    if isinstance(content, str):
        return [("text", content)] if content else []
    found: list[tuple[str, str]] = []
    for part in dicts(content):
        kind = "thinking" if part.get("type") in ("thinking", "reasoning") else "text"
        text = part.get("thinking") if "thinking" in part else part.get("text")
        if isinstance(text, list):
            text = "".join(str(inner.get("text") or "") for inner in dicts(text))
        if isinstance(text, str) and text:
            found.append((kind, text))
    return found
