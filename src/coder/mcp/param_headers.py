"""Arguments repeated in HTTP headers, for routing without reading bodies (2026-07-28).

A server marks a parameter with `x-mcp-header`. A tool with a mark in a place that the specification does not
allow must not be used.
"""

from __future__ import annotations

from typing import Any

from coder.mcp.shapes import Json
from coder.mcp.versions import header_value

Path = tuple[str, ...]
_MARK = "x-mcp-header"
_DATA = {"default", "examples", "enum", "const", "required", "type", "description", "title"}
_NAMED = ("$defs", "definitions", "patternProperties", "dependentSchemas")
_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_SAFE = 2**53 - 1  # the largest integer exact in a double


def marked_parameters(schema: object) -> dict[Path, str] | None:
    """The paths of marked parameters and their headers; None if a mark is invalid."""
    found: dict[Path, str] = {}
    taken: set[str] = set()
    todo: list[tuple[Path | None, Any]] = [((), schema)]
    while todo:
        path, node = todo.pop()
        if isinstance(node, dict) and _MARK in node:
            header = node[_MARK]
            if not path or not _may_be(header, node) or header.lower() in taken:
                return None
            found[path] = header
            taken.add(header.lower())
        todo += _below(path, node)
    return found


def _below(path: Path | None, node: Any) -> list[tuple[Path | None, Any]]:
    """The subschemas, with their path if it consists of properties only."""
    if isinstance(node, list):
        return [(None, one) for one in node]
    below: list[tuple[Path | None, Any]] = []
    for key, value in node.items() if isinstance(node, dict) else ():
        if key == "properties" and isinstance(value, dict):
            below += [(None if path is None else (*path, name), one) for name, one in value.items()]
        elif key in _NAMED and isinstance(value, dict):
            below += [(None, one) for one in value.values()]
        elif key not in _DATA and isinstance(value, dict | list):
            below.append((None, value))
    return below


def _may_be(header: object, node: Json) -> bool:
    fits = isinstance(header, str) and header != "" and set(header) <= _TOKEN
    return fits and node.get("type") in ("string", "integer", "boolean")


def param_headers(marked: dict[Path, str], arguments: Json) -> dict[str, str]:
    """The headers of a call; none for missing arguments."""
    headers: dict[str, str] = {}
    for path, header in marked.items():
        value: Any = arguments
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, bool):
            value = "true" if value else "false"
        if isinstance(value, int) and abs(value) <= _SAFE:
            value = str(value)
        if isinstance(value, str):
            headers[f"Mcp-Param-{header}"] = header_value(value)
    return headers
