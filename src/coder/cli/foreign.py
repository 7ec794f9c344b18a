"""A record that this person did not make is not taken up before they have said that it may be believed."""

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
    """One question, where somebody can answer it. Where nobody can, a record that was `named` goes on as
    words alone (`resume_session`). Raises `UsageError` where one was not, and where the answer is no."""
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
