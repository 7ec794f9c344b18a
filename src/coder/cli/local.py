"""`coder local`: fetch a small model once, so that `--model local` answers with no key and no server."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from coder.cli.common import parser_for, settings_from
from coder.cli.errors import Exit
from coder.cli.streams import show
from coder.config.installed import install_line
from coder.config.models import gguf_of, is_fetched
from coder.model.local.fetch import QWEN
from coder.terminal.ask.question import ask_at_start
from coder.terminal.fetch_model import about, fetch_shown


def run(arguments: list[str]) -> int:
    parser = parser_for("local", arguments)
    parser.options.add_argument("--yes", action="store_true", help=parser.say("cli.help.local_yes"))
    chosen = parser.parse_args(arguments)
    _, settings = settings_from(chosen)
    say, home = settings.texts.say, settings.home
    fetched, served = is_fetched(home), find_spec("xllamacpp") is not None
    if not fetched:
        show(about(QWEN, settings.texts), fit=True)
    if not served:  # said before the download, not after it
        show(say("local.no_server", line=install_line("local")), sys.stderr, fit=True)
    if not fetched:
        if not chosen.yes and not (sys.stdin.isatty() and ask_at_start(say("local.ask"), settings.texts)):
            if not sys.stdin.isatty():
                show(say("local.say_yes"), sys.stderr)
            return Exit.USAGE
        if not fetch_shown(QWEN, home, settings.texts):
            return Exit.FAILED
    show(say("local.there", file=gguf_of("local", home)))
    return Exit.ANSWERED if served else Exit.FAILED
