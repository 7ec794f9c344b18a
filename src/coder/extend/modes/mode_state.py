"""State of the active modes and their values, changed by ops.

A request gives the whole target state. It is validated and rendered first and applied atomically: on any
error the last good state stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from coder.extend.modes.discover import Catalogue
from coder.extend.modes.parse import Mode
from coder.extend.modes.render import (
    MAX_BLOCK,
    ReadFile,
    Rendered,
    RunCommand,
    mode_block,
    render,
    user_instructions,
)
from coder.extend.modes.template import ModeFault
from coder.extend.modes.values import bind, settled, split_line, state_of, values_of
from coder.protocol.entries import ModeState, RecordedMode
from coder.protocol.modes import (
    InstantModeExecuted,
    ModeDefinition,
    ModeError,
    ModeKind,
    ModeStateChanged,
    ModeVariableInput,
    ModeVariableState,
    PersistentModeTarget,
    ReasoningEffort,
    RenderedMode,
    SetModeState,
    SetValue,
    TriggerInstantMode,
)
from coder.texts import Text

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
            declared=", ".join(v.name for v in definition.variables) or Text("modes.none"),
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
    known = Text("modes.nearest", near=", ".join(near)) if near else Text("modes.see_list")
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


class Invocation(msgspec.Struct, frozen=True):
    """A parsed slash line: an op or errors, and the rest of the text."""

    definition: ModeDefinition | None
    op: SetModeState | TriggerInstantMode | None
    leftover: str = ""
    errors: list[ModeError] = []


class ModeKeeper:
    """The modes of one session. Takes ops and returns the events that answer them."""

    def __init__(
        self,
        catalogue: Catalogue,
        read_file: ReadFile,
        run_command: RunCommand,
        base_instructions: str = "",
    ) -> None:
        """`base_instructions`: the instructions without any mode (AGENTS.md)."""
        self.catalogue = catalogue
        self.base_instructions = base_instructions
        self.server_rev = 0
        self._read_file = read_file
        self._run_command = run_command
        self._on: dict[str, Active] = {}  # in order of activation
        self._cache: dict[str, str] = {}  # by `{mode_id}:{variable}`: values that outlive their mode
        self._client_rev: int | None = None  # of the last successful request
        self._trigger_rev: int | None = None
        self._block = ""
        self._serialized = asyncio.Lock()  # serializes requests: commands take time

    # current state

    @property
    def enabled(self) -> list[RenderedMode]:
        return [active.shown() for active in self._on.values()]

    @property
    def block(self) -> str:
        """`<mode_instructions>…`, empty without active modes."""
        return self._block

    @property
    def user_instructions(self) -> str:
        """Base text and block, as sent to the model."""
        return user_instructions(self.base_instructions, self._block)

    @property
    def model(self) -> str | None:
        return self.model_from.model if self.model_from else None

    @property
    def model_from(self) -> ModeDefinition | None:
        """The last activated mode that names a model."""
        return next((m for m in self._newest_first() if m.model), None)

    @property
    def reasoning_effort(self) -> ReasoningEffort | None:
        return next((m.reasoning_effort for m in self._newest_first() if m.reasoning_effort), None)

    def _newest_first(self) -> list[ModeDefinition]:
        return [active.mode.definition for active in reversed(self._on.values())]

    def is_on(self, mode_id: str) -> bool:
        return mode_id in self._on

    # the ops

    async def set_state(self, op: SetModeState) -> ModeStateChanged:
        async with self._serialized:
            return await self._set_state(op)

    async def _set_state(self, op: SetModeState) -> ModeStateChanged:
        if op.client_rev is not None and self._client_rev is not None:
            if op.client_rev < self._client_rev:
                return self._answer(errors=[self._stale("", op.client_rev)])
            if op.client_rev == self._client_rev:
                return self._answer()  # idempotent: a repeated request
        target, errors = self._target(op.modes)
        if not errors:
            target, errors = await self._render_all(target)
        if errors:
            return self._answer(errors=errors, refused=target)
        return self._take(target, op.client_rev)

    async def trigger(self, op: TriggerInstantMode) -> InstantModeExecuted:
        """Render an instant mode or saved prompt, to be used as the person's message."""
        async with self._serialized:
            return await self._trigger(op)

    async def _trigger(self, op: TriggerInstantMode) -> InstantModeExecuted:
        errors = self._trigger_refused(op)
        if errors:
            return InstantModeExecuted(op.mode_id, "", errors=errors)
        mode, errors = usable(self.catalogue, op.mode_id, "instant")
        if mode is None:
            return InstantModeExecuted(op.mode_id, "", errors=errors)
        active, errors = bound(mode, op.variables, {}, self._cache)
        if not errors:
            active, errors = await self._with_text(active)
        if not errors and active.rendered is not None and not active.rendered.text:
            fault = ModeFault("modes.rendered_empty", code="template", mode=active.mode_id)
            errors = [fault.error(active.mode_id)]
        if errors or active.rendered is None:
            return InstantModeExecuted(active.mode_id, "", errors=errors)
        self._remember(active)
        if op.client_rev is not None:
            self._trigger_rev = self._client_rev = op.client_rev
        definition = mode.definition
        warnings = [*definition.warnings, *active.rendered.warnings]
        values = dict(values_of(active.variables))
        return InstantModeExecuted(definition.mode_id, active.rendered.text, warnings=warnings, values=values)

    async def preview(self, line: str) -> tuple[ModeDefinition | None, Rendered | None, list[ModeError]]:
        """What `/name args` renders to, changing nothing; an active mode has its values."""
        name, rest = split_line(line)
        mode = self.catalogue.find(name)
        if mode is None:
            return None, None, [unknown(self.catalogue, name)]
        definition = mode.definition
        if definition.error is not None:
            return definition, None, [definition.error]
        try:
            inputs = _set(bind(definition, rest).values)
        except ModeFault as fault:
            return definition, None, [fault.error(definition.mode_id)]
        on = self._on.get(definition.mode_id)
        active, errors = bound(mode, inputs, on.explicit if on else {}, self._cache)
        if not errors:
            active, errors = await self._with_text(active)
        return definition, active.rendered, errors

    # session lifecycle

    async def start(self) -> ModeStateChanged | None:
        """Activate valid `default_enabled` modes; None without any. Call once."""
        asked = [
            mode
            for mode in self.catalogue.modes
            if mode.definition.default_enabled and mode.definition.command
        ]
        if not asked:
            return None
        target: list[Active] = []
        refused: list[Active] = []
        errors: list[ModeError] = []
        for mode in asked:
            await asyncio.sleep(0)  # a chance to be cancelled
            active, problems = bound(mode, {}, {}, self._cache)
            if not problems:
                active, problems = await self._with_text(active)
            if not problems:
                problems = self._too_long([*target, active])
            (refused if problems else target).append(active)
            errors += problems
        taken = self._take(target, None)
        return msgspec.structs.replace(
            taken, errors=errors, refused_modes=[active.shown() for active in refused]
        )

    def record(self) -> ModeState:
        """For the log."""
        modes = [
            RecordedMode(mode_id=active.mode_id, variables=dict(active.explicit))
            for active in self._on.values()
        ]
        return ModeState(server_rev=self.server_rev, modes=modes, session_values=dict(self._cache))

    async def restore(self, state: ModeState) -> ModeStateChanged:
        """Restore a state written by `record`; skips modes that are gone or invalid.

        `changed` where it had any mode: what the conversation says of them may be out of date.
        """
        self.server_rev = max(self.server_rev, state.server_rev)
        self._cache.update({k: v for k, v in state.session_values.items() if isinstance(v, str)})
        target, errors = await self._still_valid(state)
        self._take(target, None)
        return self._answer(changed=bool(state.modes), errors=errors)

    async def reload(self) -> ModeStateChanged:
        """Read the files again; active modes keep their values, unless they are gone or invalid now."""
        async with self._serialized:
            state = self.record()
            await self.catalogue.reload()
            before, self._on = self._on, {}  # neither texts nor places of the old files are used
            try:
                target, errors = await self._still_valid(state)
            except BaseException:
                self._on = before
                raise
            self._on = before
            return msgspec.structs.replace(self._take(target, None), errors=errors)

    async def _still_valid(self, state: ModeState) -> tuple[list[Active], list[ModeError]]:
        errors: list[ModeError] = []
        target: list[Active] = []
        for wanted in recorded_targets(state.modes):
            actives, problems = self._target([wanted])
            if not problems:
                actives, problems = await self._render_all(actives)
            errors += problems
            target += [] if problems else actives
        return target, errors

    # lines and targets, for stateless front ends

    def from_line(self, line: str) -> Invocation:
        """Parse `/name args` into an op, for the prompt, `--mode` and the SDK."""
        name, rest = split_line(line)
        mode = self.catalogue.find(name)
        if mode is None:
            return Invocation(None, None, errors=[unknown(self.catalogue, name)])
        definition = mode.definition
        try:
            taken = bind(definition, rest)
        except ModeFault as fault:
            return Invocation(definition, None, errors=[fault.error(definition.mode_id)])
        inputs = _set(taken.values)
        op: SetModeState | TriggerInstantMode
        if definition.kind == "instant":
            op = TriggerInstantMode(definition.mode_id, inputs)
        else:
            op = SetModeState(self.target_with(definition.mode_id, inputs))
        return Invocation(definition, op, taken.leftover)

    def target_with(self, mode_id: str, variables: Inputs | None = None) -> list[PersistentModeTarget]:
        """The active modes, and this one with these changes."""
        ids = list(self._on) if mode_id in self._on else [*self._on, mode_id]
        return [PersistentModeTarget(i, dict(variables or {}) if i == mode_id else {}) for i in ids]

    def target_without(self, mode_id: str) -> list[PersistentModeTarget]:
        return [PersistentModeTarget(one) for one in self._on if one != mode_id]

    # resolving a target

    def _target(self, targets: Sequence[PersistentModeTarget]) -> tuple[list[Active], list[ModeError]]:
        """In order of activation: active modes keep their place, new ones follow."""
        wanted: dict[str, Active] = {}
        errors: list[ModeError] = []
        for target in targets:
            if not target.enabled:
                continue
            mode, problems = usable(self.catalogue, target.mode_id, "persistent")
            errors += problems
            if mode is None:
                continue
            mode_id = mode.definition.mode_id
            before = wanted.get(mode_id) or self._on.get(mode_id)  # listed twice: merged
            explicit = before.explicit if before else {}
            active, problems = bound(mode, target.variables, explicit, self._cache)
            errors += problems
            wanted[active.mode_id] = active
        kept = [wanted.pop(mode_id) for mode_id in self._on if mode_id in wanted]
        return [*kept, *wanted.values()], errors

    async def _render_all(self, target: Sequence[Active]) -> tuple[list[Active], list[ModeError]]:
        done: list[Active] = []
        errors: list[ModeError] = []
        for active in target:
            filled, problems = await self._with_text(active)
            done.append(filled)
            errors += problems
        return done, errors or self._too_long(done)

    async def _with_text(self, active: Active) -> tuple[Active, list[ModeError]]:
        """With its text. An active mode with unchanged values keeps its text, so that its commands do not run
        again."""
        before = self._on.get(active.mode_id)
        values = values_of(active.variables)
        if before is not None and before.rendered and values_of(before.variables) == values:
            return msgspec.structs.replace(active, rendered=before.rendered), []
        try:
            rendered = await render(active.mode, values, self._read_file, self._run_command)
        except ModeFault as fault:
            definition = active.mode.definition
            return active, [fault.error(definition.mode_id, definition.path)]
        return msgspec.structs.replace(active, rendered=rendered), []

    def _too_long(self, target: Sequence[Active]) -> list[ModeError]:
        length = len(mode_block([active.shown() for active in target]))
        if length <= MAX_BLOCK:
            return []
        last = target[-1].mode_id
        fault = ModeFault("modes.block_long", code="too_long", mode=last, length=length, limit=MAX_BLOCK)
        return [fault.error(last)]

    # applying

    def _take(self, target: Sequence[Active], client_rev: int | None) -> ModeStateChanged:
        before = self._on
        self._on = {active.mode_id: active for active in target}
        for active in target:
            self._remember(active)
        block = mode_block(self.enabled)
        changed = block != self._block
        self._block = block
        if client_rev is not None:
            self._client_rev = client_rev
        if client_rev is not None and client_rev > self.server_rev:
            self.server_rev = client_rev
        elif changed or list(before) != list(self._on):  # a client that counts from below ours
            self.server_rev += 1
        return self._answer(changed=changed)

    def _remember(self, active: Active) -> None:
        """Cache values that outlive the mode. `mode_scoped` ones are dropped with it."""
        for variable in active.mode.definition.variables:
            if variable.mode_scoped:
                continue
            key = f"{active.mode_id}:{variable.name}"
            if variable.name in active.explicit:
                self._cache[key] = active.explicit[variable.name]
            else:
                self._cache.pop(key, None)

    def _answer(
        self, *, changed: bool = False, errors: Sequence[ModeError] = (), refused: Sequence[Active] = ()
    ) -> ModeStateChanged:
        return ModeStateChanged(
            enabled_modes=self.enabled,
            combined_user_instructions=self.user_instructions if changed else None,
            server_rev=self.server_rev,
            changed=changed,
            errors=list(errors),
            refused_modes=[active.shown() for active in refused],
            model=self.model,
            reasoning_effort=self.reasoning_effort,
        )

    # errors

    def _stale(self, mode_id: str, client_rev: int) -> ModeError:
        fault = ModeFault("modes.stale", code="stale", rev=client_rev, newest=self._client_rev)
        return fault.error(mode_id)

    def _trigger_refused(self, op: TriggerInstantMode) -> list[ModeError]:
        """Errors of a stale or repeated trigger."""
        rev = op.client_rev
        if rev is None:
            return []
        old = self._client_rev is not None and rev < self._client_rev
        return [self._stale(op.mode_id, rev)] if old or rev == self._trigger_rev else []


def _set(values: Mapping[str, str]) -> dict[str, ModeVariableInput]:
    return {name: SetValue(value) for name, value in values.items()}
