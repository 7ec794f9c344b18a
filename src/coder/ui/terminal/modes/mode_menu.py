"""Custom modes in the terminal: their state, menu entries and bar."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from coder.protocol.events import AnyEvent, SessionStarted
from coder.protocol.modes import (
    CustomModesListed,
    ListCustomModes,
    ModeDefinition,
    ModeStateChanged,
    OfferedCommand,
    SetModeState,
    TriggerInstantMode,
)
from coder.texts import Catalog
from coder.ui.terminal.input.menu import MenuItem
from coder.ui.terminal.modes.known_modes import KnownModes
from coder.ui.terminal.modes.mode_bar import ModeAnnouncer, ModeBar
from coder.ui.terminal.render.escapes import flat
from coder.ui.terminal.render.theme import Theme

_HINT_COLUMNS = 24


class ModeMenu:
    """A `MenuSource` whose entries are cached until the modes change."""

    def __init__(self, known: KnownModes, texts: Catalog) -> None:
        self._known = known
        self._texts = texts
        self._cached: list[MenuItem] = []
        self._cached_version = -1

    def items(self) -> Sequence[MenuItem]:
        if self._cached_version != self._known.version:
            self._cached_version = self._known.version
            self._cached = [item for one in self._known.definitions for item in self._items(one)]
            taken = {one.command for one in self._known.definitions}
            self._cached += [_offered(one) for one in self._known.offered if one.command not in taken]
        return self._cached

    def arguments(self, _query: str) -> Sequence[MenuItem]:
        """Arguments of `/modes`: `off` and an enabled mode."""
        return [
            MenuItem(label=f"off {mode.mode_id[1:]}", insert=f"off {mode.mode_id[1:]}")
            for mode in self._known.enabled
        ]

    def _items(self, one: ModeDefinition) -> list[MenuItem]:
        on = bool(one.command) and self._known.is_on(one.mode_id)
        label = one.command or one.mode_id
        item = MenuItem(
            label=label,
            insert=label[1:],
            about=("● " if on else "") + self._about(one),
            scope=self._scope(one),
            hint="" if one.error else one.argument_hint or _fitting(one.usage),
            style="bad" if one.error else "" if one.command else "dim",
        )
        return [item, self._switch(one)] if on else [item]

    def _switch(self, one: ModeDefinition) -> MenuItem:
        """The entry that switches the mode off."""
        name = one.mode_id[1:]
        about = self._texts.say("terminal.mode_switch_off", name=one.display_name)
        return MenuItem(label=f"/modes off {name}", insert=f"modes off {name}", about=about)

    def _about(self, one: ModeDefinition) -> str:
        say = self._texts.say
        if one.error is not None:
            return "⚠ " + _fault(one, self._texts)
        parts = [one.display_name] if one.display_name != one.mode_id[1:] and one.category == "mode" else []
        parts += [one.description] if one.description else []
        about = ": ".join(parts)
        if one.shadowed_by is None:
            return about
        shadowed = say("modes.state_shadowed", scope=one.shadowed_by)
        if not one.command:
            shadowed = f"{shadowed}, {say('terminal.mode_runs_other', command=one.mode_id)}"
        return f"{shadowed} · {about}" if about else shadowed

    def _scope(self, one: ModeDefinition) -> str:
        if one.category == "prompt":
            return f"{one.scope.label} {self._texts.say('modes.kind_prompt')}"
        return one.scope.label


def _fitting(hint: str) -> str:
    """The first whole words that fit."""
    if len(hint) <= _HINT_COLUMNS:
        return hint
    return f"{hint[: _HINT_COLUMNS + 1].rpartition(' ')[0]} …".lstrip()


def _offered(one: OfferedCommand) -> MenuItem:
    return MenuItem(
        label=one.command,
        insert=one.command[1:],
        about=one.description,
        scope=one.source,
        hint=_fitting(one.arguments),
    )


def _fault(one: ModeDefinition, texts: Catalog) -> str:
    """The file's error with the line number instead of the path, to save room."""
    assert one.error is not None
    line = one.error.line
    message = texts.of(one.error.message).removeprefix(f"{one.path}:{line}: ").removeprefix(f"{one.path}: ")
    return flat(texts.say("terminal.mode_line", line=line, fault=message) if line else message)


ModeOp = ListCustomModes | SetModeState | TriggerInstantMode


class Modes:
    """`send` submits an op (False: not now), `say` adds a line to the transcript."""

    def __init__(
        self,
        texts: Catalog,
        theme: Theme,
        size: Callable[[], tuple[int, int]],
        send: Callable[[ModeOp], bool],
        say: Callable[[str], None],
        *,
        plain: bool,
    ) -> None:
        self.known = KnownModes()
        self.menu = ModeMenu(self.known, texts)
        self.bar = ModeBar(self.known, texts, theme, send, size, plain=plain)
        self._announcer = ModeAnnouncer(texts) if plain else None
        self._send, self._say = send, say
        self._list_modes_next = False

    def handle(self, event: AnyEvent) -> bool:
        """Whether the event concerns only modes."""
        self.known.handle(event)
        match event:
            case SessionStarted():
                self._list_modes_next = True
                self.bar.leave()
            case ModeStateChanged() if self._announcer and (line := self._announcer.handle(event)):
                self._say(line)
            case CustomModesListed():
                self.menu.items()
        return isinstance(event, CustomModesListed | ModeStateChanged)

    def after_prompt_drawn(self) -> None:
        """List the modes once the prompt is visible: reading their files must not delay it."""
        if self._list_modes_next:
            self._list_modes_next = False
            self._send(ListCustomModes())

    def fill(self, data: Mapping[str, object]) -> bool:
        """Open the form if the command's result asks for it; returns whether it is open."""
        mode_id, values = data.get("mode_id"), data.get("values")
        if not data.get("form") or not isinstance(mode_id, str):
            return False
        given = {str(k): str(v) for k, v in values.items()} if isinstance(values, dict) else {}
        return self.bar.open_form(mode_id, given, from_line=True)
