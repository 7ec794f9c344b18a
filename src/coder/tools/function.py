"""A Python function as a tool: its parameters and description come from its signature and docstring."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin, get_type_hints, overload

import msgspec

from coder.protocol.messages import FunctionSpec, ToolSpec
from coder.tools.tool import Arguments, Kind, OnOutput, Tool, ToolContext, ToolResult, failed

_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_LONGEST_NAME = 64


class FunctionTool(Tool):
    """Made by `tool`. Still callable as the function that it was made of."""

    def __init__(
        self, function: Callable[..., Any], spec: ToolSpec, form: type[msgspec.Struct], context: str
    ):
        self.function = function
        self.spec = spec
        self._form = form
        self._context = context  # the parameter that takes the `ToolContext`

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    async def run(self, args: Arguments, context: ToolContext, on_output: OnOutput) -> ToolResult:
        try:
            given = msgspec.convert(dict(args), self._form, strict=False)
        except msgspec.ValidationError as error:
            return failed(f"the arguments of {self.spec.name} are wrong: {error}")
        values = {name: getattr(given, name) for name in given.__struct_fields__}
        if self._context:
            values[self._context] = context
        try:
            if inspect.iscoroutinefunction(self.function):
                result = await self.function(**values)
            else:
                result = await asyncio.to_thread(self.function, **values)
            if isinstance(result, ToolResult):
                return result
            text = result if isinstance(result, str) else msgspec.json.encode(result).decode("utf-8")
        except (KeyboardInterrupt, asyncio.CancelledError):
            raise
        except BaseException as error:  # the author's bug is a result, and the turn goes on
            return failed(f"{type(error).__name__}: {error}")
        return ToolResult(for_model=text, summary=text.split("\n", 1)[0][:200])


class _Reading(FunctionTool):
    kind: Kind = "looks"  # type: ignore[misc]  # the class of those that change nothing
    concurrent = True


@overload
def tool(function: Callable[..., Any]) -> FunctionTool: ...
@overload
def tool(
    *, name: str = "", description: str = "", read_only: bool = False
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    *,
    name: str = "",
    description: str = "",
    read_only: bool = False,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a function, sync or async. Its parameters need types; `Annotated[str, "what it is"]`
    describes one; one of type `ToolContext` gets the session's. It is asked about like a tool of an MCP
    server, unless it is `read_only`: then it runs unasked, in plan mode too. Raises `TypeError` if it
    cannot be offered to a model."""

    def made(function: Callable[..., Any]) -> FunctionTool:
        own = name or function.__name__
        if not set(own) <= _NAME_CHARACTERS or len(own) > _LONGEST_NAME or own.startswith("mcp__"):
            raise TypeError(f"{own!r} is no name for a tool: letters, digits, _ and -, not mcp__…")
        form, context = _form(function, own)
        (schema,), definitions = msgspec.json.schema_components([form], ref_template="#/$defs/{name}")
        parameters = _inlined(schema, definitions)
        parameters.pop("title", None)
        parameters.pop("description", None)
        about = description or inspect.getdoc(function) or own
        spec = ToolSpec(function=FunctionSpec(name=own, description=about, parameters=parameters))
        return (_Reading if read_only else FunctionTool)(function, spec, form, context)

    return made if function is None else made(function)


def _form(function: Callable[..., Any], name: str) -> tuple[type[msgspec.Struct], str]:
    """A struct of the parameters, and the name of the one that takes the context."""
    hints = get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    context = ""
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"{name}: a tool's parameters have names; {parameter} has none")
        if parameter.name not in hints:
            raise TypeError(f"{name}: the parameter {parameter.name} needs a type")
        kind = hints[parameter.name]
        if kind is ToolContext:
            context = parameter.name
            continue
        given = (parameter.name, _described(kind))
        fields.append(given if parameter.default is parameter.empty else (*given, parameter.default))
    try:
        form = msgspec.defstruct(f"{name}_arguments", fields, kw_only=True, forbid_unknown_fields=True)
        msgspec.json.schema(form)
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from None
    return form, context


def _described(kind: Any) -> Any:
    """`Annotated[str, "text"]` as a description."""
    if get_origin(kind) is not Annotated:
        return kind
    base, *notes = get_args(kind)
    described = [msgspec.Meta(description=note) if isinstance(note, str) else note for note in notes]
    return Annotated[(base, *described)]


def _inlined(schema: Any, definitions: dict[str, Any], depth: int = 0) -> Any:
    """Without references: not every provider follows them."""
    if depth > 12:
        raise TypeError("the parameters are nested too deep, or refer to themselves")
    if isinstance(schema, dict):
        if "$ref" in schema:
            return _inlined(definitions[schema["$ref"].removeprefix("#/$defs/")], definitions, depth + 1)
        return {name: _inlined(value, definitions, depth + 1) for name, value in schema.items()}
    return [_inlined(one, definitions, depth + 1) for one in schema] if isinstance(schema, list) else schema
