"""Settings as plain objects: deep merge, and access by path."""

from __future__ import annotations

from typing import Any

Settings = dict[str, Any]
KeyPath = tuple[str, ...]


def merged(below: Settings, above: Settings) -> Settings:
    """Deep merge: objects are merged, everything else (lists too) is replaced by `above`."""
    if not below or not above:
        return above or below
    result = dict(below)
    for key, value in above.items():
        under = result.get(key)
        result[key] = merged(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return result


def at(settings: Settings, path: KeyPath) -> Any:
    """The value at a path, or `None`."""
    value: Any = settings
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def has(settings: Settings, path: KeyPath) -> bool:
    """Whether something is set at a path (`null` counts)."""
    holder = at(settings, path[:-1]) if path[:-1] else settings
    return isinstance(holder, dict) and path[-1] in holder


def without(settings: Settings, path: KeyPath) -> Settings:
    """A copy without one path."""
    if not has(settings, path):
        return settings
    result = dict(settings)
    if len(path) == 1:
        del result[path[0]]
    else:
        result[path[0]] = without(result[path[0]], path[1:])
    return result


def nested(dotted: dict[str, Any]) -> Settings:
    """`{"provider.model": x}` as `{"provider": {"model": x}}`; omits `None` values."""
    result: Settings = {}
    for key, value in dotted.items():
        if value is None:
            continue
        for name in reversed(key.split(".")):
            value = {name: value}
        result = merged(result, value)
    return result
