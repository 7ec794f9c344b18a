"""Custom modes, saved prompts, and commands of MCP servers and packages in the slash menu."""

from __future__ import annotations

from collections.abc import Sequence

from coder.protocol.modes import ModeDefinition, OfferedCommand
from coder.terminal.input.menu import MenuItem
from coder.terminal.modes.known import KnownModes
from coder.terminal.render.sanitize import flat
from coder.texts import Texts

_HINT_COLUMNS = 24


class ModeMenu:
    """A `MenuSource` whose entries are cached until the modes change."""

    def __init__(self, known: KnownModes, texts: Texts) -> None:
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
    """Whole words of it, within the room that there is."""
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


def _fault(one: ModeDefinition, texts: Texts) -> str:
    """The file's error, with the line number instead of the path, for want of room."""
    assert one.error is not None
    line = one.error.line
    message = texts.of(one.error.message).removeprefix(f"{one.path}:{line}: ").removeprefix(f"{one.path}: ")
    return flat(texts.say("terminal.mode_line", line=line, fault=message) if line else message)
