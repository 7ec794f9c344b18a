"""Commands of the terminal alone, which the engine does not know: `/vim`, `/theme`, `/copy`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from coder.terminal.menu import Arguments, MenuItem
from coder.terminal.notify import clipboard
from coder.terminal.theme import NAMES, Theme
from coder.texts import Texts

LOCAL = {"vim": "", "theme": "[dark|light|none]", "copy": ""}


class Terminal(Protocol):
    """What the local commands act on."""

    @property
    def theme(self) -> Theme: ...

    @property
    def last_answer(self) -> str: ...

    def toggle_vim(self) -> bool: ...

    def send(self, sequence: str) -> None: ...


def run_local(text: str, terminal: Terminal, texts: Texts) -> str | None:
    """What the command says; None where the text is no command of the terminal's own."""
    name, _, argument = text.strip().removeprefix("/").partition(" ")
    run = _COMMANDS.get(name) if text.strip().startswith("/") else None
    return run(terminal, argument.strip(), texts) if run is not None else None


def _vim(terminal: Terminal, argument: str, texts: Texts) -> str:
    return texts.say("terminal.vim_on" if terminal.toggle_vim() else "terminal.vim_off")


def _theme(terminal: Terminal, argument: str, texts: Texts) -> str:
    if argument and argument not in NAMES:
        return texts.say("terminal.theme_unknown", name=argument, names=", ".join(NAMES))
    if argument:
        terminal.theme.name = argument
    return texts.say("terminal.theme", name=terminal.theme.name, names=", ".join(NAMES))


def _copy(terminal: Terminal, argument: str, texts: Texts) -> str:
    answer = terminal.last_answer
    sequence = clipboard(answer)
    if sequence is None:
        return texts.say("terminal.copy_too_long" if answer else "terminal.copy_nothing")
    terminal.send(sequence)
    return texts.say("terminal.copied", n=len(answer))


_COMMANDS: dict[str, Callable[[Terminal, str, Texts], str]] = {"vim": _vim, "theme": _theme, "copy": _copy}


class BuiltIn(msgspec.Struct, frozen=True):
    """The slash menu's own entries: the engine's commands and those of the terminal."""

    texts: Texts

    def items(self) -> Sequence[MenuItem]:
        from coder.engine.commands import COMMANDS

        rows = [(command.name, command.arguments) for command in COMMANDS.values()]
        return [
            MenuItem(label=f"/{name}", insert=name, about=self.texts.say(f"help.{name}"), hint=hint)
            for name, hint in [*rows, *LOCAL.items()]
        ]


def argument_menus(
    models: Callable[[], Sequence[str]], sessions: Callable[[], Sequence[tuple[str, str]]]
) -> dict[str, Arguments]:
    """What can be completed after `/model`, `/resume`, `/permissions`, `/mode`, `/theme`."""
    from coder.policy.decide import OPERATING_MODES, PRESETS

    def among(names: Callable[[], Sequence[str]]) -> Arguments:
        return lambda _query: [MenuItem(label=name, insert=name) for name in names()]

    return {
        "model": among(models),
        "mode": among(lambda: OPERATING_MODES),
        "permissions": among(lambda: PRESETS),
        "theme": among(lambda: NAMES),
        "diff": among(lambda: ("full",)),
        "resume": lambda _query: [MenuItem(label=i, insert=i, about=title) for i, title in sessions()],
    }
