"""Writes the reference pages from the code: `docs/commands.md` and `docs/settings.md`.

    python docs/reference.py

A test compares the pages with what this makes.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from coder.cli.arguments import main_parser
from coder.cli.start import subcommands
from coder.config.schema import Config
from coder.engine.commands.table import COMMANDS
from coder.texts import Catalog
from coder.ui.terminal.local_commands import LOCAL

DOCS = Path(__file__).parent
NOTE = "<!-- Made by docs/reference.py from the code; do not edit. -->\n"


def pages() -> dict[str, str]:
    """The pages by name."""
    return {"commands.md": commands(), "settings.md": settings()}


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in lines)


def commands() -> str:
    say = Catalog("en").say
    options = [row for action in main_parser(say).options._group_actions for row in option(action)]
    typed = {**{name: command.arguments for name, command in COMMANDS.items()}, **LOCAL}
    slash = [(f"`/{name} {typed[name]}".rstrip() + "`", say(f"help.{name}")) for name in sorted(typed)]
    listed = [(f"`coder {name}`", say(f"cli.about.{name}")) for name in subcommands()]
    return "\n\n".join(
        [
            "# Commands",
            NOTE.strip(),
            "## Options of `coder`",
            table(("option", "what it does"), options),
            "## Subcommands",
            "Each takes `--help`, `--cwd`, `--config`, `--log-dir` and `--lang`.",
            table(("subcommand", "what it does"), listed),
            "## In a session",
            "`/name` may also be your own [mode](modes.md) or [saved prompt](prompts.md). "
            "[A session](session.md) explains the keys.",
            table(("command", "what it does"), slash) + "\n",
        ]
    )


def option(action: argparse.Action) -> Iterator[tuple[str, str]]:
    allowed = "|".join(map(str, action.choices or ()))
    value = action.metavar or (allowed if action.nargs != 0 else "")
    about = action.help or ""
    yield " ".join(filter(None, [f"`{', '.join(action.option_strings)}`", value and f"`{value}`"])), about


def settings() -> str:
    parts = [
        "# Settings",
        NOTE.strip(),
        "JSON with comments in `~/.coder/config.json` (`$CODER_HOME/config.json` if that is set) and in the "
        "project's `.coder/config.json`, which wins. `--config FILE`, `CODER_*` variables and flags win over "
        "both, in this order. An unknown key or a wrong value is an error that names file, line and what is "
        "allowed. Some settings of a project need [trust](permissions.md#trust).",
    ]
    for field in msgspec.structs.fields(Config):
        section = type(field.default)
        parts += [f"## `{field.name}`", about(section), keys(section)]
        for name, inner in inner_sections(section):
            parts += [f"### `{field.name}.{name}.…`", about(inner), keys(inner)]
    return "\n\n".join(parts) + "\n"


def about(section: type[Any]) -> str:
    return re.sub(r"\s+", " ", section.__doc__ or "").strip()


def keys(section: type[Any]) -> str:
    rows = []
    for field in of(section).fields:
        default = field.default
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        shown = "" if default is None else f"`{msgspec.json.encode(default).decode()}`"
        rows.append((f"`{field.encode_name}`", value(field.type), shown))
    return table(("key", "value", "default"), rows)


def of(section: type[Any]) -> inspect.StructType:
    found = inspect.type_info(section)
    assert isinstance(found, inspect.StructType)
    return found


def inner_sections(section: type[Any]) -> Iterator[tuple[str, type[msgspec.Struct]]]:
    """What stands under a name, or in a list; each kind once."""
    seen: set[type[msgspec.Struct]] = set()
    for field in of(section).fields:
        if isinstance(field.type, inspect.UnionType):
            structs = [one.cls for one in field.type.types if isinstance(one, inspect.StructType)]
            yield from ((field.encode_name, inner) for inner in structs)
        elif isinstance(field.type, inspect.DictType) and isinstance(
            field.type.value_type, inspect.StructType
        ):
            yield f"{field.encode_name}.NAME", field.type.value_type.cls
        elif isinstance(field.type, inspect.ListType) and isinstance(
            field.type.item_type, inspect.StructType
        ):
            inner = field.type.item_type.cls
            if inner not in seen:
                seen.add(inner)
                name = f"{field.encode_name}[]"
                yield name, inner
                yield from ((f"{name}.{more}", found) for more, found in inner_sections(inner))


def value(kind: inspect.Type) -> str:
    """What may stand there, in words."""
    if isinstance(kind, inspect.UnionType):
        return " or ".join(value(one) for one in kind.types if not isinstance(one, inspect.NoneType))
    if isinstance(kind, inspect.LiteralType):
        return ", ".join(f'`"{one}"`' for one in kind.values)
    if isinstance(kind, inspect.ListType):
        if isinstance(kind.item_type, inspect.StructType):
            return "list of objects, see below"
        return f"list of {value(kind.item_type)}"
    if isinstance(kind, inspect.DictType):
        return f"object: name → {value(kind.value_type)}"
    if isinstance(kind, inspect.StructType):
        return "see below"
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        return number(kind)
    return {inspect.BoolType: "`true`, `false`", inspect.StrType: "text"}[type(kind)]


def number(kind: inspect.IntType | inspect.FloatType) -> str:
    word = "whole number" if isinstance(kind, inspect.IntType) else "number"
    bounds = [f"from {kind.ge:g}"] if kind.ge is not None else []
    if kind.le is not None and kind.le < 2**31 - 1:
        bounds.append(f"to {kind.le:g}")
    if kind.lt is not None:
        bounds.append(f"below {kind.lt:g}")
    return " ".join([word, *bounds])


if __name__ == "__main__":
    for name, text in pages().items():
        (DOCS / name).write_text(text, encoding="utf-8")
