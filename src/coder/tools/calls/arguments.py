"""Check a call's arguments against the tool's own parameters, so that tools can trust their types.

Only what our parameters use of JSON Schema: type, enum, items, properties, required. What a model plainly
meant (`"10"` for a number, `"true"` for a boolean) is taken as meant.
"""

from __future__ import annotations

from typing import Any

_NAMES = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}


class BadArguments(Exception):
    """What is wrong, and what the tool accepts."""


def as_object(arguments: Any) -> dict[str, Any]:
    """For a tool that validates its own parameters; raises `BadArguments`."""
    if not isinstance(arguments, dict):
        raise BadArguments("the arguments must be a JSON object")
    return arguments


def checked(
    arguments: Any, parameters: dict[str, Any], extras: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The arguments validated and coerced; raises `BadArguments`. `extras`: undocumented parameters that
    are accepted as well.
    """
    if not isinstance(arguments, dict):
        raise BadArguments(f"the arguments must be a JSON object with {takes(parameters)}")
    properties = {**parameters.get("properties", {}), **(extras or {})}
    given = {k: v for k, v in arguments.items() if v is not None}
    if missing := [name for name in parameters.get("required", []) if name not in given]:
        raise BadArguments(f"missing {', '.join(missing)}; the tool takes {takes(parameters)}")
    if parameters.get("additionalProperties") is False and (
        unknown := [name for name in given if name not in properties]
    ):
        raise BadArguments(f"unknown {', '.join(unknown)}; the tool takes {takes(parameters)}")
    return {
        name: _value(value, properties[name], name) if name in properties else value
        for name, value in given.items()
    }


def takes(parameters: dict[str, Any]) -> str:
    """The parameters in a few words, for a model that got them wrong."""
    required = parameters.get("required", [])
    names = [n if n in required else f"{n}?" for n in parameters.get("properties", {})]
    return ", ".join(names) or "no arguments"


def _value(value: Any, schema: dict[str, Any], name: str) -> Any:
    kind = schema.get("type")
    value = _meant(value, kind)
    if kind in _NAMES and not _is(value, kind):
        raise BadArguments(f"{name} must be {_NAMES[kind]}, not {_short(value)}")
    if "enum" in schema and value not in schema["enum"]:
        raise BadArguments(
            f"{name} must be one of {', '.join(map(str, schema['enum']))}, not {_short(value)}"
        )
    if kind == "array" and "items" in schema:
        return [_value(item, schema["items"], f"{name}[{at}]") for at, item in enumerate(value)]
    if kind == "object" and "properties" in schema:
        properties = schema["properties"]
        for needed in schema.get("required", []):
            if needed not in value:
                raise BadArguments(f"{name} needs {needed}")
        return {
            k: _value(v, properties[k], f"{name}.{k}") if k in properties else v for k, v in value.items()
        }
    return value


def _meant(value: Any, kind: str | None) -> Any:
    if kind == "integer":
        return _whole(value)
    if kind == "boolean" and isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if kind == "string" and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.strip().lstrip("+-").isdecimal() and len(value) < 20:
        return int(value)
    return value


def _is(value: Any, kind: str) -> bool:
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, {"string": str, "array": list, "object": dict}[kind])


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
