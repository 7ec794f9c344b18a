"""The adapter: an action is asked of the model, tool calls are handed to the engine."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import msgspec

from coder.model.base import (
    CallReady,
    ChatModel,
    Chunk,
    Completed,
    ModelError,
    ModelRequest,
    Restarted,
    TextDelta,
    closing,
)
from coder.model.guided.actions import Schema, calls_of, look_calls, offered, plan_update, schema_of
from coder.model.guided.opening import first_look
from coder.model.guided.render import rendered
from coder.model.guided.state import State, read_state
from coder.model.quotation import is_quoted
from coder.protocol.usage import NOT_ASKED, Usage

_LONGEST = 1_500  # tokens of one action
_WARMER = 0.4  # temperature once an action was repeated or failed
# How the answer is constrained, in the order tried; a server that rejects one is asked with the next.
_WAYS = ("llama.cpp", "schema", "grammar", "free")


class Guided:
    """`inner` is never given tools."""

    def __init__(self, inner: ChatModel) -> None:
        self._inner = inner
        self._way = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        if not request.tools:  # a side request: a summary, a question of the engine's
            async with closing(self._inner.stream(request)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        names = {tool.name for tool in request.tools}
        state = read_state(request.messages)
        if wanted := first_look(state, names) or plan_update(state):
            for call in look_calls(wanted):
                yield CallReady(call)
            yield Completed("tool_calls", Usage(source=NOT_ASKED), request.model)
            return
        actions = offered(state, names)
        parts: list[str] = []
        completed = Completed("stop")
        async with closing(self._asked(request, state, actions)) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, TextDelta):
                    parts.append(chunk.text)
                elif isinstance(chunk, Completed):
                    completed = chunk
                else:
                    if isinstance(chunk, Restarted):
                        parts.clear()
                    yield chunk
        text = "".join(parts)
        action, written = _read(text)
        if action and _WAYS[self._way] == "free" and is_quoted(written, request.messages, state.task):
            action = None
        for chunk in _answer(text, action, state, completed):
            yield chunk

    async def close(self) -> None:
        await self._inner.close()

    async def _asked(
        self, request: ModelRequest, state: State, actions: Mapping[str, Schema]
    ) -> AsyncGenerator[Chunk, None]:
        messages = rendered(request.messages)
        while True:
            extra = {
                **_fields(_WAYS[self._way], actions),
                "max_tokens": _LONGEST,
                "temperature": _heat(state),
            }
            asked = msgspec.structs.replace(request, messages=messages, tools=(), extra=extra)
            try:
                async with closing(self._inner.stream(asked)) as chunks:
                    async for chunk in chunks:
                        yield chunk
            except ModelError as error:
                if error.kind != "bad_request" or self._way == len(_WAYS) - 1:
                    raise
                self._way += 1
            else:
                return


def _heat(state: State) -> float:
    return _WARMER if state.stuck or state.repeated or state.failing or state.broken else 0.0


def _fields(way: str, actions: Mapping[str, Schema]) -> dict[str, Any]:
    if way == "free":
        return {}
    schema = schema_of(actions)
    if way == "grammar":
        from coder.model.guided.grammar import grammar_of

        return {"grammar": grammar_of(schema)}
    form = {"type": "json_schema", "json_schema": {"name": "action", "strict": True, "schema": schema}}
    if way == "schema":
        return {"response_format": form}
    # One slot, whose cache holds the prefix; and word on how far a long prompt is.
    return {"response_format": form, "cache_prompt": True, "id_slot": 0, "return_progress": True}


def _answer(text: str, action: dict[str, Any] | None, state: State, completed: Completed) -> Sequence[Chunk]:
    replaced = msgspec.structs.replace
    if action is None:
        return [TextDelta(text), replaced(completed, raw=text)]
    if calls := calls_of(action, state):
        ready = [CallReady(call) for call in calls]
        return [*ready, replaced(completed, finish_reason="tool_calls", raw=text)]
    told = action.get("answer") or action.get("why") or text
    return [TextDelta(str(told)), replaced(completed, finish_reason="stop", raw=text)]


def _read(text: str) -> tuple[dict[str, Any] | None, str]:
    """The action in an answer, also of a server that constrains nothing; and how it is written."""
    from coder.model.json_repair import NotReadable, read_lenient

    start = text.find("{")
    if start < 0:
        return None, ""
    try:
        value, end = read_lenient(text[start:], open_number=True)
    except (NotReadable, ValueError, OverflowError, RecursionError):
        return None, ""
    return value if isinstance(value, dict) and "do" in value else None, text[start:][:end]
