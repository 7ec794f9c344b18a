"""`coder modes`: lists custom modes and saved prompts; `new NAME` makes a file, `import` converts another
tool's commands."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import msgspec

from coder.cli.common import columns, parser_for, settings_from
from coder.engine.setup import Settings, built_in_commands
from coder.extend.modes.discover import BUILT_IN, Catalogue, places
from coder.extend.modes.importing import DEFAULT_SOURCE, create_mode, import_commands
from coder.protocol.modes import ModeDefinition
from coder.texts import Catalog, CoderError
from coder.ui.streams import Exit, UsageError, show, show_json
from coder.ui.terminal.render.escapes import safe


def run(arguments: list[str]) -> int:
    parser = parser_for("modes", arguments)
    add, say = parser.options.add_argument, parser.say
    what = say("cli.help.modes_action")
    actions = ("list", "new", "import")
    parser.arguments.add_argument(
        "action", nargs="?", choices=actions, default="list", metavar="ACTION", help=what
    )
    parser.arguments.add_argument("name", nargs="?", metavar="NAME", help=say("cli.help.modes_name"))
    add("--kind", choices=("persistent", "instant"), help=say("cli.help.modes_kind"))
    add("--global", dest="for_all", action="store_true", help=say("cli.help.modes_global"))
    add("--json", action="store_true", help=say("cli.help.json_lines"))
    add("--from", dest="source", type=Path, metavar="DIR", help=say("cli.help.from"))
    chosen = parser.parse_intermixed_args(arguments)  # `new --kind persistent NAME`: argparse splits those
    options, settings = settings_from(chosen)
    if chosen.action == "new":
        return _new(chosen, options.cwd, settings)
    if chosen.name is not None or chosen.kind is not None or chosen.for_all:
        raise UsageError("cli.modes_new_alone")
    if chosen.action == "import":
        return _import(chosen, options.cwd, settings.texts)
    if chosen.source is not None:
        raise UsageError("cli.from_alone")
    where = places(options.cwd, os.environ, settings.home)
    definitions = Catalogue(where, built_in_commands(prompts=False)).definitions
    if chosen.json:
        for definition in definitions:
            show_json(msgspec.json.encode(definition, enc_hook=settings.texts.of))
        return Exit.ANSWERED
    _print(definitions, settings)
    return Exit.ANSWERED


def _print(definitions: list[ModeDefinition], settings: Settings) -> None:
    texts = settings.texts
    if not definitions:
        show(texts.say("modes.list_none", home=settings.home))
        return
    rows = [
        [
            safe(cell)
            for cell in (one.mode_id, one.scope.label, _kind(one, texts), _state(one, texts), one.description)
        ]
        for one in definitions
    ]
    for line, definition in zip(columns(rows), definitions, strict=True):
        show(line)
        if definition.error is not None:
            show(f"    ✗ {texts.of(definition.error.message)}")
        for warning in definition.warnings:
            show(f"    ! {texts.of(warning)}")


def _kind(definition: ModeDefinition, texts: Catalog) -> str:
    return texts.say(
        "modes.kind_prompt" if definition.category == "prompt" else f"modes.kind_{definition.kind}"
    )


def _state(definition: ModeDefinition, texts: Catalog) -> str:
    """Its state before any session."""
    if definition.error is not None:
        return texts.say("modes.state_broken")
    if definition.shadowed_by == BUILT_IN:
        return texts.say("modes.state_typed", command=definition.command)
    if definition.shadowed_by is not None:
        return texts.say("modes.state_shadowed", scope=definition.shadowed_by)
    if definition.kind == "instant":  # never on
        return ""
    return texts.say("modes.state_default" if definition.default_enabled else "modes.state_off")


def _new(chosen: argparse.Namespace, cwd: Path, settings: Settings) -> int:
    """Make a mode file to be filled in."""
    if chosen.name is None:
        raise UsageError("cli.modes_no_name")
    directory = (settings.home if chosen.for_all else cwd / ".coder") / "modes"
    try:
        bound = None if chosen.for_all else cwd
        path = create_mode(directory, chosen.name, chosen.kind or "instant", bound)
    except CoderError as fault:
        raise UsageError(fault.phrase.key, **fault.phrase.values) from None
    where = places(cwd, os.environ, settings.home)
    made = Catalogue(where, built_in_commands(prompts=False)).find(chosen.name.replace("/", ":"))
    command = made.definition.command if made else ""
    show(settings.texts.say("modes.created", path=path, command=command))
    return Exit.ANSWERED


def _import(chosen: argparse.Namespace, cwd: Path, texts: Catalog) -> int:
    source: Path = chosen.source.absolute() if chosen.source else cwd / DEFAULT_SOURCE
    if not source.is_dir():
        raise UsageError("cli.no_source", directory=source)
    outcomes = import_commands(source, cwd / ".coder" / "modes", texts)
    if chosen.json:
        for outcome in outcomes:
            show_json(outcome)
    elif not outcomes:
        show(texts.say("modes.import_none", directory=source))
    else:
        for outcome in outcomes:
            show(outcome.text)
        counts = {state: sum(one.state == state for one in outcomes) for state in ("done", "kept", "failed")}
        show(texts.say("modes.import_summary", **counts))
    return Exit.FAILED if any(one.state == "failed" for one in outcomes) else Exit.ANSWERED
