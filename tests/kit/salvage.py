"""Texts read by the salvager, in pieces, with four tools."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from coder.models.model import CallReady, Chunk, Completed, TextDelta
from coder.models.salvage.find_calls import IsCall
from coder.models.salvage.hold import CallSalvager
from coder.protocol.messages import FunctionSpec, ToolSpec


def spec(name: str, *required: str, optional: Sequence[str] = ()) -> ToolSpec:
    properties = {parameter: {"type": "string"} for parameter in (*required, *optional)}
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return ToolSpec(FunctionSpec(name, f"does {name}", schema))


def required_there(tools: Sequence[ToolSpec]) -> IsCall:
    """Names in any case, and every argument that the tool requires under its own name."""
    required = {spec.name.lower(): spec.function.parameters.get("required") or [] for spec in tools}

    def understands(name: str, arguments: Mapping[str, Any] | None) -> bool:
        needed = required.get(name.lower())
        return needed is not None and (arguments is None or all(key in arguments for key in needed))

    return understands


TOOLS = [
    spec("read", "path", optional=["limit"]),
    spec("write", "path", "content"),
    spec("list", optional=["path"]),
    spec("bash", "command"),
]
READ_A = ("read", {"path": "a"})


def chunks_of(text: str, size: int = 0, *, asked: str = "", reason: str = "stop") -> list[Chunk]:
    reading = CallSalvager(TOOLS, required_there(TOOLS), asked)
    pieces = [text[at : at + size] for at in range(0, len(text), size)] if size else [text]
    chunks = [out for piece in pieces for out in reading.take(TextDelta(piece))]
    return [*chunks, *reading.take(Completed(reason))]


def calls_in(chunks: Sequence[Chunk]) -> list[tuple[str, Any]]:
    calls = [chunk.call for chunk in chunks if isinstance(chunk, CallReady)]
    return [(call.name, json.loads(call.function.arguments)) for call in calls]
