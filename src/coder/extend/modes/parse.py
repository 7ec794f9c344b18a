"""Parse one mode file into a definition with its body, or into an entry with errors."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from coder.base.frontmatter import FrontmatterError, Node, read_header, split
from coder.base.text import shown
from coder.config.models import LOCAL_PREFIX
from coder.extend.modes.template import PROMPT_PLACE, ModeFault, fault_of_head, first_wrong_place
from coder.extend.modes.values import FALSE, TRUE, problem_with
from coder.extend.patterns import compiled, is_quick
from coder.protocol.modes import (
    ModeDefinition,
    ModeKind,
    ModeScope,
    ModeVariable,
    OnError,
    ReasoningEffort,
    VariableType,
)
from coder.texts import Text

if TYPE_CHECKING:
    from coder.extend.modes.discover import Found

MAX_VARIABLES = 64
MAX_PATTERN = 1_000
MAX_LINE = 2_000  # of a description or name

_FIELDS = (
    "kind", "description", "argument_hint", "display_name", "variables",
    "default_enabled", "model", "reasoning_effort", "allowed_tools", "on_error",
)  # fmt: skip
_ATTRIBUTES = (
    "name", "type", "default", "required", "enum", "shortcuts", "pattern", "inline_edit", "mode_scoped",
    "description", "rest",
)  # fmt: skip
_KINDS, _TYPES, _EFFORTS = get_args(ModeKind), get_args(VariableType), get_args(ReasoningEffort)
_ON_ERROR = get_args(OnError)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class Mode(msgspec.Struct, frozen=True):
    """A definition and its body. `body_line` is the body's first line in the file."""

    definition: ModeDefinition
    body: str
    body_line: int = 1


def parse_mode(found: Found, content: str | ModeFault) -> Mode:
    """Never raises: errors go into the definition."""
    scope = found.scope
    try:
        if isinstance(content, ModeFault):
            raise content
        if found.category == "prompt":
            return _prompt(found, scope, content)
        return _mode(found, scope, content)
    except (ModeFault, FrontmatterError) as raised:
        fault = fault_of_head(raised) if isinstance(raised, FrontmatterError) else raised
        error = fault.error(found.mode_id, shown(found.path))
        definition = ModeDefinition(
            mode_id=found.mode_id,
            display_name=found.mode_id[1:],
            scope=scope,
            path=shown(found.path),
            category=found.category,
            error=error,
        )
        return Mode(definition, "")


def _mode(found: Found, scope: ModeScope, content: str) -> Mode:
    header, body, body_line = split(content)
    fields = _known(read_header(header), _FIELDS) if header is not None else _Fields({}, [])
    variables, warnings = _variables(fields.get("variables"))
    kind: ModeKind = fields.choice("kind", _KINDS) or "instant"
    default_enabled = fields.flag("default_enabled")
    warnings = [*fields.warnings, *warnings]
    if default_enabled and kind == "instant":
        warnings.append(Text("modes.warn_instant_default"))
    if "allowed_tools" in fields.nodes:
        warnings.append(Text("modes.warn_allowed_tools"))
    model = fields.line("model") or None
    if scope.kind == "project" and model is not None and model.startswith(LOCAL_PREFIX):
        model = None  # a file of the project's would be loaded outside the sandbox
        warnings.append(Text("modes.warn_local_model"))
    _check_places(found.mode_id, body, body_line, variables)
    effort: ReasoningEffort | None = fields.choice("reasoning_effort", _EFFORTS)
    definition = ModeDefinition(
        mode_id=found.mode_id,
        display_name=fields.line("display_name") or found.mode_id[1:],
        scope=scope,
        path=shown(found.path),
        kind=kind,
        description=fields.line("description"),
        argument_hint=fields.line("argument_hint"),
        variables=variables,
        default_enabled=default_enabled and kind == "persistent",
        model=model,
        reasoning_effort=effort,
        allowed_tools=fields.texts("allowed_tools"),
        on_error=fields.choice("on_error", _ON_ERROR) or "insert",
        warnings=[*warnings],
    )
    return Mode(definition, body.strip("\n"), body_line + len(body) - len(body.lstrip("\n")))


def _check_places(mode_id: str, body: str, body_line: int, variables: list[ModeVariable]) -> None:
    """Each `{{…}}` names a declared variable."""
    wrong = first_wrong_place(body, {variable.name for variable in variables})
    if wrong is None:
        return
    name, written, offset = wrong
    line = body_line + offset
    if not name:
        raise ModeFault("modes.braces", code="template", line=line, found=written)
    raise ModeFault(
        "modes.undeclared",
        code="template",
        variable=name,
        line=line,
        mode=mode_id,
        name=name,
        declared=_list(variable.name for variable in variables),
    )


def _prompt(found: Found, scope: ModeScope, content: str) -> Mode:
    """A saved prompt; `$1` … `$9` and `$ARGUMENTS` in its text are variables."""
    header, body, body_line = split(content)
    fields = _Fields(read_header(header) if header is not None else {}, [])
    numbers = sorted({match[1] for match in PROMPT_PLACE.finditer(body) if match[1]}, key=_prompt_order)
    definition = ModeDefinition(
        mode_id=found.mode_id,
        display_name=found.mode_id.removeprefix("/prompts:"),
        scope=scope,
        path=shown(found.path),
        category="prompt",
        description=fields.line("description"),
        argument_hint=fields.line("argument_hint"),
        variables=[ModeVariable(name=name) for name in numbers],
    )
    return Mode(definition, body.strip("\n"), body_line)


def _prompt_order(name: str) -> tuple[bool, str]:
    return name == "ARGUMENTS", name


# -- fields -------------------------------------------------------------------------------------------


class _Fields:
    """Typed access to the fields of a mapping."""

    def __init__(self, nodes: dict[str, Node], warnings: list[Text]) -> None:
        # Other tools spell them `argument-hint` and `allowed-tools`
        self.nodes = {name.replace("-", "_"): node for name, node in nodes.items() if not node.absent}
        self.warnings = warnings

    def get(self, name: str) -> Node | None:
        return self.nodes.get(name)

    def line(self, name: str) -> str:
        """A single-line text."""
        node = self.nodes.get(name)
        return " ".join(_text(node, name).split())[:MAX_LINE] if node is not None else ""

    def value(self, name: str) -> str | None:
        node = self.nodes.get(name)
        return _text(node, name) if node is not None else None

    def choice(self, name: str, allowed: tuple[Any, ...]) -> Any:
        """One of `allowed` (the arguments of a Literal), or None if the field is absent."""
        node = self.nodes.get(name)
        if node is None:
            return None
        if node.value not in allowed:
            raise _wrong(node, name, Text("modes.one_of", allowed=", ".join(allowed)))
        return node.value

    def flag(self, name: str) -> bool:
        node = self.nodes.get(name)
        if node is None:
            return False
        word = node.value.lower() if isinstance(node.value, str) else ""
        if word not in (*TRUE[:3], *FALSE[:3]):
            raise _wrong(node, name, Text("modes.true_or_false"))
        return word in TRUE

    def texts(self, name: str) -> list[str]:
        """A list of texts; a single text is a list of one."""
        node = self.nodes.get(name)
        if node is None:
            return []
        if isinstance(node.value, list):
            return [_text(item, name) for item in node.value]
        return [_text(node, name)]


def _known(nodes: dict[str, Node], allowed: tuple[str, ...]) -> _Fields:
    """Warn about unknown fields: a newer version, or a typo."""
    warnings = [
        Text("modes.warn_unknown", name=name, line=node.line, allowed=", ".join(allowed))
        for name, node in nodes.items()
        if name.replace("-", "_") not in allowed
    ]
    return _Fields(nodes, warnings)


def _text(node: Node, name: str) -> str:
    if not isinstance(node.value, str):
        raise _wrong(node, name, Text("modes.a_text"))
    return node.value


def _wrong(node: Node, name: str, allowed: Text, variable: str | None = None) -> ModeFault:
    found: object = node.value if isinstance(node.value, str) else Text("modes.a_structure")
    return ModeFault(
        "modes.field_wrong",
        code="file",
        line=node.line,
        variable=variable,
        name=name,
        found=found,
        allowed=allowed,
    )


def _list(names: Iterable[str]) -> str | Text:
    return ", ".join(names) or Text("modes.none")


# -- variables ----------------------------------------------------------------------------------------


def _variables(node: Node | None) -> tuple[list[ModeVariable], list[Text]]:
    if node is None:
        return [], []
    warnings: list[Text] = []
    variables: list[ModeVariable] = []
    owners: dict[str, str] = {}
    for name, attributes, line in _declared(node):
        variable = _variable(name, attributes, line)
        warnings += attributes.warnings
        if any(variable.name == other.name for other in variables):
            raise ModeFault("modes.variable_twice", code="file", line=line, variable=name, name=name)
        for shortcut in variable.shortcuts:
            if shortcut in owners:
                warnings.append(
                    Text("modes.warn_shortcut", name=variable.name, shortcut=shortcut, other=owners[shortcut])
                )
            owners.setdefault(shortcut, variable.name)
        if variable.rest and any(other.rest for other in variables):
            raise ModeFault("modes.rest_twice", code="file", line=line, variable=name, name=name)
        variables.append(variable)
        if len(variables) > MAX_VARIABLES:
            raise ModeFault("modes.variables_many", code="file", line=line, limit=MAX_VARIABLES)
    return variables, warnings


def _declared(node: Node) -> Iterable[tuple[str, _Fields, int]]:
    """Name, attributes and line of each variable, from a list or a mapping by name."""
    if isinstance(node.value, dict):
        for name, item in node.value.items():
            nodes = {} if item.absent else item.value
            if not isinstance(nodes, dict):
                raise _wrong(item, name, Text("modes.attributes", allowed=", ".join(_ATTRIBUTES)))
            yield _checked_name(name, item), _known(nodes, _ATTRIBUTES), item.line
        return
    if not isinstance(node.value, list):
        raise _wrong(node, "variables", Text("modes.a_variable_list"))
    for item in node.value:
        if isinstance(item.value, str):
            yield _checked_name(item.value, item), _Fields({}, []), item.line
            continue
        if not isinstance(item.value, dict):
            raise _wrong(item, "variables", Text("modes.a_variable_list"))
        fields = _known(item.value, _ATTRIBUTES)
        named = fields.get("name")
        if named is None:
            raise ModeFault("modes.variable_unnamed", code="file", line=item.line)
        yield _checked_name(_text(named, "name"), named), fields, item.line


def _checked_name(name: str, node: Node) -> str:
    if not _NAME.fullmatch(name):
        raise _wrong(node, "name", Text("modes.a_variable_name"))
    return name


def _variable(name: str, fields: _Fields, line: int) -> ModeVariable:
    enum = list(dict.fromkeys(fields.texts("enum")))  # deduplicated: cycling would get stuck
    kind: VariableType = fields.choice("type", _TYPES) or ("enum" if enum else "text")
    if kind == "enum" and not enum:
        raise ModeFault("modes.enum_empty", code="file", line=line, variable=name, name=name)
    variable = ModeVariable(
        name=name,
        type=kind,
        default=fields.value("default"),
        required=fields.flag("required"),
        enum=enum,
        shortcuts=_shortcuts(fields, name),
        pattern=_pattern(fields, name, kind),
        inline_edit=fields.flag("inline_edit") if fields.get("inline_edit") else None,
        mode_scoped=fields.flag("mode_scoped") if fields.get("mode_scoped") else True,
        description=fields.line("description"),
        rest=fields.flag("rest"),
    )
    node = fields.get("default")
    pattern = variable.pattern
    if pattern and variable.default and not is_quick(pattern, len(variable.default)):
        return variable  # validated when the mode is used: loading must stay fast
    if node is not None and variable.default and (problem := problem_with(variable, variable.default)):
        raise ModeFault(
            "modes.default_wrong", code="file", line=node.line, variable=name, name=name, why=problem
        )
    return variable


def _shortcuts(fields: _Fields, name: str) -> list[str]:
    shortcuts = fields.texts("shortcuts")
    node = fields.get("shortcuts")
    for shortcut in shortcuts:
        if node is not None and (
            not shortcut.strip("=") or any(c.isspace() or c in "\"'\\" for c in shortcut)
        ):
            raise _wrong(node, "shortcuts", Text("modes.a_shortcut"), name)
    return shortcuts


def _pattern(fields: _Fields, name: str, kind: VariableType) -> str | None:
    pattern, node = fields.value("pattern"), fields.get("pattern")
    if pattern is None or node is None or kind == "enum":
        return None
    if len(pattern) > MAX_PATTERN:
        raise _wrong(node, "pattern", Text("modes.a_pattern", why=f"> {MAX_PATTERN}"), name)
    try:
        compiled(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise _wrong(node, "pattern", Text("modes.a_pattern", why=str(error)), name) from None
    return pattern
