"""Shared by subcommands that start no session."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from coder.cli.args import Parser, add_directory_options
from coder.cli.errors import UsageError
from coder.cli.start import texts_for, working_directory
from coder.engine.setup import Options, Settings, read_settings
from coder.record.store import SessionStore
from coder.terminal.render.sanitize import flat


def parser_for(name: str, arguments: list[str]) -> Parser:
    """A parser with texts in the language that `arguments` select."""
    say = texts_for(arguments).say
    parser = Parser(f"coder {name}", say, description=say(f"cli.about.{name}"))
    parser.options.add_argument("-h", "--help", action="help", help=say("cli.help.help"))
    add_directory_options(parser)
    return parser


def options_from(chosen: argparse.Namespace) -> Options:
    log_dir: Path | None = chosen.log_dir
    return Options(
        cwd=working_directory(chosen),
        environ=dict(os.environ),
        lang=chosen.lang,
        config_file=chosen.config,
        log_dir=log_dir.absolute() if log_dir else None,
    )


def settings_from(chosen: argparse.Namespace) -> tuple[Options, Settings]:
    options = options_from(chosen)
    return options, read_settings(options)


def session_named(store: SessionStore, name: str) -> str:
    """The session id that `name` is or abbreviates; raises `UsageError`."""
    found = store.matching(name)
    if not found:
        raise UsageError("cli.no_session", id=flat(name))
    if len(found) > 1:
        raise UsageError("session.ambiguous", id=name, n=len(found), ids=", ".join(map(flat, found[:5])))
    return found[0]
