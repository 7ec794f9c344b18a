"""Converts tool calls in an answer's text into real calls (lenient parsing).

Text is passed on as it streams. What begins like a call is held back until it is clear whether it is one, so
that the person does not see its JSON.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from coder.model.base import FILTERED, CallReady, Chunk, Completed, Restarted, TextDelta
from coder.protocol.messages import Message, ToolSpec, tool_call

if TYPE_CHECKING:
    from coder.model.salvage.find import IsCall
    from coder.model.salvage.hold import CallBuffer

_FINAL = re.compile(r"<final\s*>", re.IGNORECASE)  # of the ReAct dialect: what it holds is an answer
_MAY_BEGIN_A_CALL = "{<[`~"


class CallSalvager:
    """`take` every chunk of an answer; it returns the chunks to use instead."""

    def __init__(
        self,
        tools: Sequence[ToolSpec],
        is_call: IsCall,
        asked: str = "",
        *,
        read: Sequence[Message] = (),
        typed: str = "",
    ) -> None:
        """`asked`: the person's message, which may ask what a call looks like. `read`: what the model may
        be quoting; `typed`: see `is_quoted`."""
        self._tools = tools
        self._is_call = is_call
        self._asked = asked
        self._read, self._typed = read, typed
        self._begin()

    def _begin(self) -> None:
        self._texts: list[str] = []
        self._calls = False
        self._buffer: CallBuffer | None = None  # imported lazily, at the first sign of a call

    def rest(self) -> str:
        """The text held back, for an answer that was interrupted."""
        buffer, self._buffer = self._buffer, None
        return buffer.held if buffer is not None else ""

    def take(self, chunk: Chunk) -> Sequence[Chunk]:
        if not self._tools:
            return (chunk,)
        if isinstance(chunk, TextDelta):
            return self._text(chunk)
        if isinstance(chunk, CallReady) and not self._calls:
            self._calls = True
            return (*self._released(), chunk)
        if isinstance(chunk, Restarted):
            self._begin()
        elif isinstance(chunk, Completed):
            return self._completed(chunk)
        return (chunk,)

    def _text(self, chunk: TextDelta) -> Sequence[Chunk]:
        self._texts.append(chunk.text)
        if self._buffer is None:
            if self._calls or not any(sign in chunk.text for sign in _MAY_BEGIN_A_CALL):
                return (chunk,)
            from coder.model.salvage.hold import CallBuffer

            self._buffer = CallBuffer(self._tools, self._is_call, "".join(self._texts[:-1]))
        shown = self._buffer.feed(chunk.text)
        return (TextDelta(shown),) if shown else ()

    def _released(self) -> Sequence[Chunk]:
        held = self.rest()
        return (TextDelta(held),) if held else ()

    def _completed(self, end: Completed) -> Sequence[Chunk]:
        buffer = self._buffer
        if buffer is None or self._calls:
            return (*self._released(), end)
        from coder.model.quotation import is_quoted
        from coder.model.salvage.find import asks_to_see_calls, find_calls

        text = "".join(self._texts)
        filtered = end.finish_reason.lower() in FILTERED
        if filtered or asks_to_see_calls(self._asked) or _FINAL.search(end.raw):
            return (*self._released(), end)
        if end.finish_reason == "length":
            ready = buffer.cut_call()
            if ready is None:
                return (*self._released(), end)
            self._buffer = None
            return ready, _as_calls(end, text)
        found = find_calls(text, self._tools, self._is_call)
        if found is None or any(is_quoted(block, self._read, self._typed) for block in found.blocks):
            return (*self._released(), end)
        self._buffer = None
        shown = len(text) - len(buffer.held)
        before = buffer.held if found.start < shown else text[shown : found.start].rstrip()
        calls = [CallReady(tool_call(f"call_{os.urandom(9).hex()}", *call)) for call in found.calls]
        return (*([TextDelta(before)] if before else []), *calls, _as_calls(end, text))


def _as_calls(end: Completed, text: str) -> Completed:
    return msgspec.structs.replace(end, finish_reason="tool_calls", raw=end.raw or text, salvaged=True)
