"""The modes, options and commands that a session offers its client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coder.config.schema import OPERATING_MODES
from coder.protocol.modes import CustomModesListed
from coder.texts import Catalog

# The editor itself switches sessions and exits.
NOT_HERE = ("new", "resume", "exit")
_NOT_OFFERED = (*NOT_HERE, "sessions", "fork", "help")

MODE = "mode"
MODEL = "model"


def modes(current: str, texts: Catalog) -> dict[str, Any]:
    """The `modes` state, for clients without support for options."""
    available = [
        {"id": name, "name": name, "description": texts.say(f"help.{name}")} for name in OPERATING_MODES
    ]
    return {"currentModeId": current, "availableModes": available}


def options(mode: str, model: str, models: Sequence[str], texts: Catalog) -> list[dict[str, Any]]:
    """All `configOptions` with their current values."""
    names = list(dict.fromkeys([model, *models]))
    return [
        {
            "id": MODE,
            "name": texts.say("acp.option.mode"),
            "category": "mode",
            "type": "select",
            "currentValue": mode,
            "options": [
                {"value": name, "name": name, "description": texts.say(f"help.{name}")}
                for name in OPERATING_MODES
            ],
        },
        {
            "id": MODEL,
            "name": texts.say("acp.option.model"),
            "category": "model",
            "type": "select",
            "currentValue": model,
            "options": [{"value": name, "name": name} for name in names],
        },
    ]


def commands(built_in: dict[str, str], custom: CustomModesListed, texts: Catalog) -> list[dict[str, Any]]:
    """Built-in commands, then custom modes and saved prompts, then those of MCP servers and packages."""
    replaced = {mode.command.removeprefix("/") for mode in custom.modes}
    found = [
        _command(name, texts.say(f"help.{name}"), arguments)
        for name, arguments in built_in.items()
        if name not in _NOT_OFFERED and name not in replaced
    ]
    for mode in custom.modes:
        if mode.command and mode.error is None:
            about = mode.description or mode.display_name
            found.append(_command(mode.command.removeprefix("/"), about, mode.usage))
    found += [
        _command(name, one.description or one.source, one.arguments)
        for one in custom.commands
        if (name := one.command.removeprefix("/")) not in replaced
    ]
    return found


def _command(name: str, about: str, hint: str) -> dict[str, Any]:
    command: dict[str, Any] = {"name": name, "description": about}
    return {**command, "input": {"hint": hint}} if hint else command
