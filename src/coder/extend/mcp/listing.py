"""Lists a server's usable tools, page by page, within limits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec

from coder.extend.mcp.shapes import Json, McpError, RemoteTool, bounded, single_line

_LARGEST = 32_768  # bytes of one schema; real ones are below 10 KB
_DEEPEST = 24  # levels; deeper ones accept anything
_CHOICES = ("anyOf", "oneOf", "allOf")
_NOT_AT_THE_TOP = {*_CHOICES, "not", "enum", "const", "if", "then", "else", "$ref", "$schema", "$id"}


def clean_schema(schema: object) -> Json:
    """An object schema, whatever the input."""
    if not isinstance(schema, dict):
        return {"type": "object", "properties": {}}
    cleaned: Json = _local(_top(schema), schema, _DEEPEST)
    return cleaned if _size(cleaned) <= _LARGEST else _outline(cleaned)


def _size(schema: Json) -> int:
    return len(msgspec.json.encode(schema))


def _top(schema: Json) -> Json:
    """The top level as one object: references and `anyOf`/`oneOf`/`allOf` are merged into its properties."""
    properties, required = _fields(schema, schema, set(), _DEEPEST)
    kept = {key: value for key, value in schema.items() if key not in _NOT_AT_THE_TOP}
    kept.update(type="object", properties=properties)
    kept.pop("required", None)
    names = [name for name in properties if name in required]
    return {**kept, "required": names} if names else kept


def _fields(schema: Json, root: Json, seen: set[int], depth: int) -> tuple[Json, set[str]]:
    """(properties, names that are always required). `seen` guards against reference cycles."""
    if id(schema) in seen or depth == 0:
        return {}, set()
    seen.add(id(schema))
    found = schema.get("properties")
    properties: Json = dict(found) if isinstance(found, dict) else {}
    named = schema.get("required")
    required = {name for name in named if isinstance(name, str)} if isinstance(named, list) else set()
    for parts, all_hold in _parts(schema, root):
        read = [_fields(part, root, seen, depth - 1) for part in parts]
        for more, _ in read:
            properties = {**more, **properties}
        wanted = [names for _, names in read]
        required |= set.union(*wanted) if all_hold else set.intersection(*wanted)
    return properties, required


def _parts(schema: Json, root: Json) -> Iterator[tuple[list[Json], bool]]:
    """The subschemas a schema is composed of, and whether all or any of them apply."""
    if isinstance(target := _target(schema.get("$ref"), root), dict):
        yield [target], True
    for key in _CHOICES:
        branches = schema.get(key)
        if isinstance(branches, list) and (parts := [part for part in branches if isinstance(part, dict)]):
            yield parts, key == "allOf"


def _local(node: Any, root: Json, depth: int) -> Any:
    """Remove references that do not resolve within this schema."""
    if depth == 0:
        return {} if isinstance(node, dict | list) else node
    if isinstance(node, list):
        return [_local(one, root, depth - 1) for one in node]
    if not isinstance(node, dict):
        return node
    reference = node.get("$ref")
    if isinstance(reference, str) and not isinstance(_target(reference, root), dict):
        node = {key: value for key, value in node.items() if key != "$ref"}
    return {key: _local(value, root, depth - 1) for key, value in node.items()}


def _target(reference: object, root: Json) -> Any:
    """Resolve a local JSON pointer (`#/$defs/name`)."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return root if reference == "#" else None
    place: Any = root
    for part in reference[2:].split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        place = place.get(key) if isinstance(place, dict) else None
    return place


def _outline(schema: Json) -> Json:
    """A too large schema reduced to names, types and short descriptions."""
    properties: Json = {}
    for name, value in schema["properties"].items():
        about = value if isinstance(value, dict) else {}
        kind, words = about.get("type"), about.get("description")
        properties[name] = {
            **({"type": kind} if isinstance(kind, str) and kind != "array" else {}),
            **({"description": bounded(words, 100)} if isinstance(words, str) else {}),
        }
    outline: Json = {"type": "object", "properties": properties}
    if names := schema.get("required"):
        outline["required"] = names
    return outline if _size(outline) <= _LARGEST else {"type": "object", "properties": {}}


_MAX_PAGES = 200
_MAX_TOOLS = 2_000
_LONGEST_NAME = 128  # as the specification has it
_DESCRIPTION = 6_000  # characters; part of every request of a session

AskPage = Callable[[Json], Awaitable[Json]]


class Listing:
    """The tools found so far. `left_out` counts unusable ones: invalid or duplicate name, too many."""

    def __init__(self) -> None:
        self.tools: dict[str, RemoteTool] = {}
        self.raw_schemas: dict[str, object] = {}
        self.left_out = 0

    def add(self, raw: object) -> None:
        tool = read_tool(raw)
        if tool is None or tool.name in self.tools or len(self.tools) >= _MAX_TOOLS:
            self.left_out += 1
            return
        self.tools[tool.name] = tool
        self.raw_schemas[tool.name] = raw.get("inputSchema") if isinstance(raw, dict) else None


async def list_tools(name: str, ask: AskPage) -> Listing:
    """All pages; raises `McpError` if they do not end or are invalid."""
    listing = Listing()
    seen: set[str] = set()
    params: Json = {}
    for _ in range(_MAX_PAGES):
        page = await ask(params)
        tools = page.get("tools")
        if not isinstance(tools, list):
            raise McpError("mcp.invalid_list", name=name)
        for raw in tools:
            listing.add(raw)
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str) or not cursor:
            return listing
        if cursor in seen:
            break
        seen.add(cursor)
        params = {"cursor": cursor}
    raise McpError("mcp.endless_list", name=name)


def read_tool(raw: object) -> RemoteTool | None:
    """None if its name is unusable."""
    name = raw.get("name") if isinstance(raw, dict) else None
    if not isinstance(raw, dict) or not isinstance(name, str):
        return None
    if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        return None
    hints = raw.get("annotations")
    hints = hints if isinstance(hints, dict) else {}
    return RemoteTool(
        name=name,
        description=bounded(raw.get("description"), _DESCRIPTION),
        parameters=clean_schema(raw.get("inputSchema")),
        title=single_line(raw.get("title"), 100) or single_line(hints.get("title"), 100),
        read_only_hint=hints.get("readOnlyHint") is True,
    )
