"""The ReAct XML dialect: tool calls for models without native ones.

An adapter around a `ChatModel`: tools go into the system message, calls and results into the text; the engine
sees the same chunks as from a native model.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence

import msgspec

from coder.config.models import is_small
from coder.models.model import (
    FILTERED,
    CallReady,
    ChatModel,
    Chunk,
    Completed,
    ModelRequest,
    Restarted,
    TextDelta,
    closing,
)
from coder.models.react.parser import ReactParser
from coder.protocol.messages import Message, ToolSpec

_CLOSING = re.compile(r"<\s*/\s*observation", re.IGNORECASE)
_PROTOCOL = """# How to answer

You work in steps. In each step write one of these, and nothing after it:

1. To use tools:
<thought>why, in a sentence or two</thought>
<action tool="NAME">{"parameter": "value"}</action>

The body is one JSON object with the tool's parameters. {several}
Then stop: the results come back as <observation tool="NAME"> elements.
Never write an <observation> yourself.

2. When the task is done, or needs no tool:
<thought>why, in a sentence or two</thought>
<final>the answer to the user</final>

# Tools
"""

_SEVERAL = "Several <action> elements may follow each other if none needs the result of another."
_ONE = "Write one <action> only."  # a small model writes an edit before it has seen the file


class ReactXml:
    """`inner` is never given tools."""

    def __init__(self, inner: ChatModel) -> None:
        self._inner = inner

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        parser = _parser(request)
        completed = Completed(finish_reason="stop")
        native_calls = False
        raw: list[str] = []
        async with closing(self._inner.stream(in_dialect(request))) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, TextDelta):
                    raw.append(chunk.text)
                    for out in parser.feed(chunk.text):
                        yield out
                    if parser.cut:
                        break  # the rest is invented; closing the stream saves tokens
                elif isinstance(chunk, Completed):
                    completed = chunk
                else:
                    if isinstance(chunk, Restarted):
                        parser = _parser(request)
                        native_calls = False
                        raw.clear()
                    native_calls = native_calls or isinstance(chunk, CallReady)
                    yield chunk
        calls = native_calls
        for out in parser.finish(completed.finish_reason):
            calls = calls or isinstance(out, CallReady)
            yield out
        reason = completed.finish_reason
        reason = "tool_calls" if calls and reason.lower() not in FILTERED else reason
        yield msgspec.structs.replace(completed, finish_reason=reason, raw="".join(raw))

    async def close(self) -> None:
        await self._inner.close()


def _parser(request: ModelRequest) -> ReactParser:
    return ReactParser(request.tools, request.messages, one_action=is_small(request.model))


def in_dialect(request: ModelRequest) -> ModelRequest:
    """The request with tools, calls and results as text."""
    messages: list[Message] = []
    if request.tools:
        first = request.messages[0] if request.messages else None
        own = "\n" + first.content if first is not None and first.role == "system" else ""
        # First what all sessions share, so that a server's cache holds it from one to the next.
        protocol = _PROTOCOL.replace("{several}", _ONE if is_small(request.model) else _SEVERAL)
        messages.append(Message(role="system", content=protocol + _described(request.tools) + own))
    rest = request.messages
    if request.tools and rest and rest[0].role == "system":
        rest = rest[1:]
    names = {call.id: call.name for message in rest for call in message.tool_calls}
    for message in rest:
        _append(messages, _as_text(message, names))
    return msgspec.structs.replace(request, messages=messages, tools=())


def _described(tools: Sequence[ToolSpec]) -> str:
    parts: list[str] = []
    for tool in tools:
        schema = msgspec.json.encode(tool.function.parameters).decode("utf-8")
        parts.append(f"\n## {tool.name}\n{tool.function.description.strip()}\nParameters: {schema}\n")
    return "".join(parts)


def _append(messages: list[Message], message: Message) -> None:
    """Merge consecutive messages of one role: many chat templates require alternation."""
    last = messages[-1] if messages else None
    if last is not None and last.role == message.role and message.role in ("user", "assistant"):
        content, images = f"{last.content}\n\n{message.content}", [*last.images, *message.images]
        messages[-1] = Message(role=message.role, content=content, images=images)
    else:
        messages.append(message)


def _as_text(message: Message, names: dict[str, str]) -> Message:
    if message.role == "assistant":
        return Message(role="assistant", content=_assistant_text(message))
    if message.role == "tool":
        tool = message.name or names.get(message.tool_call_id or "", "")
        # Escape the closing tag, so that a result cannot end the observation (prompt injection).
        content = _CLOSING.sub("&lt;/observation", message.content)
        text = f'<observation tool="{tool}">\n{content}\n</observation>'
        return Message(role="user", content=text, images=message.images)
    return message


def _assistant_text(message: Message) -> str:
    parts: list[str] = []
    if message.reasoning:
        parts.append(f"<thought>{message.reasoning.strip()}</thought>")
    if message.content:
        parts.append(message.content if message.tool_calls else f"<final>{message.content}</final>")
    parts += [f'<action tool="{call.name}">{call.function.arguments}</action>' for call in message.tool_calls]
    return "\n".join(parts)
