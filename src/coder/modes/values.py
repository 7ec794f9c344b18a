"""Validate values of variables, and resolve a mode's values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from coder.texts import Phrase

if TYPE_CHECKING:
    from coder.protocol.modes import ModeVariable, ModeVariableInput, ModeVariableState, ValueSource

MAX_VALUE = 8_192  # longer text belongs in a file
TRUE = ("true", "yes", "on", "1")
FALSE = ("false", "no", "off", "0")


def is_boolean(text: str) -> bool:
    return text.lower() in (*TRUE, *FALSE)


def problem_with(variable: ModeVariable, value: str) -> Phrase | None:
    """Why the value is invalid, or None."""
    said = value or '""'
    if len(value) > MAX_VALUE:
        return Phrase("modes.value_long", limit=MAX_VALUE)
    if "\0" in value:
        return Phrase("modes.value_nul")
    if variable.enum:
        if value in variable.enum:
            return None
        return Phrase("modes.value_enum", value=said, allowed=", ".join(variable.enum))
    if variable.type == "boolean" and not is_boolean(value):
        return Phrase("modes.value_boolean", value=said)
    if variable.type == "number" and not _is_number(value):
        return Phrase("modes.value_number", value=said)
    if variable.type == "path" and (not value or "\n" in value):
        return Phrase("modes.value_path", value=said)
    if variable.pattern is not None and variable.type != "enum":
        from coder.modes.patterns import matches

        found = matches(variable.pattern, value)
        if not found:
            key = "modes.value_slow" if found is None else "modes.value_pattern"
            return Phrase(key, value=said, pattern=variable.pattern)
    return None


def _is_number(value: str) -> bool:
    """Integer or decimal, with exponent; no `nan`, `inf` or non-ASCII digits."""
    import re

    return re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", value, re.ASCII) is not None


def settled(
    variable: ModeVariable, asked: ModeVariableInput | None, kept: str | None, cached: str | None
) -> tuple[str | None, ValueSource]:
    """The value after a request: the requested one, else the previous one, else the default.

    `kept`: the active mode's value; `cached`: the session's.
    """
    if asked is not None and not isinstance(asked, str):
        return asked.value, "explicit"
    if asked is None and kept is not None:
        return kept, "explicit"
    if asked is None and cached is not None:
        return cached, "session"
    return (variable.default, "default") if variable.default is not None else (None, "unset")


def state_of(variable: ModeVariable, value: str | None, source: ValueSource) -> ModeVariableState:
    """Validates; a required variable needs a non-empty value."""
    from coder.protocol.modes import ModeVariableState

    problem: Phrase | None = None
    if not value and variable.required:
        problem = _allowed(variable)
    elif value is not None:
        problem = problem_with(variable, value)
    return ModeVariableState(
        name=variable.name,
        type=variable.type,
        value=value,
        is_valid=problem is None,
        source=source,
        required=variable.required,
        default=variable.default,
        enum=variable.enum,
        problem=problem or "",
    )


def _allowed(variable: ModeVariable) -> Phrase:
    if variable.enum:
        return Phrase("modes.allowed_list", allowed=", ".join(variable.enum))
    return Phrase("modes.allowed_type", type=variable.type)


def values_of(states: list[ModeVariableState]) -> Mapping[str, str]:
    """Values for a template, without unset optional variables."""
    return {state.name: state.value for state in states if state.value is not None}
