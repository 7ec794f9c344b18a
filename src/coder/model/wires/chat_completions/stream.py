"""Converts Chat Completions events to chunks, tolerating the deviations of known servers.

Takes decoded events, or one non-streamed response. Tool calls are emitted at the end, when it is known
whether the answer is complete.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import msgspec

from coder.model.arguments import call_ready
from coder.model.base import CallReady, Chunk, CitationFound, Completed, Progress, ReasoningDelta, TextDelta
from coder.protocol.usage import Usage


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


class ChatStream:
    """One answer. `ended`: the finish reason has arrived; `error`: the server's error object."""

    def __init__(self, used_ids: Iterable[str] = ()) -> None:
        self.ended = False
        self.error: Any = None
        self._finish = ""
        self._usage: Usage | None = None
        self._model = ""
        self._calls: list[_Call] = []
        self._used = set(used_ids)
        self._cited: set[str] = set()
        self._out: list[Chunk] = []

    def take(self) -> list[Chunk]:
        """The chunks since the last `take`."""
        out, self._out = self._out, []
        return out

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
        for name in ("delta", "message"):
            delta = choice.get(name)
            if isinstance(delta, dict):
                self._delta(delta)
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
        for at, call in enumerate(_dicts(delta.get("tool_calls"))):
            self._call_delta(call, at)
        function = delta.get("function_call")
        if isinstance(function, dict):
            self._call_delta({"index": "function_call", "function": function}, 0)
        self._annotations(delta.get("annotations"))

    def _text(self, text: str) -> None:
        self._out.append(TextDelta(text))

    def _reason(self, text: str) -> None:
        self._out.append(ReasoningDelta(text))

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
        if call_id and latest.id:
            return call_id != latest.id
        if text and latest.whole:
            return name != latest.name or text != latest.arguments
        return index is None and bool(latest.name) and name != latest.name

    def _call_id(self, wanted: str) -> str:
        while not wanted or wanted in self._used:
            wanted = f"call_{os.urandom(9).hex()}"
        self._used.add(wanted)
        return wanted

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
                self._cite(citation if isinstance(citation, str) else _source(citation))

    def _annotations(self, annotations: Any) -> None:
        for annotation in _dicts(annotations):
            inner = annotation.get("url_citation")
            self._cite(_source(inner if isinstance(inner, dict) else annotation))

    def _cite(self, text: str) -> None:
        if text and text not in self._cited:
            self._cited.add(text)
            self._out.append(CitationFound(text))

    def finish(self) -> list[Chunk]:
        """The last chunks: calls, then `Completed`."""
        out = self.take()
        calls: list[CallReady] = [
            call_ready(self._call_id(call.id), call.name, call.arguments, self._finish)
            for call in self._calls
            if call.name
        ]
        reason = self._finish or ("tool_calls" if calls else "stop")
        return [*out, *calls, Completed(finish_reason=reason, usage=self._usage, model=self._model)]


def merged(chunks: list[Chunk]) -> list[Chunk]:
    """Merge neighbouring deltas of the same kind."""
    out: list[Chunk] = []
    run: list[str] = []
    kind: type[TextDelta] | type[ReasoningDelta] = TextDelta
    for chunk in chunks:
        if isinstance(chunk, TextDelta | ReasoningDelta):
            if run and chunk.__class__ is not kind:
                out.append(kind("".join(run)))
                run = []
            kind = chunk.__class__
            run.append(chunk.text)
            continue
        if run:
            out.append(kind("".join(run)))
            run = []
        out.append(chunk)
    if run:
        out.append(kind("".join(run)))
    return out


def read_usage(usage: dict[str, Any]) -> Usage:
    """Token counts, under the names that different servers use."""
    prompt, completion = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    prompt = prompt or _count(usage, "input_tokens")
    completion = completion or _count(usage, "output_tokens")
    details = usage.get("prompt_tokens_details")
    cached = _count(details, "cached_tokens") if isinstance(details, dict) else 0
    cached = cached or _count(usage, "prompt_cache_hit_tokens") or _count(usage, "cached_tokens")
    return Usage(
        prompt=prompt,
        completion=completion,
        total=_count(usage, "total_tokens") or prompt + completion,
        cached=min(cached, prompt),  # some servers count more than they were sent
        source="provider",
    )


def _count(usage: dict[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) and value > 0 else 0


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _reasoning(delta: dict[str, Any]) -> str:
    for name in ("reasoning_content", "reasoning"):
        if isinstance(delta.get(name), str) and delta[name]:
            return str(delta[name])
    # OpenRouter's structured form repeats the plain one, so it is a fallback.
    details = _dicts(delta.get("reasoning_details"))
    return "".join(str(d.get("text") or d.get("summary") or "") for d in details)


def _parts(content: Any) -> list[tuple[str, str]]:
    """Content as text, or as a list of typed parts (Mistral: `thinking` contains a list)."""
    if isinstance(content, str):
        return [("text", content)] if content else []
    found: list[tuple[str, str]] = []
    for part in _dicts(content):
        kind = "thinking" if part.get("type") in ("thinking", "reasoning") else "text"
        text = part.get("thinking") if "thinking" in part else part.get("text")
        if isinstance(text, list):
            text = "".join(str(inner.get("text") or "") for inner in _dicts(text))
        if isinstance(text, str) and text:
            found.append((kind, text))
    return found


def _source(citation: Any) -> str:
    if not isinstance(citation, dict):
        return ""
    url, title = str(citation.get("url") or ""), str(citation.get("title") or "").strip()
    return f"{title} ({url})" if title and url else url or title
