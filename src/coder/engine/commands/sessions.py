"""`/new`, `/resume` and `/sessions`: from one session to another."""

from __future__ import annotations

from coder.config.errors import shown
from coder.engine.agent import Desk
from coder.engine.approval import ask_to_go_on
from coder.engine.commands.modes import Reply
from coder.engine.modes import begin_modes
from coder.engine.resume import resume_session
from coder.engine.session import Session
from coder.record.files import RecordError
from coder.record.log import local_time
from coder.record.seal import accept, is_believed
from coder.texts import Phrase


async def new_command(desk: Desk, args: str) -> Reply:
    old = desk.session
    desk.session = Session.new(desk)
    old.close()
    await begin_modes(desk.session)
    return Reply(desk.say("session.new", id=desk.session.id), data={"unrecorded": True})


async def resume_command(desk: Desk, args: str) -> Reply:
    if not args:
        return Reply(_session_list(desk, 10))
    found = desk.store.matching(args)
    if len(found) > 1:
        names = ", ".join(map(shown, found[:5]))
        return Reply(desk.say("session.ambiguous", id=args, n=len(found), ids=names), ok=False)
    if not found:
        return Reply(desk.say("session.missing", id=args), ok=False)
    name = found[0]
    if name == desk.session.id:
        return Reply(desk.say("session.already", id=name))
    try:
        if not await _may_believe(desk, name):
            return Reply(desk.say("record.left_alone", id=shown(name)), ok=False)
        session = resume_session(desk, name)
    except RecordError as error:
        return Reply(error.text(desk.texts), ok=False)
    old, desk.session = desk.session, session
    old.close()
    await begin_modes(session)
    turns = desk.say("status.turns", n=session.log.turn)
    text = desk.say("session.resumed", id=shown(name), title=shown(session.title) or "-", turns=turns)
    return Reply(text, data={"session_id": name})


async def _may_believe(desk: Desk, name: str) -> bool:
    """A record that this person did not make is asked about. Where nobody can answer, who named it gets the
    words in it (`resume_session`). Raises `RecordError`."""
    if is_believed(desk.home, desk.store, name) or not desk.can_ask:
        return True
    about = Phrase("record.foreign_about", id=shown(name), title=shown(desk.store.title(name)) or "-")
    question = [about, Phrase("record.foreign_ask")]
    if await ask_to_go_on(desk.session, question, can_always=False) == "no":
        return False
    accept(desk.home, desk.store, name)
    return True


async def sessions_command(desk: Desk, args: str) -> Reply:
    return Reply(_session_list(desk, 30))


def _session_list(desk: Desk, limit: int) -> str:
    infos = desk.store.infos(limit)
    if not infos:
        return desk.say("session.none")
    return "\n".join(
        f"{shown(info.session_id)}  {local_time(info.updated_at)}  {info.turns:>3}  {shown(info.title)}"
        for info in infos
    )
