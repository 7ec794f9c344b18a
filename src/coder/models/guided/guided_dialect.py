"""The adapter: an action is asked of the model, tool calls are handed to the engine."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import msgspec

from coder.models.guided.actions import (
    CHANGES,
    Schema,
    calls_of,
    check_again,
    first_look,
    function_at_fault,
    grammar_of,
    is_allowed,
    look_calls,
    offered,
    only_action,
    plan,
    plan_update,
    schema_of,
)
from coder.models.guided.render import rendered
from coder.models.guided.state import State, read_state
from coder.models.json_repair import NotReadable, read_lenient
from coder.models.model import (
    FILTERED,
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
from coder.models.quotation import is_quoted
from coder.protocol.messages import NOT_ASKED, Usage

_LONGEST = 2_500  # tokens of one answer
# The part of an action that is free text: it is asked for by itself, because a small model writes code worse
# inside a JSON string.
_MISSING = {"write": "content", "rewrite": "content", "done": "answer"}
_WARMER = 0.3  # of temperature, for each action that was repeated or failed
_WARMEST = 0.9
# How the answer is constrained, in the order tried; a server that rejects one is asked with the next.
_WAYS = ("llama.cpp", "schema", "grammar", "free")


class Answer:
    """The newest text, and how the requests ended: a file's text is a second one."""

    def __init__(self) -> None:
        self.text = ""
        self.completed = Completed("stop")

    def complete(self, chunk: Completed) -> None:
        before = self.completed.usage
        if before and chunk.usage:
            chunk = msgspec.structs.replace(chunk, usage=before.plus(chunk.usage))
        self.completed = chunk


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
        state = read_state(request.messages, request.task)
        wanted = first_look(state, names) or check_again(state, names)
        if wanted := wanted or plan(state, names) or plan_update(state):
            for call in look_calls(wanted):
                yield CallReady(call)
            yield Completed("tool_calls", Usage(source=NOT_ASKED), request.model)
            return
        actions = offered(state, names)
        action = only_action(actions)
        answer = Answer()
        if action is None:
            async with closing(self._asked(answer, request, state, actions=actions)) as chunks:
                async for chunk in chunks:
                    yield chunk
            action = _chosen(answer.text, request, state, actions)
        while action and (part := _MISSING.get(str(action.get("do")), "")) and part not in action:
            async with closing(self._asked(answer, request, state, action=action)) as chunks:
                async for chunk in chunks:
                    yield chunk
            action = _with_text(action, part, answer, request, state, actions)
        if answer.completed.finish_reason.lower() in FILTERED:
            action = None
        for chunk in _answer(answer, action, state):
            yield chunk

    async def close(self) -> None:
        await self._inner.close()

    async def _asked(
        self,
        answer: Answer,
        request: ModelRequest,
        state: State,
        *,
        actions: Mapping[str, Schema] | None = None,
        action: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[Chunk, None]:
        """One of `actions` is asked for, or the text that belongs to `action`."""
        messages = rendered(request.messages, state, action)
        answer.text = ""
        while True:
            extra = {
                **_fields(_WAYS[self._way], actions),
                "max_tokens": _LONGEST,
                "temperature": _heat(state, action),
            }
            if action and not str(action.get("path")).endswith(".md"):
                extra["stop"] = ["\n```\n"]
            asked = msgspec.structs.replace(request, messages=messages, tools=(), extra=extra)
            try:
                async with closing(self._inner.stream(asked)) as chunks:
                    async for chunk in chunks:
                        if isinstance(chunk, TextDelta):
                            answer.text += chunk.text
                        elif isinstance(chunk, Completed):
                            answer.complete(chunk)
                        else:
                            if isinstance(chunk, Restarted):
                                answer.text = ""
                            yield chunk
            except ModelError as error:
                if error.kind != "bad_request" or self._way == len(_WAYS) - 1:
                    raise
                self._way += 1
            else:
                return


def _chosen(
    text: str, request: ModelRequest, state: State, actions: Mapping[str, Schema]
) -> dict[str, Any] | None:
    """The action in an answer, unless it is quoted, or changes or runs something where that is not offered.
    Servers that take a schema and ignore it are not told apart, so this is looked at whatever was sent."""
    action, written = _read(text)
    if action is None or not is_allowed(action, actions):
        return None
    harmless = action["do"] not in (*CHANGES, "run")
    return action if harmless or not is_quoted(written, request.messages, request.typed) else None


def _with_text(
    action: dict[str, Any],
    part: str,
    answer: Answer,
    request: ModelRequest,
    state: State,
    actions: Mapping[str, Schema],
) -> dict[str, Any] | None:
    """The action with the text that was asked for, or another one: what the model did instead, or the same
    in other words where it has only copied what it saw."""
    if instead := _instead(answer.text, request, state, actions):
        return instead
    if part == "answer":
        return {**action, part: answer.text}
    code = code_in(answer.text) if answer.completed.finish_reason != "length" else ""
    if not code:
        return None
    path = str(action.get("path"))
    if (
        action["do"] == "write"
        and state.watch.is_copy(path, code)
        and (place := function_at_fault(state, path))
    ):
        return {"do": "rewrite", **place}
    return {**action, part: code}


def _heat(state: State, action: Mapping[str, Any] | None) -> float:
    """The temperature: higher with every failed attempt, since at 0 the same answer would come again. Not for
    the first rewrite of a function, whose prompt is another one."""
    attempts = state.stuck + max(state.repeated, state.faults) + state.failures
    attempts -= bool(attempts) and action is not None and action["do"] == "rewrite"
    return min(_WARMEST, _WARMER * attempts)


def _fields(way: str, actions: Mapping[str, Schema] | None) -> dict[str, Any]:
    # One slot, whose cache holds the prefix; and word on how far a long prompt is.
    here = {"cache_prompt": True, "id_slot": 0, "return_progress": True} if way == "llama.cpp" else {}
    if way == "free" or actions is None:
        return here
    schema = schema_of(actions)
    if way == "grammar":
        return {"grammar": grammar_of(schema)}
    form = {"type": "json_schema", "json_schema": {"name": "action", "strict": True, "schema": schema}}
    if way == "schema":
        return {"response_format": form}
    return {"response_format": form, **here}


def _answer(answer: Answer, action: dict[str, Any] | None, state: State) -> Sequence[Chunk]:
    text, completed, replaced = answer.text, answer.completed, msgspec.structs.replace
    if action is None:
        return [TextDelta(text), replaced(completed, raw=text)]
    if calls := calls_of(action, state):
        ready = [CallReady(call) for call in calls]
        return [*ready, replaced(completed, finish_reason="tool_calls", raw=text)]
    told = action.get("answer") or action.get("why") or text
    return [TextDelta(str(told)), replaced(completed, finish_reason="stop", raw=text)]


def _instead(
    text: str, request: ModelRequest, state: State, actions: Mapping[str, Schema]
) -> dict[str, Any] | None:
    """An action that a model answered with where a text was asked for; nothing that stands inside one."""
    written = _read(text)[1]
    around = re.sub(r"```(?:json)?", "", text.replace(written, "")).strip() if written else "x"
    return None if around else _chosen(text, request, state, actions)


def code_in(text: str) -> str:
    """The text of the first code block; empty if there is none: then the model says something."""
    opening = re.search(r"(?m)^(```+)[^\n`]*\n", text)
    if opening is None:
        return ""
    rest = text[opening.end() :]
    ends = [found.start() for found in re.finditer(rf"(?m)^{opening[1]}[ \t]*$", rest)]
    return rest[: ends[-1]] if ends else rest


def _read(text: str) -> tuple[dict[str, Any] | None, str]:
    """The action in an answer, also of a server that constrains nothing; and how it is written."""
    start = text.find("{")
    if start < 0:
        return None, ""
    try:
        value, end = read_lenient(text[start:], open_number=True)
    except (NotReadable, ValueError, OverflowError, RecursionError):
        return None, ""
    do = value.get("do") if isinstance(value, dict) else None
    known = isinstance(do, str) and do != "rewrite"  # which is not for it to choose
    return value if known else None, text[start:][:end]
