"""Slash commands that the terminal handles itself: `/vim`, `/theme`, `/copy`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from coder.config.schema import EFFORTS, OPERATING_MODES, PRESETS
from coder.engine.setup import built_in_commands
from coder.protocol.events import CommandDone
from coder.texts import Catalog
from coder.ui.terminal.input.menu import Arguments, MenuItem
from coder.ui.terminal.render.theme import NAMES
from coder.ui.terminal.render.width import plain, wrap
from coder.ui.terminal.statusline import clipboard

if TYPE_CHECKING:
    from coder.ui.terminal.screen import Screen

# Columns that /help needs for a description column; in a narrower terminal it is not aligned.
_ROOM_FOR_HELP = 24
_WIDEST_USAGE = 28  # columns before the description; longer usages have their own row
_BARE_WORDS = {"help": "/help", "exit": "/exit", "quit": "/quit", ":q": "/quit"}
_EVERYDAY = ("undo", "diff", "rewind", "model", "mode", "resume", "new", "exit")  # first in /help
LOCAL = {"vim": "", "theme": "[dark|light|none]", "copy": ""}


def resolve_command(text: str) -> str:
    """Add a missing slash (`exit`, as in a shell) or drop a blank after it; other text is unchanged."""
    line = text.strip()
    return f"/{line[1:].lstrip()}" if line.startswith("/ ") else _BARE_WORDS.get(line.lower(), text)


def run_local(text: str, screen: Screen, texts: Catalog) -> str | None:
    """The command's reply; None if the text is not a local command."""
    name, _, argument = text.strip().removeprefix("/").partition(" ")
    run = _COMMANDS.get(name) if text.strip().startswith("/") else None
    if run is None and text.strip().startswith("/help "):
        return _help_on(argument.strip().removeprefix("/"), texts)
    if run is not None and argument.strip() and not LOCAL[name]:
        return texts.say("command.no_arguments", name=name)
    return run(screen, argument.strip(), texts) if run is not None else None


def _help_on(name: str, texts: Catalog) -> str | None:
    """None for commands of the engine, which answers itself."""
    return f"/{name} {LOCAL[name]}".rstrip() + f"  {texts.say(f'help.{name}')}" if name in LOCAL else None


def _vim(screen: Screen, argument: str, texts: Catalog) -> str:
    return texts.say("terminal.vim_on" if screen.toggle_vim() else "terminal.vim_off")


def _theme(screen: Screen, argument: str, texts: Catalog) -> str:
    if argument and argument not in NAMES:
        return texts.say("terminal.theme_unknown", name=argument, names=", ".join(NAMES))
    if argument:
        screen.theme.name = argument
    return texts.say("terminal.theme", name=screen.theme.name, names=", ".join(NAMES))


def _copy(screen: Screen, argument: str, texts: Catalog) -> str:
    answer = screen.last_answer
    sequence = clipboard(answer)
    if sequence is None:
        return texts.say("terminal.copy_too_long" if answer else "terminal.copy_nothing")
    screen.send(sequence)
    return texts.say("terminal.copied", n=len(answer))


_COMMANDS: dict[str, Callable[[Screen, str, Catalog], str]] = {"vim": _vim, "theme": _theme, "copy": _copy}


def _every_command() -> list[tuple[str, str]]:
    """(name, arguments): the engine's commands, then the local ones."""
    return [*built_in_commands().items(), *LOCAL.items()]


def with_local_help(event: CommandDone, texts: Catalog, columns: int) -> CommandDone:
    """The engine's `/help` with local commands added, laid out for this width, then the key help."""
    usages = {name: f"/{name} {hint}".rstrip() for name, hint in _every_command()}
    width = min(max(map(len, usages.values())), _WIDEST_USAGE)
    everyday = [name for name in _EVERYDAY if name in usages]
    rest = sorted(usages.keys() - set(everyday), key=lambda name: (name == "fork", [*usages].index(name)))
    lines = [
        texts.say("help.everyday"),
        *_rows(usages, everyday, width, texts, columns),
        "",
        texts.say("help.rest"),
        *_rows(usages, rest, width, texts, columns),
    ]
    _, blank, keys = texts.of(event.text).partition("\n\n")
    return msgspec.structs.replace(event, text="\n".join(lines) + blank + keys)


def _rows(
    usages: Mapping[str, str], names: Sequence[str], width: int, texts: Catalog, columns: int
) -> list[str]:
    roomy = columns >= width + _ROOM_FOR_HELP
    lines: list[str] = []
    for name in names:
        usage, about = usages[name], texts.say(f"help.{name}")
        line = f"{usage.ljust(width) if roomy else usage}  {about}"
        margin = " " * (width + 2 if roomy else 4)
        if roomy and len(usage) > width:
            lines.append(usage)
            line = f"{margin}{about}"
        lines += [plain(row) for row in wrap([("", line)], columns, rest=[("", margin)])]
    return lines


class BuiltIn(msgspec.Struct, frozen=True):
    """A `MenuSource` of the engine's and the local commands."""

    texts: Catalog

    def items(self) -> Sequence[MenuItem]:
        fixed = {*built_in_commands(prompts=False), *LOCAL}
        return [
            MenuItem(
                label=f"/{name}",
                insert=name,
                about=self.texts.say(f"help.{name}"),
                hint=hint,
                replaceable=name not in fixed,
            )
            for name, hint in _every_command()
        ]


def argument_menus(
    models: Callable[[], Sequence[str]],
    sessions: Callable[[], Sequence[tuple[str, str]]],
    allowed: Callable[[], Sequence[str]] = tuple,
) -> dict[str, Arguments]:
    """Argument completion by command name. `allowed`: commands with a revocable `always`."""

    def among(names: Callable[[], Sequence[str]]) -> Arguments:
        return lambda _query: [MenuItem(label=name, insert=name) for name in names()]

    return {
        "model": among(models),
        "mode": among(lambda: OPERATING_MODES),
        "permissions": among(lambda: [*PRESETS, *_revocable(allowed())]),
        "theme": among(lambda: NAMES),
        "diff": among(lambda: ("full", "session", "review")),
        "effort": among(lambda: (*EFFORTS, "default")),
        "loop": among(lambda: ("on", "off")),
        "ide": among(lambda: ("on", "off")),
        "undo": among(lambda: ("show", "force")),
        "redo": among(lambda: ("force",)),
        "resume": lambda _query: [MenuItem(label=i, insert=i, about=title) for i, title in sessions()],
    }


def _revocable(names: Sequence[str]) -> list[str]:
    return [f"revoke {name}" for name in (*names, "all")] if names else []
