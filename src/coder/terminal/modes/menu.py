"""Custom modes and saved prompts in the slash menu: where they come from, how they stand."""

from __future__ import annotations

from collections.abc import Sequence

from coder.protocol.modes import ModeDefinition, ModeVariable
from coder.terminal.input.menu import MenuItem
from coder.terminal.modes.known import ModeBook
from coder.terminal.render.sanitize import flat
from coder.texts import Texts

_USAGE_COLUMNS = 24  # more would push scope and description off the screen


class ModeMenu:
    """A `MenuSource`. Its entries are made anew only where something has changed."""

    def __init__(self, book: ModeBook, texts: Texts) -> None:
        self._book = book
        self._texts = texts
        self._made: list[MenuItem] = []
        self._made_of = -1

    def items(self) -> Sequence[MenuItem]:
        if self._made_of != self._book.version:
            self._made_of = self._book.version
            self._made = [item for one in self._book.definitions for item in self._items(one)]
        return self._made

    def arguments(self, _query: str) -> Sequence[MenuItem]:
        """What `/modes` takes: one that is on, to switch it off."""
        return [
            MenuItem(label=f"off {mode.mode_id[1:]}", insert=f"off {mode.mode_id[1:]}")
            for mode in self._book.enabled
        ]

    def _items(self, one: ModeDefinition) -> list[MenuItem]:
        on = bool(one.command) and self._book.is_on(one.mode_id)
        label = one.command or one.mode_id
        item = MenuItem(
            label=label,
            insert=label[1:],
            about=("● " if on else "") + self._about(one),
            scope=self._scope(one),
            hint="" if one.error else one.argument_hint or usage(one.variables),
            style="bad" if one.error else "" if one.command else "dim",
        )
        return [item, self._switch(one)] if on else [item]

    def _switch(self, one: ModeDefinition) -> MenuItem:
        """To close a mode from the menu."""
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
        return f"{shadowed} · {about}" if about else shadowed

    def _scope(self, one: ModeDefinition) -> str:
        if one.category == "prompt":
            return f"{one.scope.label} {self._texts.say('modes.kind_prompt')}"
        return one.scope.label


def usage(variables: Sequence[ModeVariable]) -> str:
    """`<role> [region] …`, where the file gives no hint of its own."""
    words = [f"<{v.name}>" if v.required else f"[{v.name}]" for v in variables]
    hint = ""
    for word in words:
        if len(hint) + len(word) > _USAGE_COLUMNS:
            return f"{hint}…"
        hint += word + " "
    return hint.rstrip()


def _fault(one: ModeDefinition, texts: Texts) -> str:
    """What is wrong with the file, its line first: the path would leave no room for the rest."""
    assert one.error is not None
    line = one.error.line
    told = one.error.message.removeprefix(f"{one.path}:{line}: ").removeprefix(f"{one.path}: ")
    return flat(texts.say("terminal.mode_line", line=line, fault=told) if line else told)
