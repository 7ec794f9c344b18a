"""Normalizes a tool's input schema to what every provider accepts.

Providers reject a whole request for one invalid schema, so one careless server would break every session:
the top level must be a plain object, references must resolve locally, and the size is bounded. Only the
model's description suffers; the server validates its arguments itself. Nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from coder.mcp.shapes import Json, bounded

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
