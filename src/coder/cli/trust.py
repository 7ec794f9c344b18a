"""`coder trust`: trusts or revokes this directory's settings, or trusts one of its records."""

from __future__ import annotations

from coder.base.text import shown
from coder.cli.common import parser_for, session_named, settings_from
from coder.config.trust import TrustStore, whole_value
from coder.engine.custom_modes import mode_commands
from coder.engine.setup import Options, Settings
from coder.extend.modes.discover import Catalogue, places
from coder.history.signature import accept, is_trusted
from coder.history.store import SessionStore
from coder.policy.visible import visible
from coder.ui.streams import Exit, show
from coder.ui.terminal.render.escapes import flat, safe


def run(arguments: list[str]) -> int:
    parser = parser_for("trust", arguments)
    parser.options.add_argument("--revoke", action="store_true", help=parser.say("cli.help.revoke"))
    parser.options.add_argument("--session", metavar="ID", help=parser.say("cli.help.trust_session"))
    chosen = parser.parse_args(arguments)
    options, settings = settings_from(chosen)
    if chosen.session is not None:
        return _believe(options, settings, chosen.session)
    say = settings.texts.say
    store = TrustStore(settings.home)
    if chosen.revoke:
        store.revoke(options.cwd)
        show(say("trust.revoked", directory=options.cwd))
        return Exit.ANSWERED
    catalogue = Catalogue(places(options.cwd, options.environ, settings.home))
    relevant = {**settings.loaded.relevant, **mode_commands(catalogue)}
    if not relevant:
        show(say("trust.nothing"))
        return Exit.ANSWERED
    status = store.status(options.cwd, relevant)
    difference = store.difference(options.cwd, relevant, whole=True)
    store.trust(options.cwd, relevant)
    directory = safe(str(options.cwd))
    if status == "changed":
        show(say("trust.changed_question", directory=directory))
        for line in difference.lines(settings.texts):
            show(f"  {visible(line).text}")
    show(say("trust.unchanged" if status == "trusted" else "trust.done", directory=directory))
    for key, value in sorted(relevant.items()):
        show(f"  {visible(f'{shown(key)} = {whole_value(value)}').text}")
    return Exit.ANSWERED


def _believe(options: Options, settings: Settings, name: str) -> int:
    """Seal the session's record as this person's."""
    records = SessionStore(options.cwd, options.log_dir)
    session_id = session_named(records, name)
    if is_trusted(settings.home, records, session_id):
        show(settings.texts.say("record.yours_already", id=flat(session_id)))
        return Exit.ANSWERED
    accept(settings.home, records, session_id)
    title = flat(records.title(session_id)) or "-"
    show(settings.texts.say("record.accepted", id=flat(session_id), title=title))
    return Exit.ANSWERED
