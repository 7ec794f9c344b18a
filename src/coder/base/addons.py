"""Add-ons: a directory of `coder/addons` says in `addon.json` what it adds. Deleting it removes just that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import msgspec

from coder.texts import ADDED

_DIRECTORY: Final = Path(__file__).parents[1] / "addons"


class SlashCommand(msgspec.Struct, frozen=True):
    """A built-in command: the function that is called with the agent and the typed arguments."""

    run: str
    arguments: str = ""


class Addon(msgspec.Struct, frozen=True):
    """A manifest. Functions are named `module:function` and imported when they are called."""

    commands: dict[str, str] = {}  # subcommands of `coder`, and the module of each
    own_options: list[str] = []  # subcommands whose options are not a session's
    slash_commands: dict[str, SlashCommand] = {}
    wires: dict[str, str] = {}  # makes the wire of a kind of models
    attach: str = ""  # called with the engine when a session starts
    if_environ: list[str] = []  # attach only if one of these variables is set
    companion: str = ""  # makes the connection to the person's editor
    first_run: str = ""  # offers a model to a person who has none
    usage: str = ""  # the key of its lines in `coder --help`
    texts: str = ""  # a package with a module of texts for each language


@cache
def addons() -> tuple[Addon, ...]:
    """What is installed, by name."""
    files = sorted(_DIRECTORY.glob("*/addon.json"))
    found = tuple(msgspec.json.decode(file.read_bytes(), type=Addon) for file in files)
    ADDED.extend(addon.texts for addon in found if addon.texts)
    return found


def function(path: str) -> Callable[..., Any]:
    """Import a function that a manifest names."""
    module, _, name = path.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found


def commands() -> dict[str, str]:
    """The subcommands of all add-ons, and the module of each."""
    return {name: module for addon in addons() for name, module in addon.commands.items()}


def wanted(addon: Addon, environ: Mapping[str, str]) -> bool:
    """Whether an add-on is attached to sessions in this environment."""
    return bool(addon.attach) and (
        not addon.if_environ or any(environ.get(name) for name in addon.if_environ)
    )
