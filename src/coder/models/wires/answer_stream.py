"""The answer's side of a wire: its event stream is decoded, and becomes chunks.

Loaded when the response has come, so that the request goes out sooner.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Protocol

import msgspec

from coder.base.http.sse import SseParser
from coder.models.arguments import call_ready
from coder.models.model import (
    CallDelta,
    CallReady,
    Chunk,
    CitationFound,
    Completed,
    ReasoningDelta,
    TextDelta,
)
from coder.protocol.messages import Opaque, Usage
from coder.protocol.structs import whole_characters

_decode = msgspec.json.decode
_FIRST_HALF = r'(?<!\\)\\u[dD][89abAB][0-9a-fA-F]{2}(?=")'  # at the end of a JSON text
_SECOND_HALF = r'"(?=\\u[dD][c-fC-F])'  # at its beginning
_MOST_TOKENS = 1 << 40  # what is more was not counted by anyone


class SentCall(Protocol):
    """A tool call as a stream has assembled it."""

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def arguments(self) -> str: ...


class AnswerStream(ABC):
    """One answer: decoded events in, chunks out.

    `ended`: the finish reason has arrived; `done`: nothing follows; `error`: the server's error object. Tool
    calls are emitted at the end, when it is known whether the answer is complete.
    """

    def __init__(self, used_ids: Iterable[str] = ()) -> None:
        self.ended = False
        self.done = False
        self.error: Any = None
        self._finish = ""
        self._usage: Usage | None = None
        self._model = ""
        self._used = set(used_ids)
        self._cited: set[str] = set()
        self._out: list[Chunk] = []

    @abstractmethod
    def event(self, data: Any) -> None:
        """One decoded event."""

    @abstractmethod
    def whole(self, data: Any) -> bool:
        """A complete, non-streamed answer; false if it is none."""

    @abstractmethod
    def calls(self) -> Sequence[SentCall]: ...

    def opaque(self) -> Opaque | None:
        """What the provider wants back with this answer, where there is such."""
        return None

    def take(self) -> list[Chunk]:
        """The chunks since the last `take`."""
        out, self._out = self._out, []
        return out

    def finish(self) -> list[Chunk]:
        """The last chunks: calls, then `Completed`."""
        out = self.take()
        calls: list[CallReady] = [
            call_ready(self._call_id(call.id), call.name, call.arguments, self._finish)
            for call in self.calls()
        ]
        reason = self._finish or ("tool_calls" if calls else "stop")
        end = Completed(finish_reason=reason, usage=self._usage, model=self._model, opaque=self.opaque())
        return [*out, *calls, end]

    def _text(self, text: str) -> None:
        self._out.append(TextDelta(text))

    def _reason(self, text: str) -> None:
        self._out.append(ReasoningDelta(text))

    def _write_call(self, number: int, name: str, text: str) -> None:
        if text:
            self._out.append(CallDelta(number, name, text))

    def _cite(self, text: str) -> None:
        if text and text not in self._cited:
            self._cited.add(text)
            self._out.append(CitationFound(text))

    def _call_id(self, wanted: str) -> str:
        while not wanted or wanted in self._used:
            wanted = f"call_{os.urandom(9).hex()}"
        self._used.add(wanted)
        return wanted


class EventReader:
    """SSE events decoded as JSON and fed to an answer. Invalid lines among valid ones are skipped."""

    def __init__(self) -> None:
        self._parser = SseParser()
        self.good = 0
        self.sample = ""  # of undecodable data
        self._half = ""  # of a character, with which a text of an earlier event ended

    def read(self, data: bytes, answer: AnswerStream) -> bool:
        texts = self._parser.feed(data) if data else self._parser.finish()
        for text in texts:
            if text[:1] == "{" or text.lstrip()[:1] == "{":
                if not self._event(text, answer):
                    for line in text.split("\n"):  # some servers omit the blank line between events
                        self._event(line, answer)
                if answer.done:
                    return True
            elif text.strip() == "[DONE]":
                return True
            else:
                self.sample = self.sample or text[:2000]
        return False

    def _event(self, text: str, answer: AnswerStream) -> bool:
        try:
            event = _decode(text)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            try:
                event = decoded(self._joined(text))
            except (msgspec.DecodeError, ValueError, RecursionError):
                self.sample = self.sample or text[:2000]
                return False
        self.good += 1
        answer.event(event)
        return True

    def _joined(self, text: str) -> str:
        """Join surrogate pairs (UTF-16) that are split between two events: servers in JavaScript do that."""
        if self._half and (found := re.search(_SECOND_HALF, text)):
            text = text[: found.end()] + self._half + text[found.end() :]
            self._half = ""
        if found := re.search(_FIRST_HALF, text):
            self._half = found.group()
            text = text[: found.start()] + text[found.end() :]
        return text


def decoded(text: str | bytes) -> Any:
    """Also with halves of characters, and with NaN and numbers out of range, which servers in Python write.
    Raises `ValueError` (`msgspec.DecodeError` is one), `RecursionError`."""
    try:
        return _decode(text)
    except msgspec.DecodeError:
        whole = whole_characters(text)
    try:
        return _decode(whole)
    except msgspec.DecodeError:
        import json

        return json.loads(whole)


async def first_bytes(body: AsyncIterator[bytes]) -> bytes:
    """Enough of the body to detect its format."""
    data = b""
    while len(data) < 4 or not data.strip():
        part = await anext(body, b"")
        if not part:
            break
        data += part
    return data


async def rest(body: AsyncIterator[bytes], limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in body:
        parts.append(part)
        size += len(part)
        if size > limit:
            break
    return b"".join(parts)


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


def dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def place(index: Any) -> int | str | None:
    """What tells one part of an answer from another; None for what no server means by it."""
    return index if isinstance(index, int | str) else None


def count(usage: Any, name: str) -> int:
    """A token count of a `usage` object; 0 if there is none."""
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if value.__class__ is int and 0 < value < _MOST_TOKENS else 0


def source(citation: Any) -> str:
    """A source as a person reads it."""
    if not isinstance(citation, dict):
        return ""
    url, title = str(citation.get("url") or ""), str(citation.get("title") or "").strip()
    return f"{title} ({url})" if title and url else url or title
