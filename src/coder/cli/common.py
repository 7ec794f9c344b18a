"""Shared by subcommands."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from coder.cli.arguments import Parser, add_directory_options
from coder.cli.start import texts_for, working_directory
from coder.engine.setup import Options, Settings, read_settings
from coder.history.signature import accept, is_trusted
from coder.history.store import SessionStore
from coder.ui.streams import UsageError, show
from coder.ui.terminal.ask.question import ask_at_start
from coder.ui.terminal.render.escapes import flat
from coder.ui.terminal.render.width import plain, text_width, wrap


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


def throwaway_environment(place: Path, person: Mapping[str, Any]) -> dict[str, str]:
    """The environment of a session in a throw-away directory: `$CODER_HOME` is in `place`, with the person's
    own settings but those of a model and its tools, and `python3` is this interpreter."""
    home, programs = place / "home", place / "bin"
    home.mkdir(parents=True, mode=0o700)
    programs.mkdir()
    (programs / "python3").symlink_to(sys.executable)
    kept = {name: value for name, value in person.items() if name not in _NOT_IN_THROWAWAY}
    kept["permission"] = {**kept.get("permission", {}), "preset": "balanced"}  # its files are ours
    (home / "config.json").write_bytes(msgspec.json.encode(kept))
    environ = {name: value for name, value in os.environ.items() if "API_KEY" not in name}
    environ = {name: value for name, value in environ.items() if "BASE_URL" not in name}
    path = f"{programs}:{environ.get('PATH', os.defpath)}"
    return {**environ, "PATH": path, "CODER_HOME": str(home), "CODER_MODEL": ""}


_NOT_IN_THROWAWAY = ("provider", "routing", "mcp", "skills")


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """One line per row; columns are padded to their widest cell."""
    widths = [max(text_width(cell) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(map(_padded, row, widths)).rstrip() for row in rows]


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - text_width(cell))


def ask_about_foreign(
    options: Options, settings: Settings, store: SessionStore, session_id: str, *, named: bool
) -> None:
    """Ask whether to trust the record. If nobody can answer, a `named` record is resumed untrusted
    (`resume_session`). Raises `UsageError` if it was not named, or the answer is no."""
    if is_trusted(settings.home, store, session_id):
        return
    if not options.can_ask:
        if named:
            return
        raise UsageError("record.foreign", id=flat(session_id))

    say = settings.texts.say
    about = say("record.foreign_about", id=flat(session_id), title=flat(store.title(session_id)) or "-")
    for row in wrap([("", about)], shutil.get_terminal_size().columns):
        show(plain(row))
    if not ask_at_start(say("record.foreign_prompt"), settings.texts):
        raise UsageError("record.left_alone", id=flat(session_id))
    accept(settings.home, store, session_id)
