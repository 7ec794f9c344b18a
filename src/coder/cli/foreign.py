"""Asks before resuming a record without this person's seal."""

from __future__ import annotations

import shutil

from coder.cli.errors import UsageError
from coder.engine.setup import Options, Settings
from coder.record.seal import accept, is_trusted
from coder.record.store import SessionStore
from coder.terminal.render.sanitize import flat


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
    from coder.terminal.ask.question import ask_at_start
    from coder.terminal.render.width import plain, wrap

    say = settings.texts.say
    about = say("record.foreign_about", id=flat(session_id), title=flat(store.title(session_id)) or "-")
    for row in wrap([("", about)], shutil.get_terminal_size().columns):
        print(plain(row))
    if not ask_at_start(say("record.foreign_prompt"), settings.texts):
        raise UsageError("record.left_alone", id=flat(session_id))
    accept(settings.home, store, session_id)
