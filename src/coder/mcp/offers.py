"""A server's resources and prompts: what it sends as text, within limits."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from coder.mcp.listing import AskPage
from coder.mcp.results import read_part
from coder.mcp.shapes import Json, McpFault, single_line
from coder.texts import head_and_tail

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
            raise McpFault("mcp.invalid_list", name=server)
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
        raise McpFault("mcp.invalid_result", name=server, tool=uri)
    read = [read_part({"type": "resource", "resource": one}) for one in contents[:50]]
    texts = [part[0].removeprefix(f"[resource {uri}]\n") for part in read if part]
    return head_and_tail("\n".join(texts), MAX_TEXT)


def prompt_text(server: str, prompt: str, result: Json) -> str:
    """The messages of a prompt as one text; what the assistant said in it is marked."""
    messages = result.get("messages")
    if not isinstance(messages, list):
        raise McpFault("mcp.invalid_result", name=server, tool=prompt)
    texts: list[str] = []
    for message in messages[:50]:
        content = message.get("content") if isinstance(message, dict) else None
        part = read_part(content)
        if part is None:
            raise McpFault("mcp.invalid_result", name=server, tool=prompt)
        texts.append(f"Assistant: {part[0]}" if message.get("role") == "assistant" else part[0])
    return head_and_tail("\n\n".join(texts), MAX_TEXT).strip()
