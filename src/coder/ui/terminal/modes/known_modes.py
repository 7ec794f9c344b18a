"""The terminal's model of custom modes: definitions, enabled ones, refused ones and their errors.

The engine's `ModeStateChanged` is the source of truth. A change is one `SetModeState` with the complete
target and a revision (optimistic concurrency), pending until the engine answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from coder.protocol.events import AnyEvent, InputDone, SessionStarted
from coder.protocol.modes import (
    USE_DEFAULT,
    CustomModesListed,
    ModeDefinition,
    ModeError,
    ModeStateChanged,
    ModeVariable,
    ModeVariableInput,
    ModeVariableState,
    OfferedCommand,
    PersistentModeTarget,
    RenderedMode,
    SetModeState,
    SetValue,
)

ModeInputs = Mapping[str, ModeVariableInput]


class ModeEntry(msgspec.Struct, frozen=True):
    """A mode as the bar lists it: on, switched off, or refused. `wanted` is the last requested state."""

    mode: RenderedMode
    on: bool
    wanted: bool
    errors: list[ModeError] = []

    @property
    def missing(self) -> list[str]:
        """Required variables without a value, from the last errors or the current state."""
        errors = [error.variable for error in self.errors if error.code == "missing" and error.variable]
        if errors or not self.on:
            return errors
        return [v.name for v in self.mode.variables if v.required and not v.value]


class _PendingTarget(msgspec.Struct, frozen=True):
    """A target that the engine has not answered: mode ids and the values it sets."""

    ids: list[str]
    inputs: Mapping[str, ModeInputs]


class KnownModes:
    """Changed by events (`handle`) and by requests (`target_with`, `target_without`)."""

    def __init__(self) -> None:
        self.definitions: list[ModeDefinition] = []
        self.offered: list[OfferedCommand] = []
        self.version = 0  # invalidates the menu's cache
        self._by_id: dict[str, ModeDefinition] = {}
        self._rev = 0
        self._begin()

    def _begin(self) -> None:
        self.newest = ""  # the mode that was enabled last
        self.model: str | None = None
        self.reasoning_effort: str | None = None
        self._on: dict[str, RenderedMode] = {}
        self._refused: dict[str, RenderedMode] = {}
        self._errors: dict[str, list[ModeError]] = {}
        self._off: dict[str, RenderedMode] = {}  # switched off in the bar: listed until the bar is left
        self._order: list[str] = []
        self._pending: list[_PendingTarget] = []  # not yet answered
        self.version += 1

    # events

    def handle(self, event: AnyEvent) -> None:
        match event:
            case CustomModesListed(modes, offered):
                self.definitions, self.offered = modes, offered
                self._by_id = {one.mode_id: one for one in modes if one.command}
                self.version += 1
            case ModeStateChanged():
                self._changed(event)
            case InputDone(op="set_mode_state"):
                del self._pending[:1]
            case SessionStarted():
                self._begin()
            case _:
                pass

    def _changed(self, event: ModeStateChanged) -> None:
        before = self._on
        self._on = {mode.mode_id: mode for mode in event.enabled_modes}
        self._rev = max(self._rev, event.server_rev)
        self.model, self.reasoning_effort = event.model, event.reasoning_effort
        added = [mode_id for mode_id in self._on if mode_id not in before]
        self.newest = added[-1] if added else self.newest
        for mode_id in self._on:
            self._off.pop(mode_id, None)
            self._refused.pop(mode_id, None)
            self._errors.pop(mode_id, None)
        refused = {mode.mode_id: mode for mode in event.refused_modes}
        for error in event.errors:
            errors = self._errors.setdefault(error.mode_id, [])
            if error.mode_id in refused and error.mode_id not in self._on:
                self._refused[error.mode_id] = refused[error.mode_id]
                self._off.pop(error.mode_id, None)
            if error not in errors:
                errors.append(error)
        self._order = [i for i in self._order if i in self._listed()]
        self._order += [i for i in self._listed() if i not in self._order]
        self.version += 1

    # bar entries

    def _listed(self) -> dict[str, RenderedMode]:
        return {**self._on, **self._off, **self._refused}

    def entries(self) -> list[ModeEntry]:
        listed, wanted = self._listed(), self.wanted
        return [
            ModeEntry(listed[i], i in self._on, i in wanted or i in self._refused, self._errors.get(i, []))
            for i in self._order
        ]

    @property
    def enabled(self) -> list[RenderedMode]:
        return list(self._on.values())

    @property
    def wanted(self) -> list[str]:
        """The enabled modes once all pending targets are applied."""
        return self._pending[-1].ids if self._pending else list(self._on)

    @property
    def waiting(self) -> bool:
        return bool(self._pending)

    def remove_disabled(self) -> None:
        """When the bar is left: list only enabled modes, in the order of enabling."""
        self._off.clear()
        self._refused.clear()
        self._errors.clear()
        self._order = list(self._on)

    def is_on(self, mode_id: str) -> bool:
        return mode_id in self._on

    def mode(self, mode_id: str) -> RenderedMode | None:
        return self._listed().get(mode_id)

    def explicit(self, mode_id: str) -> dict[str, str]:
        """The explicitly set values, including pending ones, so that a second change does not revert the
        first."""
        mode = self.mode(mode_id)
        states = mode.variables if mode else []
        values = {
            s.name: s.value for s in states if s.source in ("explicit", "session") and s.value is not None
        }
        for pending in self._pending:
            for name, given in pending.inputs.get(mode_id, {}).items():
                if isinstance(given, SetValue):
                    values[name] = given.value
                else:
                    values.pop(name, None)
        return values

    def definition(self, mode_id: str) -> ModeDefinition | None:
        return self._by_id.get(mode_id)

    def variables(self, mode_id: str) -> list[ModeVariable]:
        """From the definition; if it is not loaded yet, from the state, which has fewer fields."""
        definition = self._by_id.get(mode_id)
        if definition is not None:
            return definition.variables
        mode = self.mode(mode_id)
        return [_declared(state) for state in mode.variables] if mode else []

    # requests

    def target_with(self, mode_id: str, inputs: ModeInputs | None = None) -> SetModeState:
        """The current target plus this mode with these values."""
        ids = self.wanted if mode_id in self.wanted else [*self.wanted, mode_id]
        return self._ask(ids, {mode_id: inputs or {}})

    def target_without(self, mode_id: str) -> SetModeState:
        mode = self._on.get(mode_id)
        if mode is not None:
            self._off[mode_id] = _cleared(mode, self.variables(mode_id))
        return self._ask([one for one in self.wanted if one != mode_id], {})

    def dismiss(self, mode_id: str) -> None:
        """Stop wanting a refused mode; it stays listed as off."""
        self._errors.pop(mode_id, None)
        if mode_id in self._refused:
            self._off[mode_id] = self._refused.pop(mode_id)

    def _ask(self, ids: Sequence[str], inputs: Mapping[str, ModeInputs]) -> SetModeState:
        self._rev += 1
        self._pending.append(_PendingTarget(list(ids), inputs))
        targets = [PersistentModeTarget(one, dict(inputs.get(one, {}))) for one in ids]
        return SetModeState(targets, client_rev=self._rev)


def _declared(state: ModeVariableState) -> ModeVariable:
    return ModeVariable(
        name=state.name, type=state.type, default=state.default, required=state.required, enum=state.enum
    )


def _cleared(mode: RenderedMode, variables: Sequence[ModeVariable]) -> RenderedMode:
    """The mode once it is off: its mode-scoped values are reset."""
    own = {variable.name for variable in variables if variable.mode_scoped}
    states = [
        msgspec.structs.replace(s, value=s.default, source="unset" if s.default is None else "default")
        if s.name in own
        else s
        for s in mode.variables
    ]
    return msgspec.structs.replace(mode, variables=states)


def as_inputs(variables: Sequence[ModeVariable], values: Mapping[str, str]) -> dict[str, ModeVariableInput]:
    """An input for every variable: its text, or the default if empty."""
    return {v.name: SetValue(values[v.name]) if values.get(v.name) else USE_DEFAULT for v in variables}
