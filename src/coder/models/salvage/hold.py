"""Holds back the part of a streamed answer that may be a tool call."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from coder.models.model import FILTERED, CallReady, Chunk, Completed, Restarted, TextDelta
from coder.models.quotation import is_quoted
from coder.models.salvage.find_calls import (
    ARGUMENT_KEYS,
    BESIDE,
    ELEMENT,
    FENCE,
    FORMS,
    HARMONY_BEGINS,
    LANGUAGES,
    MAY_BE_SPECIAL,
    MINIMAX_END,
    MOST_PROSE,
    NAME_KEYS,
    NAMED,
    OPENERS,
    STILL_THINKING,
    THOUGHT,
    WRAPPERS,
    Blocks,
    IsCall,
    asks_to_see_calls,
    find_calls,
    tool_named,
)
from coder.protocol.messages import Message, ToolSpec, tool_call

Prospect = Literal["no", "unclear", "likely"]

_UNCLEAR_LIMIT = 300  # characters held back without a tool name in them
_LIKELY_LIMIT = 262_144  # with one: the call may contain a file
_TAG_LIMIT = 64  # characters that the tags around a thought have at most
_GROWTH = 1.25  # reassessed at this growth factor, to keep the total cost linear

_BEGINNING = re.compile(rf"^[ \t]*(?=[`~{{\[<]|functools\[)|(?={MAY_BE_SPECIAL.pattern})", re.MULTILINE)
_KEY = re.compile(r"[\[{\s]*(?:([\"']?)([A-Za-z_]*)(\1)\s*(:)?\s*)?(?:([\"'])([^\"']*)(\5)?)?")
_NAME = re.compile(rf"[\"'](?:{'|'.join(NAME_KEYS)})[\"']\s*:\s*[\"']([^\"']+)[\"']", re.IGNORECASE)
_TAGS = (
    "tool_call",
    "tool_calls",
    "function_call",
    "function_calls",
    "tool_use",
    "tool_code",
    "tools",
    "tool",
)
_OPENERS = (*(f"<{tag}" for tag in _TAGS), "<function", "<invoke", "<action", "<call", "<|python_tag|>")
_OPENERS_WITH_BARS = ("<|tool_call", "[TOOL_CALLS]", "functools[")


class CallBuffer:
    """`feed` returns the text that may be shown; `held` is the rest."""

    def __init__(self, tools: Sequence[ToolSpec], is_call: IsCall, shown: str) -> None:
        self._tools = tools
        self._is_call = is_call
        self._shown = len(shown)
        self._line = shown.rpartition("\n")[2]  # the unfinished line of the shown text
        self._first, self._last = shown[:_TAG_LIMIT], shown[-_TAG_LIMIT:]  # characters of the shown text
        self._thought = False  # the thought that the answer began with has ended
        self.held = ""
        self._assessed_size = 0
        self._prospect: Prospect = "unclear"

    def feed(self, text: str) -> str:
        self.held += text
        shown = ""
        while self.held:
            if not self._thought and STILL_THINKING.match(self._first + self.held[:_TAG_LIMIT]):
                shown += self._think()
                continue
            if self._shown > MOST_PROSE:  # too much text precedes it
                return shown + self._release(len(self.held))
            begins = self._beginning()
            if begins < 0:
                return shown + self._release(len(self.held))
            shown += self._release(begins)
            if self._may_be_call():
                return shown
            shown += self._release(self._next_beginning())
        return shown

    def _think(self) -> str:
        """Show what belongs to the thought that the answer begins with: it is no prose before a call."""
        end = THOUGHT.match(self._last + self.held)
        text = self._release(len(self.held) if end is None else end.end() - len(self._last))
        if end is not None:
            self._thought, self._shown = True, 0
        return text

    def _next_beginning(self) -> int:
        """How much of what is no call may be shown: up to the end of its line, or the next special token."""
        line = self.held.find("\n", 1)
        end = len(self.held) if line < 0 else line + 1
        special = MAY_BE_SPECIAL.search(self.held, 1, end)
        return special.start() if special is not None else end

    def _release(self, count: int) -> str:
        text, self.held = self.held[:count], self.held[count:]
        if text:
            self._shown += len(text)
            self._first = (self._first + text)[:_TAG_LIMIT]
            self._last = (self._last + text)[-_TAG_LIMIT:]
            self._line = (self._line + text).rpartition("\n")[2]
            self._assessed_size, self._prospect = 0, "unclear"
        return text

    def _beginning(self) -> int:
        """The start of a line that begins like a call; -1 if there is none."""
        for found in _BEGINNING.finditer(self.held):
            at = found.end()
            if found.start() or not self._line.strip() or MAY_BE_SPECIAL.match(self.held, at):
                return at
        return -1

    def _may_be_call(self) -> bool:
        size = len(self.held)
        if not self._assessed_size or size >= self._assessed_size * _GROWTH or size < _UNCLEAR_LIMIT:
            self._assessed_size = size
            self._prospect = self._assess()
        limits = {"no": 0, "unclear": _UNCLEAR_LIMIT, "likely": _LIKELY_LIMIT}
        return size <= limits[self._prospect]

    def _assess(self) -> Prospect:
        reader = Blocks(self.held, self._tools, self._is_call)
        block = reader.block(0)
        if block is None:
            return prospect(self.held, self._tools, self._is_call)
        rest = self.held[block[1] :].lstrip(" \t\r\n,;")
        if not rest or rest.startswith(("</", "<|", "<｜")) or MINIMAX_END.startswith(rest):
            return "likely"
        return prospect(rest, self._tools, self._is_call)

    def cut_call(self) -> CallReady | None:
        """The call truncated by the output limit, with a fault for the model; None if it was none."""
        name = _named_tool(self.held)
        if not name or not self._is_call(name, None):
            return None
        fault = (
            f"The call of `{name}` was cut off by the output limit before its arguments were complete, so it "
            "was not run. Send it again with less content, for example in several smaller calls."
        )
        return CallReady(tool_call(f"call_{os.urandom(9).hex()}", name, "{}"), fault=fault)


def prospect(text: str, tools: Sequence[ToolSpec], is_call: IsCall) -> Prospect:
    """Whether a text with this beginning may become a call."""
    fence = FENCE.match(text)
    if fence is not None:
        if fence.end() == len(text) and not fence[0].endswith("\n"):
            return "unclear"  # the language is incomplete
        if fence[2].lower() not in LANGUAGES:
            return "no"
        text = text[fence.end() :]
        return _inner_prospect(text, tools, is_call) if text.strip() else "unclear"
    if set(text) <= set("`~ "):
        return "unclear"
    return _inner_prospect(text, tools, is_call)


def _inner_prospect(text: str, tools: Sequence[ToolSpec], is_call: IsCall) -> Prospect:
    text = text.lstrip()
    if text.startswith("<") or text.startswith(_OPENERS_WITH_BARS) or "[TOOL_CALLS]".startswith(text):
        return _tag_prospect(text, tools)
    if not text.startswith(("{", "[")):
        return "no"
    key = _KEY.match(text)
    if key is None or (text.startswith("[") and text[1:].strip() and not text[1:].lstrip().startswith("{")):
        return "no"
    name = key[2].lower() if key[2] else ""
    if not key[4]:  # the key is incomplete
        known = (*NAME_KEYS, *ARGUMENT_KEYS, *BESIDE, *WRAPPERS)
        may_become = any(one.startswith(name) for one in known) and key.end() == len(text)
        return "unclear" if may_become else "no"
    if name in NAME_KEYS and key[5]:
        if not key[7]:
            return "unclear" if key.end() == len(text) else "no"
        return "likely" if is_call(key[6].removeprefix("functions."), None) else "no"
    return "unclear" if name in (*NAME_KEYS, *ARGUMENT_KEYS, *BESIDE, *WRAPPERS) else "no"


def _tag_prospect(text: str, tools: Sequence[ToolSpec]) -> Prospect:
    if HARMONY_BEGINS.match(text) or any(form.match(text) for form in FORMS):
        return "likely"
    element = ELEMENT.match(text)
    if element is not None:
        return "likely" if any(spec.name == element[1] for spec in tools) else "no"
    start = text.lower()
    openers = (*_OPENERS, *_OPENERS_WITH_BARS, *OPENERS, *(f"<{spec.name}>" for spec in tools))
    if any(one.startswith(start) for one in OPENERS):
        return "unclear"
    if ">" in text or "\n" in text:
        return "no"
    may_be = any(one.lower().startswith(start) or start.startswith(one.lower()) for one in openers)
    return "unclear" if may_be else "no"


def _named_tool(text: str) -> str:
    """The tool that an incomplete call names, or ""."""
    said = _NAME.search(text[:_UNCLEAR_LIMIT])
    tag = NAMED.search(text[:_UNCLEAR_LIMIT])
    element = ELEMENT.match(text)
    named = said[1] if said else tag[2] if tag else ""
    return named or tool_named(text) or (element[1] if element else "")


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
