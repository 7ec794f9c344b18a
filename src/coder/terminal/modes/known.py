"""What the terminal knows of custom modes: the definitions, what is on, what was refused and why.

The engine's `ModeStateChanged` is the only truth of what is on. What the person asks for goes out as one
`SetModeState` with the whole target, and is shown as asked for until it is answered.
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
    PersistentModeTarget,
    RenderedMode,
    SetModeState,
    SetValue,
)

Inputs = Mapping[str, ModeVariableInput]


class Entry(msgspec.Struct, frozen=True):
    """A mode as the bar lists it: on, off again, or refused. `wanted` is what was asked last."""

    mode: RenderedMode
    on: bool
    wanted: bool
    errors: list[ModeError] = []

    @property
    def missing(self) -> list[str]:
        """Required variables without a value, as the last answer told or as they stand."""
        told = [error.variable for error in self.errors if error.code == "missing" and error.variable]
        if told or not self.on:
            return told
        return [v.name for v in self.mode.variables if v.required and not v.value]


class _Asked(msgspec.Struct, frozen=True):
    """A target under way: the modes it names, and the values that it sets."""

    ids: list[str]
    inputs: Mapping[str, Inputs]


class ModeBook:
    """Changed by `take` (events) and by `ask_for` (what the person wants)."""

    def __init__(self) -> None:
        self.definitions: list[ModeDefinition] = []
        self.version = 0  # counts changes of what a menu would show
        self._reached: dict[str, ModeDefinition] = {}
        self._rev = 0
        self._begin()

    def _begin(self) -> None:
        """As a session begins: nothing is on."""
        self.newest = ""  # the mode that was enabled last
        self.model: str | None = None
        self.reasoning_effort: str | None = None
        self._on: dict[str, RenderedMode] = {}
        self._refused: dict[str, RenderedMode] = {}
        self._errors: dict[str, list[ModeError]] = {}
        self._off: dict[str, RenderedMode] = {}  # switched off in the bar: listed until it is left
        self._order: list[str] = []
        self._asked: list[_Asked] = []  # what is not answered yet
        self.version += 1

    # what the engine says

    def take(self, event: AnyEvent) -> None:
        match event:
            case CustomModesListed(modes):
                self.definitions = modes
                self._reached = {one.mode_id: one for one in modes if one.command}
                self.version += 1
            case ModeStateChanged():
                self._changed(event)
            case InputDone(op="set_mode_state"):
                del self._asked[:1]
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
            told = self._errors.setdefault(error.mode_id, [])
            if error.mode_id in refused and error.mode_id not in self._on:
                self._refused[error.mode_id] = refused[error.mode_id]
                self._off.pop(error.mode_id, None)
            if error not in told:
                told.append(error)
        self._order = [i for i in self._order if i in self._listed()]
        self._order += [i for i in self._listed() if i not in self._order]
        self.version += 1

    # what the bar lists

    def _listed(self) -> dict[str, RenderedMode]:
        return {**self._on, **self._off, **self._refused}

    def entries(self) -> list[Entry]:
        listed, wanted = self._listed(), self.wanted
        return [
            Entry(listed[i], i in self._on, i in wanted or i in self._refused, self._errors.get(i, []))
            for i in self._order
        ]

    @property
    def enabled(self) -> list[RenderedMode]:
        return list(self._on.values())

    @property
    def wanted(self) -> list[str]:
        """What will be on once everything asked for is done."""
        return self._asked[-1].ids if self._asked else list(self._on)

    @property
    def waiting(self) -> bool:
        return bool(self._asked)

    def tidy(self) -> None:
        """The bar was left: what is not on is no longer listed, and the order is that of enabling."""
        self._off.clear()
        self._refused.clear()
        self._errors.clear()
        self._order = list(self._on)

    def is_on(self, mode_id: str) -> bool:
        return mode_id in self._on

    def mode(self, mode_id: str) -> RenderedMode | None:
        return self._listed().get(mode_id)

    def explicit(self, mode_id: str) -> dict[str, str]:
        """What the person has set, as against defaults, with what is under way: during a turn a second
        change must not take back the first."""
        mode = self.mode(mode_id)
        states = mode.variables if mode else []
        values = {
            s.name: s.value for s in states if s.source in ("explicit", "session") and s.value is not None
        }
        for asked in self._asked:
            for name, given in asked.inputs.get(mode_id, {}).items():
                if isinstance(given, SetValue):
                    values[name] = given.value
                else:
                    values.pop(name, None)
        return values

    def definition(self, mode_id: str) -> ModeDefinition | None:
        return self._reached.get(mode_id)

    def variables(self, mode_id: str) -> list[ModeVariable]:
        """As declared; from the state, which knows less of them, where definitions are not there yet."""
        definition = self._reached.get(mode_id)
        if definition is not None:
            return definition.variables
        mode = self.mode(mode_id)
        return [_declared(state) for state in mode.variables] if mode else []

    # what the person asks for

    def ask_for(self, mode_id: str, inputs: Inputs | None = None) -> SetModeState:
        """All that is wanted, and this one with these values."""
        ids = self.wanted if mode_id in self.wanted else [*self.wanted, mode_id]
        return self._ask(ids, {mode_id: inputs or {}})

    def ask_without(self, mode_id: str) -> SetModeState:
        mode = self._on.get(mode_id)
        if mode is not None:
            self._off[mode_id] = _cleared(mode, self.variables(mode_id))
        return self._ask([one for one in self.wanted if one != mode_id], {})

    def dismiss(self, mode_id: str) -> None:
        """A refused one is not wanted any more; it stays listed, as one that is off."""
        self._errors.pop(mode_id, None)
        if mode_id in self._refused:
            self._off[mode_id] = self._refused.pop(mode_id)

    def _ask(self, ids: Sequence[str], inputs: Mapping[str, Inputs]) -> SetModeState:
        self._rev += 1
        self._asked.append(_Asked(list(ids), inputs))
        targets = [PersistentModeTarget(one, dict(inputs.get(one, {}))) for one in ids]
        return SetModeState(targets, client_rev=self._rev)


def _declared(state: ModeVariableState) -> ModeVariable:
    return ModeVariable(
        name=state.name, type=state.type, default=state.default, required=state.required, enum=state.enum
    )


def _cleared(mode: RenderedMode, variables: Sequence[ModeVariable]) -> RenderedMode:
    """As the mode will be once it is off: values of its own go with it."""
    own = {variable.name for variable in variables if variable.mode_scoped}
    states = [
        msgspec.structs.replace(s, value=s.default, source="unset" if s.default is None else "default")
        if s.name in own
        else s
        for s in mode.variables
    ]
    return msgspec.structs.replace(mode, variables=states)


def as_inputs(variables: Sequence[ModeVariable], values: Mapping[str, str]) -> dict[str, ModeVariableInput]:
    """Every variable: what has a text is set to it, what is empty goes back to its default."""
    return {v.name: SetValue(values[v.name]) if values.get(v.name) else USE_DEFAULT for v in variables}
