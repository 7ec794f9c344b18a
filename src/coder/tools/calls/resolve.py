"""A call as it was meant: peers' names of tools and arguments, values in the wrong wrapping.

Loaded only if a call does not fit as it is. Only unambiguous calls are resolved;
an argument that could change what is done is refused, never dropped. Whoever judges, asks about, runs and
records a call gets it as this module leaves it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coder.tools.calls import arguments as peer_calls
from coder.tools.calls import names as peer_names
from coder.tools.calls.arguments import BadArguments, as_object, checked, read_json, takes
from coder.tools.calls.names import TOOLS, folded, words
from coder.tools.tool import Tool, is_mcp

_WRAPPERS = words("arguments args input parameters params kwargs toolinput properties payload")
_BESIDE_WRAPPER = words("name tool toolname function type required")
_APPLY_PATCH = re.compile(r"(?:apply_patch|applypatch)[ \t]+<<-?[ \t]*(['\"]?)(\w+)\1")
_NOTHING: tuple[object, ...] = (None, "", [], {}, "null", "None", "undefined")


class AmbiguousCall(Exception):
    """Why a call is ambiguous, and the nearest valid form."""


def resolve_call(
    name: str, arguments: Any, tools: Mapping[str, Tool], root: Path
) -> tuple[Tool, dict[str, Any]]:
    """The tool and arguments that a call means; raises `AmbiguousCall`."""
    try:
        return _resolved(name, arguments, tools, root)
    except BadArguments as bad:
        raise AmbiguousCall(f"{name}: {bad}") from bad


def _resolved(
    name: str, arguments: Any, tools: Mapping[str, Tool], root: Path
) -> tuple[Tool, dict[str, Any]]:
    bare = _bare(name)
    given = read_json(arguments)
    meant = _tool_name(name, bare, tools)
    if is_mcp(meant):  # a server checks what it is sent itself, by more than we know of its parameters
        return tools[meant], as_object(given)
    given = _unwrapped(given, bare)
    if meant in peer_calls.SHAPES and meant not in tools:
        meant, given = peer_calls.SHAPES[meant](_as_dict(given))
    tool = _present(meant, name, tools)
    if not isinstance(given, dict):
        given = {_only_required(tool): given}
    if meant == "bash" and (patch := _patch_in_command(given)) is not None and "patch" in tools:
        tool, meant, given = tools["patch"], "patch", {"patch": patch}
    given = _renamed(meant, given, tool)
    meant, given = peer_calls.settled(meant, given, root)
    tool = _present(meant, name, tools)
    parameters, extras = tool.spec.function.parameters, tool_extras(tool)
    for key in [key for key in given if key not in parameters["properties"] and key not in extras]:
        _pass_over(meant, key, given.pop(key), parameters)
    properties = {**parameters["properties"], **extras}
    values = {name: _value(name, value, properties.get(name, {})) for name, value in given.items()}
    return tool, checked(values, parameters, extras)


def names_a_tool(name: str, tools: Mapping[str, Tool]) -> bool:
    """Whether a name means one of these tools, whatever the arguments are."""
    try:
        meant = _tool_name(name, _bare(name), tools)
    except AmbiguousCall:
        return False
    return meant in tools or meant in peer_calls.SHAPES


def _present(meant: str, name: str, tools: Mapping[str, Tool]) -> Tool:
    if meant not in tools:
        raise AmbiguousCall(f"there is no tool {name!r} here; the tools are {_names(tools)}")
    return tools[meant]


def _names(tools: Mapping[str, Tool]) -> str:
    return ", ".join(name for name, tool in tools.items() if tool.declared)


def tool_extras(tool: Tool) -> dict[str, Any]:
    """Undocumented parameters that a tool accepts."""
    extras: dict[str, Any] = getattr(tool, "unadvertised", {})
    return extras


def _bare(name: str) -> str:
    """The name folded, without special tokens, namespaces and what else models put around it."""
    name = name.partition("<|")[0].strip(" \t\n`'\"()")
    parts = [folded(part) for part in re.split(r"[.:/]+|__", name)]
    if len(parts) > 1 and parts[-1].isdecimal():  # the call's number, as in functions.read:0
        parts.pop()
    while len(parts) > 1 and parts[0] in peer_names.NAMESPACES:
        parts.pop(0)
    bare = "".join(parts) if not name.startswith("mcp__") else name
    for suffix in ("tool", "function"):
        if bare.endswith(suffix) and bare != suffix:
            shorter = bare.removesuffix(suffix)
            if shorter in TOOLS or shorter in TOOLS.values() or shorter in peer_calls.SHAPES:
                return shorter
    return bare


def _tool_name(name: str, bare: str, tools: Mapping[str, Tool]) -> str:
    if name in tools:
        return name
    own = {folded(tool): tool for tool in tools if not is_mcp(tool)}
    servers = [tool for tool in tools if is_mcp(tool) and folded(tool.rpartition("__")[2]) == bare]
    ours = own.get(bare) or (bare if bare in peer_calls.SHAPES else TOOLS.get(bare))
    if ours and servers:
        raise AmbiguousCall(f"there is no tool {name!r}; do you mean {' or '.join([ours, *servers])}?")
    if len(servers) == 1:
        return servers[0]
    if ours:
        return ours
    raise AmbiguousCall(f"there is no tool {name!r}; {_nearest(bare, tools)}")


def _nearest(bare: str, tools: Mapping[str, Tool]) -> str:
    from difflib import get_close_matches

    if bare in peer_names.INSTEAD:
        return peer_names.INSTEAD[bare]
    known = {folded(tool): tool for tool in tools} | {a: t for a, t in TOOLS.items() if t in tools}
    near = list(dict.fromkeys(known[key] for key in get_close_matches(bare, known, n=3, cutoff=0.7)))
    names = _names(tools)
    return f"do you mean {' or '.join(near)}? The tools are {names}" if near else f"the tools are {names}"


def _unwrapped(given: Any, bare: str) -> Any:
    """Arguments wrapped once too often: `{"arguments": {…}}`, `{"name": "read", "parameters": {…}}`."""
    for _ in range(2):
        if not isinstance(given, dict):
            return given
        inner = [key for key in given if folded(key) in _WRAPPERS or folded(key) == bare]
        if len(inner) != 1 or any(folded(key) not in _BESIDE_WRAPPER for key in given if key != inner[0]):
            return given
        value = read_json(given[inner[0]])
        if not isinstance(value, dict):
            return given
        given = value
    return given


def _as_dict(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise BadArguments("the arguments must be a JSON object")
    return {folded(key): value for key, value in given.items()}


def _only_required(tool: Tool) -> str:
    """The parameter that a bare value is meant for: a tool's only required one."""
    parameters = tool.spec.function.parameters
    required: list[str] = parameters["required"] or list(parameters["properties"])[:1]
    if len(required) != 1:
        raise BadArguments(f"the arguments must be a JSON object with {takes(parameters)}")
    return required[0]


def _patch_in_command(given: dict[str, Any]) -> str | None:
    command = next((v for k, v in given.items() if folded(k) in ("command", "cmd")), None)
    if isinstance(command, list) and len(command) == 2 and folded(str(command[0])) == "applypatch":
        return str(command[1])
    if isinstance(command, list) and len(command) == 3 and str(command[1]) in ("-c", "-lc"):
        command = command[2]
    head, _, rest = str(command).strip().partition("\n")
    body, _, last = rest.rpartition("\n")
    heredoc = _APPLY_PATCH.fullmatch(head)
    return body if heredoc and last.strip() == heredoc[2] else None


def _renamed(meant: str, given: dict[str, Any], tool: Tool) -> dict[str, Any]:
    """The arguments under our names; what says nothing is left out, what could matter is refused."""
    parameters = tool.spec.function.parameters
    own = {folded(name): name for name in (*parameters["properties"], *tool_extras(tool))}
    aliases = peer_names.PARAMETERS.get(meant, {})
    out: dict[str, Any] = {}
    for key, value in given.items():
        short = folded(key)
        name = key if key in own.values() else own.get(short) or aliases.get(short)
        if name is None:
            _pass_over(meant, key, value, parameters)
        elif not _absent(name, value, parameters):
            if name in out and out[name] != value:
                if name == "context":
                    value = max(out[name], value, key=lambda one: int(one) if str(one).isdecimal() else 0)
                else:
                    raise BadArguments(f"{name} is given twice, differently (as {key} too); give it once")
            out[name] = value
    return out


def _absent(name: str, value: Any, parameters: dict[str, Any]) -> bool:
    """Whether an argument is a mere placeholder. Texts may legitimately be empty, or say `None`."""
    if value is None:
        return True
    text = parameters["properties"].get(name, {}).get("type") == "string" and name not in ("path", "glob")
    return not text and name not in parameters["required"] and value in _NOTHING


def _pass_over(meant: str, key: str, value: Any, parameters: dict[str, Any]) -> None:
    """Leave an argument out that changes nothing; raises `BadArguments` if it could."""
    from difflib import get_close_matches

    short = folded(key)
    if (
        short in peer_names.HARMLESS
        or value in _NOTHING
        or value in peer_names.AS_IT_IS.get(meant, {}).get(short, ())
    ):
        return
    if (value is False or str(value).lower() == "false") and short not in peer_names.FALSE_MATTERS:
        return
    why = peer_names.REFUSED.get((meant, short))
    if why is not None:
        raise BadArguments(f"{key} is not possible: {why}")
    near = get_close_matches(short, list(parameters["properties"]), n=1, cutoff=0.6)
    hint = f" (do you mean {near[0]}?)" if near else ""
    raise BadArguments(f"unknown {key}{hint}; the tool takes {takes(parameters)}")


def _value(name: str, value: Any, schema: dict[str, Any]) -> Any:
    kind = schema.get("type")
    if isinstance(value, dict) and kind not in ("object", "array") and "value" in value:
        value = value["value"]  # the schema's own shape, filled in
    if kind in ("array", "object"):
        value = read_json(value)
        return [value] if kind == "array" and isinstance(value, dict) else value
    if kind == "string" and isinstance(value, list):
        return _joined(name, value)
    if kind == "boolean" and str(value).lower() in ("yes", "no", "1", "0", "on", "off"):
        return str(value).lower() in ("yes", "1", "on")
    if "enum" in schema and isinstance(value, str):
        return next((word for word in schema["enum"] if folded(word) == folded(value)), value)
    return value


def _joined(name: str, values: list[Any]) -> Any:
    """A list in place of a text: its only item, or the lines of a text."""
    if len(values) == 1:
        return values[0]
    if name == "command":
        return peer_calls.command_line(values)
    if name in ("content", "patch", "old_string", "new_string") and all(isinstance(v, str) for v in values):
        return "".join(values) if all(v.endswith("\n") for v in values[:-1]) else "\n".join(values)
    if name in ("path", "pattern", "url"):
        raise BadArguments(f"{name} takes one; make a call for each, all in one answer")
    return values
