"""`coder view [ID]`: the sessions in a browser, served to this machine alone."""

from __future__ import annotations

import contextlib
import signal
import sys

from coder.base.process.own_process import heard
from coder.base.process.programs import open_browser
from coder.cli.arguments import positive
from coder.cli.common import parser_for, session_named, settings_from
from coder.cli.search import projects_of
from coder.history.store import SessionStore
from coder.ui.browser.pages import PageApi
from coder.ui.browser.web_server import ViewServer
from coder.ui.streams import Exit, UsageError, show


def run(arguments: list[str]) -> int:
    parser = parser_for("view", arguments)
    parser.arguments.add_argument("id", metavar="ID", nargs="?", default="", help=parser.say("cli.help.id"))
    add = parser.options.add_argument
    add("--port", type=positive, default=0, metavar="N", help=parser.say("cli.help.port"))
    add("--no-browser", action="store_true", help=parser.say("cli.help.no_browser"))
    chosen = parser.parse_args(arguments)
    options, settings = settings_from(chosen)
    answers = PageApi(settings.home, projects_of(options, settings, everywhere=True), settings.texts)
    session = ""
    if chosen.id:
        store = SessionStore(options.cwd, options.log_dir)
        session = answers.key_of(session_named(store, chosen.id))
    try:
        server = ViewServer(answers, settings.texts, chosen.port)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError("viewer.port_taken", port=chosen.port, why=why) from error
    for number in heard():
        signal.signal(number, signal.default_int_handler)
    with server, contextlib.suppress(KeyboardInterrupt):  # Ctrl+C is how it ends
        show(settings.texts.say("viewer.serving", url=server.url(session)))
        if not chosen.no_browser and sys.stdout.isatty():
            open_browser(server.one_time_url(session), options.environ, options.cwd)
        server.serve_forever(poll_interval=0.2)
    return Exit.ANSWERED
