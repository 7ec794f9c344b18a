"""`coder sessions`: the recorded sessions of this directory, newest first; `--search` finds words in them."""

from __future__ import annotations

import shutil
import sys

import msgspec

from coder.cli.arguments import positive
from coder.cli.common import columns, parser_for, settings_from
from coder.cli.search import search_sessions
from coder.history.log import as_time, local_time
from coder.history.store import SessionStore
from coder.ui.streams import Exit, UsageError, show, show_json
from coder.ui.terminal.render.escapes import flat
from coder.ui.terminal.render.width import clip, plain


def run(arguments: list[str]) -> int:
    parser = parser_for("sessions", arguments)
    add = parser.options.add_argument
    add("--limit", type=positive, default=50, metavar="N", help=parser.say("cli.help.limit"))
    add("--json", action="store_true", help=parser.say("cli.help.json_lines"))
    add("--search", metavar="WORDS", help=parser.say("lookback.help.search"))
    add("--all", action="store_true", help=parser.say("lookback.help.all"))
    chosen = parser.parse_args(arguments)
    options, settings = settings_from(chosen)
    if chosen.search is not None:
        return search_sessions(options, settings, chosen)
    if chosen.all:
        raise UsageError("lookback.all_alone")
    found = SessionStore(options.cwd, options.log_dir).infos(chosen.limit + 1)
    infos = found[: chosen.limit]
    if chosen.json:
        for info in infos:
            # Times in the record's format.
            row = {**msgspec.structs.asdict(info), "updated_at": as_time(info.updated_at)}
            show_json(row)
        return Exit.ANSWERED
    if not infos:
        show(settings.texts.say("session.none"))
        return Exit.ANSWERED
    say = settings.texts.say
    rows = []
    headed = sys.stdout.isatty()  # no heading for programs
    if headed:
        rows.append([say(f"cli.sessions.{name}") for name in ("id", "when", "turns", "title")])
    for info in infos:
        when = local_time(info.updated_at)
        turns = str(info.turns) if headed else say("viewer.turns", n=info.turns)
        rows.append([flat(info.session_id), when, turns, flat(info.title)])
    lines = columns(rows)
    if headed:
        width = shutil.get_terminal_size().columns
        lines = [plain(clip([("", line)], width)) for line in lines]
    show("\n".join(lines))
    if len(found) > len(infos):
        show(say("cli.sessions.more"), sys.stderr)
    return Exit.ANSWERED
