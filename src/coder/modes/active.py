"""Resolve a requested mode: find it, bind its variables, collect errors. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from coder.modes.catalogue import Catalogue
from coder.modes.faults import ModeFault
from coder.modes.parse import Mode
from coder.modes.render import Rendered
from coder.modes.values import settled, state_of
from coder.protocol.entries import RecordedMode
from coder.protocol.modes import (
    ModeError,
    ModeKind,
    ModeVariableInput,
    ModeVariableState,
    PersistentModeTarget,
    RenderedMode,
    SetValue,
)
from coder.texts import Phrase

Inputs = Mapping[str, ModeVariableInput]


class Active(msgspec.Struct, frozen=True):
    """An active or requested mode: explicit values, resolved values, rendered text."""

    mode: Mode
    explicit: dict[str, str]
    variables: list[ModeVariableState]
    rendered: Rendered | None = None

    @property
    def mode_id(self) -> str:
        return self.mode.definition.mode_id

    def shown(self) -> RenderedMode:
        definition = self.mode.definition
        rendered = self.rendered
        return RenderedMode(
            mode_id=definition.mode_id,
            display_name=definition.display_name,
            scope=definition.scope,
            variables=self.variables,
            rendered_instructions=rendered.text if rendered else None,
            warnings=[*definition.warnings, *(rendered.warnings if rendered else [])],
        )


def usable(catalogue: Catalogue, name: str, kind: ModeKind) -> tuple[Mode | None, list[ModeError]]:
    """The mode of that name, or why it cannot be used as this kind."""
    mode = catalogue.find(name)
    if mode is None:
        return None, [unknown(catalogue, name)]
    definition = mode.definition
    if definition.error is not None:
        return None, [definition.error]
    if definition.kind != kind:
        key = "modes.not_persistent" if kind == "persistent" else "modes.not_instant"
        fault = ModeFault(key, code="wrong_kind", mode=definition.mode_id)
        return None, [fault.error(definition.mode_id)]
    return mode, []


def bound(
    mode: Mode, inputs: Inputs, before: Mapping[str, str], cache: Mapping[str, str]
) -> tuple[Active, list[ModeError]]:
    """The values after a request, and their errors.

    `before`: explicit values of an active mode; `cache`: the session's, by `{mode_id}:{variable}`.
    """
    definition = mode.definition
    declared = {variable.name for variable in definition.variables}
    errors = [
        ModeFault(
            "modes.unknown_variable",
            code="unknown_variable",
            variable=name,
            mode=definition.mode_id,
            name=name,
            declared=", ".join(v.name for v in definition.variables) or Phrase("modes.none"),
        ).error(definition.mode_id)
        for name in inputs
        if name not in declared
    ]
    explicit: dict[str, str] = {}
    states: list[ModeVariableState] = []
    for variable in definition.variables:
        cached = None if variable.mode_scoped else cache.get(f"{definition.mode_id}:{variable.name}")
        value, source = settled(variable, inputs.get(variable.name), before.get(variable.name), cached)
        if source in ("explicit", "session") and value is not None:
            explicit[variable.name] = value
        state = state_of(variable, value, source)
        states.append(state)
        if not state.is_valid:
            errors.append(_invalid(definition.mode_id, state))
    return Active(mode, explicit, states), errors


def _invalid(mode_id: str, state: ModeVariableState) -> ModeError:
    missing = state.required and not state.value
    fault = ModeFault(
        "modes.variable_missing" if missing else "modes.variable_invalid",
        code="missing" if missing else "invalid",
        variable=state.name,
        mode=mode_id,
        name=state.name,
        why=state.problem,
    )
    return fault.error(mode_id)


def unknown(catalogue: Catalogue, name: str) -> ModeError:
    from difflib import get_close_matches

    name = "/" + name.removeprefix("/")
    commands = [definition.command for definition in catalogue.definitions if definition.command]
    near = get_close_matches(name, commands, n=3, cutoff=0.6)
    known = Phrase("modes.nearest", near=", ".join(near)) if near else Phrase("modes.see_list")
    fault = ModeFault("modes.unknown", code="unknown_mode", mode=name, hint=known)
    return fault.error(name)


def recorded_targets(modes: list[RecordedMode]) -> list[PersistentModeTarget]:
    targets: list[PersistentModeTarget] = []
    for mode in modes:
        given: dict[str, ModeVariableInput] = {
            name: SetValue(value) for name, value in mode.variables.items() if isinstance(value, str)
        }
        if mode.mode_id:
            targets.append(PersistentModeTarget(mode.mode_id, given))
    return targets
