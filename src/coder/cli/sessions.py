"""`coder sessions`: what was recorded in this folder, newest first."""

from __future__ import annotations

import sys
import time

import msgspec

from coder.cli.common import parser_for, settings_from
from coder.cli.errors import Exit
from coder.record.store import SessionStore
from coder.terminal.safe import safe


def run(arguments: list[str]) -> int:
    parser = parser_for("sessions", "List the sessions of this folder, newest first.")
    parser.add_argument("--limit", type=int, default=50, metavar="N")
    parser.add_argument("--json", action="store_true", help="one object a line")
    chosen = parser.parse_args(arguments)
    options, settings = settings_from(chosen)
    infos = SessionStore(options.cwd, options.log_dir).infos(max(1, chosen.limit))
    if chosen.json:
        for info in infos:
            sys.stdout.write(msgspec.json.encode(info).decode("utf-8") + "\n")
        return Exit.ANSWERED
    if not infos:
        print(settings.texts.say("session.none"))
    for info in infos:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.updated_at))
        print(f"{info.session_id}  {when}  {info.turns:>4}  {safe(info.title)}")
    return Exit.ANSWERED
