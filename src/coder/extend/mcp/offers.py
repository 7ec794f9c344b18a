"""A server's resources and prompts: what it sends as text, within limits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from coder.base.text import head_and_tail
from coder.extend.mcp.listing import AskPage
from coder.extend.mcp.shapes import CallOutcome, Json, McpError, single_line

_LONGEST = 1_000_000  # characters of a result; `McpTool` truncates further
_MOST_PARTS = 500
_NOTHING = "(no content)"


def read_result(name: str, tool: str, result: Json) -> CallOutcome:
    """Raises `McpError` if the result is invalid, or asks for input."""
    kind = result.get("resultType", "complete")
    if kind == "input_required":
        raise McpError("mcp.wants_input", name=name, tool=tool)
    content = result.get("content")
    structured = result.get("structuredContent")
    if content is None and structured is not None:
        content = []
    if kind != "complete" or not isinstance(content, list):
        raise McpError("mcp.invalid_result", name=name, tool=tool)
    read = [read_part(part) for part in content[:_MOST_PARTS]]
    if None in read:
        raise McpError("mcp.invalid_result", name=name, tool=tool)
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


MAX_TEXT = 64_000  # characters of a resource or prompt: about 16,000 tokens
_MAX_PAGES = 20
_MAX_LISTED = 200  # prompts, and resources


class RemotePrompt(msgspec.Struct, frozen=True):
    """A prompt and the names of its arguments; `required` is a part of them."""

    name: str
    description: str = ""
    arguments: list[str] = []
    required: list[str] = []

    @property
    def usage(self) -> str:
        return " ".join(f"<{name}>" if name in self.required else f"[{name}]" for name in self.arguments)


class RemoteResource(msgspec.Struct, frozen=True):
    """A resource that a server lists."""

    uri: str
    name: str = ""


async def list_prompts(server: str, ask: AskPage) -> list[RemotePrompt]:
    """What has no usable name is left out."""
    found: dict[str, RemotePrompt] = {}
    async for raw in _pages(server, "prompts", ask):
        prompt = _prompt(raw)
        if prompt is not None and len(found) < _MAX_LISTED:
            found.setdefault(prompt.name, prompt)
    return list(found.values())


async def list_resources(server: str, ask: AskPage) -> list[RemoteResource]:
    """What cannot be typed as `@server:uri` is left out."""
    found: dict[str, RemoteResource] = {}
    async for raw in _pages(server, "resources", ask):
        uri = raw.get("uri") if isinstance(raw, dict) else None
        if isinstance(raw, dict) and isinstance(uri, str) and _is_word(uri, 500) and len(found) < _MAX_LISTED:
            found.setdefault(uri, RemoteResource(uri, single_line(raw.get("title") or raw.get("name"), 100)))
    return list(found.values())


async def _pages(server: str, key: str, ask: AskPage) -> AsyncIterator[object]:
    """The entries of all pages, up to a limit."""
    params: Json = {}
    for _ in range(_MAX_PAGES):
        page = await ask(params)
        listed = page.get(key)
        if not isinstance(listed, list):
            raise McpError("mcp.invalid_list", name=server)
        for raw in listed:
            yield raw
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str) or not cursor or params.get("cursor") == cursor:
            break
        params = {"cursor": cursor}


def _prompt(raw: object) -> RemotePrompt | None:
    name = raw.get("name") if isinstance(raw, dict) else None
    if not isinstance(raw, dict) or not isinstance(name, str) or not _is_word(name, 128):
        return None
    listed = raw.get("arguments")
    named = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    names = [one["name"] for one in named if _is_word(one.get("name"), 64)][:20]
    required = [one["name"] for one in named if one.get("required") is True and one.get("name") in names]
    return RemotePrompt(name, single_line(raw.get("description"), 200), names, required)


def _is_word(name: object, longest: int) -> bool:
    """Whether it can be typed as one word, and shown."""
    if not isinstance(name, str) or not 0 < len(name) <= longest:
        return False
    return name.isprintable() and not any(c.isspace() for c in name)


def resource_text(server: str, uri: str, result: Json) -> str:
    """The contents of a resource; binary ones by type and size."""
    contents = result.get("contents")
    if not isinstance(contents, list):
        raise McpError("mcp.invalid_result", name=server, tool=uri)
    read = [read_part({"type": "resource", "resource": one}) for one in contents[:50]]
    texts = [part[0].removeprefix(f"[resource {uri}]\n") for part in read if part]
    return head_and_tail("\n".join(texts), MAX_TEXT)


def prompt_text(server: str, prompt: str, result: Json) -> str:
    """The messages of a prompt as one text; what the assistant said in it is marked."""
    messages = result.get("messages")
    if not isinstance(messages, list):
        raise McpError("mcp.invalid_result", name=server, tool=prompt)
    texts: list[str] = []
    for message in messages[:50]:
        content = message.get("content") if isinstance(message, dict) else None
        part = read_part(content)
        if part is None:
            raise McpError("mcp.invalid_result", name=server, tool=prompt)
        texts.append(f"Assistant: {part[0]}" if message.get("role") == "assistant" else part[0])
    return head_and_tail("\n\n".join(texts), MAX_TEXT).strip()
