"""The tools of a small model: few enough to keep apart, declared in few words.

A slow machine reads a long declaration for half a minute. Calls are checked against the whole one: what is
not declared here is taken all the same."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from coder.protocol.messages import ToolSpec

# The description, the required parameters, the others.
_BRIEF: Final = {
    "read": ("Read a file as numbered lines.", "path", "offset limit"),
    "glob": ("Find files by pattern, such as **/*.py.", "pattern", ""),
    "grep": ("Search files by regular expression.", "pattern", "path"),
    "write": ("Create a file, or replace one that you have read.", "path content", ""),
    "edit": (
        "Replace old_string, which must occur once in the file, by new_string.",
        "path old_string new_string",
        "",
    ),
    "bash": ("Run a command line.", "command", ""),
    "todowrite": ("Replace the whole todo list.", "todos", ""),
}
FEW: Final = frozenset(_BRIEF)


def brief(spec: ToolSpec) -> ToolSpec:
    """The declaration without what a small model has no use for; of other tools as it is."""
    if spec.name not in _BRIEF:
        return spec
    description, required, others = _BRIEF[spec.name]
    whole = spec.function.parameters
    properties = {name: _bare(whole["properties"][name]) for name in f"{required} {others}".split()}
    parameters = {**whole, "properties": properties, "required": required.split()}
    return replace(spec, function=replace(spec.function, description=description, parameters=parameters))


def _bare(schema: Any) -> Any:
    """Without descriptions and optional parts of items."""
    if not isinstance(schema, dict):
        return schema
    bare = {key: value for key, value in schema.items() if key not in ("description", "properties")}
    if "properties" in schema:
        bare["properties"] = {key: _bare(schema["properties"][key]) for key in schema["required"]}
    if "items" in schema:
        bare["items"] = _bare(schema["items"])
    return bare
