"""Custom modes as front ends see them: definitions, state, ops and events."""

from __future__ import annotations

from typing import Literal

import msgspec

from coder.protocol.structs import Event, Op
from coder.texts import AnyText

ModeKind = Literal["persistent", "instant"]
ModeCategory = Literal["mode", "prompt"]
VariableType = Literal["text", "enum", "boolean", "number", "path"]
ValueSource = Literal["explicit", "session", "default", "unset"]
OnError = Literal["insert", "stop"]
ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
ModeErrorCode = Literal[
    "file",  # the mode's file is broken
    "unknown_mode",
    "wrong_kind",
    "unknown_variable",
    "missing",  # a required variable has no value
    "invalid",  # a value is not of the variable's type, list or pattern
    "argument",  # a line of arguments cannot be read
    "template",
    "path",
    "command",
    "too_long",
    "stale",  # the request is older than what was already done
]


class ModeError(msgspec.Struct, frozen=True):
    """An error in a mode, or in one of its variables."""

    mode_id: str
    message: AnyText
    variable: str | None = None
    code: ModeErrorCode = "file"
    line: int = 0  # of the mode's file, from 1; 0: none


class ModeScope(msgspec.Struct, frozen=True, rename={"directory": "folder"}):
    """Where a mode comes from. `label` is `(project:<dirname>)` or `(global)`."""

    kind: Literal["project", "global"]
    label: str
    directory: str


class ModeVariable(msgspec.Struct, frozen=True):
    """A variable as the frontmatter declares it; values are text whatever their type."""

    name: str
    type: VariableType = "text"
    default: str | None = None
    required: bool = False
    enum: list[str] = []
    shortcuts: list[str] = []
    pattern: str | None = None
    inline_edit: bool | None = None
    mode_scoped: bool = True
    description: str = ""
    rest: bool = False  # takes the rest of the line as typed


class ModeDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """One mode or saved prompt, usable or not. `command` is what to type for it: `mode_id`, `/modes:name`
    where a built-in command has the name, or empty if another definition (`shadowed_by`) has taken its
    place."""

    mode_id: str
    display_name: str
    scope: ModeScope
    path: str
    kind: ModeKind = "instant"
    category: ModeCategory = "mode"
    description: str = ""
    argument_hint: str = ""
    variables: list[ModeVariable] = []
    default_enabled: bool = False
    model: str | None = None
    reasoning_effort: ReasoningEffort | None = None
    allowed_tools: list[str] = []
    on_error: OnError = "insert"  # what a failed `!command` does: its output is inserted, or the mode refused
    command: str = ""
    shadowed_by: str | None = None
    shadowed_by_path: str | None = None
    error: ModeError | None = None
    warnings: list[AnyText] = []

    @property
    def usage(self) -> str:
        """Its arguments as help shows them: `<role> [region]` where the file has no hint of its own."""
        words = (f"<{v.name}>" if v.required else f"[{v.name}]" for v in self.variables)
        return self.argument_hint or " ".join(words)


class ModeVariableState(msgspec.Struct, frozen=True):
    """A variable's value now, and where it is from. `problem` says why `is_valid` is false."""

    name: str
    type: VariableType
    value: str | None
    is_valid: bool
    source: ValueSource
    required: bool
    default: str | None = None
    enum: list[str] = []
    problem: AnyText = ""


class RenderedMode(msgspec.Struct, frozen=True):
    """A persistent mode with its values; `rendered_instructions` is None if it could not be rendered."""

    mode_id: str
    display_name: str
    scope: ModeScope
    variables: list[ModeVariableState]
    rendered_instructions: str | None
    warnings: list[AnyText] = []


class SetValue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An explicit value; an empty text is one too. JSON: `{"set": "…"}`."""

    value: str = msgspec.field(name="set")


# Reset a variable to its default (JSON `"use_default"`), or set an explicit value.
ModeVariableInput = Literal["use_default"] | SetValue
ModeArg = ModeVariableInput
USE_DEFAULT: Literal["use_default"] = "use_default"


class PersistentModeTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mode to activate. Variables not listed keep their value."""

    mode_id: str
    variables: dict[str, ModeVariableInput] = {}
    enabled: bool = True


class ListCustomModes(Op, frozen=True):
    """Asks for all definitions; answered by `CustomModesListed`."""


class SetModeState(Op, frozen=True):
    """Set the active persistent modes; all others are deactivated."""

    modes: list[PersistentModeTarget]
    client_rev: int | None = None


class TriggerInstantMode(Op, frozen=True):
    """Render an instant mode (or saved prompt) and take the result as the person's message."""

    mode_id: str
    variables: dict[str, ModeArg] = msgspec.field(default_factory=dict)
    client_rev: int | None = None


class OfferedCommand(msgspec.Struct, frozen=True):
    """A prompt of an MCP server (`source` `(mcp:<server>)`) or command of a package (`(package:<name>)`)."""

    command: str
    source: str
    description: str = ""
    arguments: str = ""


class CustomModesListed(Event, frozen=True):
    """Every definition that was found, nearest first: the answer to `ListCustomModes`. `commands`: of MCP
    servers and packages. It comes again when a server has connected or its prompts have changed."""

    modes: list[ModeDefinition]
    commands: list[OfferedCommand] = msgspec.field(default_factory=list)


class ModeStateChanged(Event, frozen=True):
    """The state after a `SetModeState`; unchanged if `errors` reject it. `enabled_modes` is authoritative.
    `refused_modes` holds the modes of a rejected target with their values, so that a front end can mark what
    is missing. `model` and `reasoning_effort` come from the active modes."""

    enabled_modes: list[RenderedMode]
    combined_user_instructions: str | None
    server_rev: int
    changed: bool
    errors: list[ModeError] = msgspec.field(default_factory=list)
    refused_modes: list[RenderedMode] = msgspec.field(default_factory=list)
    model: str | None = None
    reasoning_effort: ReasoningEffort | None = None


class InstantModeExecuted(Event, frozen=True):
    """An instant mode was rendered; with `errors` it was not, and nothing is sent to the model. `values` are
    those that it was rendered with. `leftover`: the rest of a typed line after the mode and its values; it is
    not sent."""

    mode_id: str
    rendered_prompt: str
    warnings: list[AnyText] = msgspec.field(default_factory=list)
    errors: list[ModeError] = msgspec.field(default_factory=list)
    leftover: str = ""
    values: dict[str, str] = msgspec.field(default_factory=dict)


ListCustomModesResponseEvent = CustomModesListed  # its name in the description of custom modes
