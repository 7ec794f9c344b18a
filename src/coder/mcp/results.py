"""Converts a tool's result to text for the model, and to kinds and sizes for the record."""

from __future__ import annotations

from typing import Any

import msgspec

from coder.mcp.shapes import CallOutcome, Json, McpFault, single_line
from coder.texts import head_and_tail

_LONGEST = 1_000_000  # characters of a result; `McpTool` truncates further
_MOST_PARTS = 500
_NOTHING = "(no content)"


def read_result(name: str, tool: str, result: Json) -> CallOutcome:
    """Raises `McpFault` if the result is invalid, or asks for input."""
    kind = result.get("resultType", "complete")
    if kind == "input_required":
        raise McpFault("mcp.wants_input", name=name, tool=tool)
    content = result.get("content")
    structured = result.get("structuredContent")
    if content is None and structured is not None:
        content = []
    if kind != "complete" or not isinstance(content, list):
        raise McpFault("mcp.invalid_result", name=name, tool=tool)
    read = [read_part(part) for part in content[:_MOST_PARTS]]
    if None in read:
        raise McpFault("mcp.invalid_result", name=name, tool=tool)
    texts, parts = [p[0] for p in read if p], [p[1] for p in read if p]
    if structured is not None and not any(part["type"] == "text" for part in parts):
        texts.append(_pretty(structured))
        parts.append({"type": "structured", "bytes": _bytes(texts[-1])})
    if len(content) > _MOST_PARTS:
        texts.append(f"[… {len(content) - _MOST_PARTS:,} more parts left out]")
    text = head_and_tail("\n".join(texts), _LONGEST) or _NOTHING
    images = [(words, data) for words, part in zip(texts, content, strict=False) if (data := _image_of(part))]
    return CallOutcome(text=text, ok=result.get("isError") is not True, parts=parts, images=images)


def _pretty(structured: Any) -> str:
    try:
        return msgspec.json.format(msgspec.json.encode(structured), indent=2).decode("utf-8")
    except RecursionError:
        return "[structured content, nested too deeply to be shown]"


def read_part(part: Any) -> tuple[str, Json] | None:
    """(text for the model, fields for the record); None if invalid."""
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str):
        return None
    if kind == "text":
        text = part.get("text")
        return (text, {"type": "text", "bytes": _bytes(text)}) if isinstance(text, str) else None
    if kind in ("image", "audio"):
        data, mime = part.get("data"), _mime(part)
        return _blob(kind, mime or kind, data, "") if isinstance(data, str) else None
    if kind == "resource":
        return _resource(part.get("resource"))
    if kind == "resource_link":
        return _link(part)
    word = single_line(kind, 40)
    return f"[{word}, not shown: this client does not know it]", {"type": word}


def _image_of(part: Json) -> str:
    """The Base64 of an image, sent as such or as a resource; else empty."""
    if part.get("type") == "image":
        return str(part.get("data"))
    resource = part.get("resource")
    if isinstance(resource, dict) and isinstance(resource.get("blob"), str):
        return str(resource["blob"]) if _mime(resource).startswith("image/") else ""
    return ""


def _blob(kind: str, mime: str, data: str, where: str) -> tuple[str, Json]:
    size = len(data) * 3 // 4 - data[-2:].count("=")
    record: Json = {"type": kind, "mime": mime, "bytes": size}
    return f"[{where}{mime}, {size:,} bytes, not shown]", record


def _resource(resource: Any) -> tuple[str, Json] | None:
    if not isinstance(resource, dict):
        return None
    uri, text, blob = single_line(resource.get("uri"), 500), resource.get("text"), resource.get("blob")
    if isinstance(text, str):
        record: Json = {"type": "resource", "mime": _mime(resource) or "text/plain", "bytes": _bytes(text)}
        return f"[resource {uri}]\n{text}", record
    if isinstance(blob, str):
        return _blob("resource", _mime(resource) or "application/octet-stream", blob, f"resource {uri}, ")
    return None


def _link(part: Json) -> tuple[str, Json] | None:
    uri = single_line(part.get("uri"), 500)
    if not uri:
        return None
    label = single_line(part.get("title"), 100) or single_line(part.get("name"), 100)
    words = " ".join(word for word in (label, uri, single_line(part.get("description"), 300)) if word)
    return f"[resource link: {words}]", {"type": "resource_link", "uri": uri}


def _mime(part: Json) -> str:
    return single_line(part.get("mimeType"), 80)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
