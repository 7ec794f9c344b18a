"""`coder export ID --html FILE | --md FILE`: a session as one self-contained file."""

from __future__ import annotations

import sys
from pathlib import Path

from coder.base.files import write_atomically
from coder.cli.common import parser_for, session_named, settings_from
from coder.history.store import SessionStore
from coder.ui.browser.export_file import html_file, markdown_file
from coder.ui.streams import Exit, UsageError, show
from coder.ui.terminal.render.escapes import flat


def run(arguments: list[str]) -> int:
    parser = parser_for("export", arguments)
    parser.arguments.add_argument("id", metavar="ID", help=parser.say("cli.help.id"))
    add = parser.options.add_argument
    add("--html", type=Path, metavar="FILE", help=parser.say("cli.help.html"))
    add("--md", type=Path, metavar="FILE", help=parser.say("cli.help.md"))
    chosen = parser.parse_args(arguments)
    if not (chosen.html or chosen.md):
        raise UsageError("cli.export_one")
    options, settings = settings_from(chosen)
    store = SessionStore(options.cwd, options.log_dir)
    session_id = session_named(store, chosen.id)

    for file, write in ((chosen.html, html_file), (chosen.md, markdown_file)):
        if file is None:
            continue
        pieces = write(store.log_path(session_id), session_id, store.title(session_id), settings.texts)
        page = "".join(pieces).encode("utf-8", errors="replace")
        key = "cli.exported_over" if file.exists() else "cli.exported"
        try:
            write_atomically(file, page, 0o644)
        except OSError as error:
            raise UsageError("cli.not_written", file=file, why=error.strerror) from error
        show(settings.texts.say(key, file=flat(str(file))), sys.stderr)
    return Exit.ANSWERED
