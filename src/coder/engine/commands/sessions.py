"""`/new`, `/resume` and `/sessions`: from one session to another."""

from __future__ import annotations

import asyncio

from coder.base.text import shown
from coder.engine.agent import Agent
from coder.engine.approval import ask_to_go_on
from coder.engine.commands.mode_commands import Reply
from coder.engine.custom_modes import begin_modes
from coder.engine.notes import look_at_git_again
from coder.engine.resume import resume_session
from coder.engine.session import Session
from coder.history.log import local_time
from coder.history.signature import accept, is_trusted
from coder.history.sinks import HistoryError
from coder.protocol import entries
from coder.protocol.history import title_of
from coder.texts import AnyText, JoinedText, Text


async def new_command(agent: Agent, args: str) -> Reply:
    old = agent.session
    agent.session = Session.new(agent)
    old.close()
    look_at_git_again(agent.session)
    await begin_modes(agent.session)
    return Reply(Text("session.new", id=agent.session.id), data={"unrecorded": True})


async def resume_command(agent: Agent, args: str) -> Reply:
    if not args:
        return Reply(_session_list(agent, 10, without=agent.session.id))
    found = agent.place.store.matching(args)
    if len(found) > 1:
        names = ", ".join(map(shown, found[:5]))
        return Reply(Text("session.ambiguous", id=args, n=len(found), ids=names), ok=False)
    if not found:
        return await _sessions_about(agent, args)
    name = found[0]
    if name == agent.session.id:
        return Reply(Text("session.already", id=name))
    try:
        if not await _may_trust(agent, name):
            return Reply(Text("record.left_alone", id=shown(name)), ok=False)
        session = resume_session(agent, name)
    except HistoryError as error:
        return Reply(error.phrase, ok=False)
    old, agent.session = agent.session, session
    old.close()
    look_at_git_again(session)
    await begin_modes(session)
    turns = Text("status.turns", n=session.log.turn)
    text = Text("session.resumed", id=shown(name), title=shown(session.title) or "-", turns=turns)
    return Reply(text, data={"session_id": name})


async def rename_command(agent: Agent, args: str) -> Reply:
    name = " ".join(args.split())
    if not name:
        return Reply(Text("rename.usage"), ok=False, data={"usage": True})
    session = agent.session
    name = title_of(session.redactor.redact(name))
    session.log.append(entries.State(title=name))
    session.title = session.renamed = name
    return Reply(Text("rename.done", title=shown(name)), data={"title": name})


async def _sessions_about(agent: Agent, words: str) -> Reply:
    """No session has this id: list those in which the words occur."""
    from coder.history.search.database import SearchIndexError
    from coder.history.search.query import search

    place = agent.place
    try:
        found = await asyncio.to_thread(search, place.home, [place.project.history], words, 10)
    except SearchIndexError:
        found = []
    found = [one for one in found if one.session_id != agent.session.id]
    if not found:
        return Reply(Text("session.missing", id=shown(words)), ok=False)
    lines: list[AnyText] = [Text("session.about", words=shown(words))]
    for one in found:
        when = local_time(one.updated_at)
        lines.append(f"{shown(one.session_id)}  {when}  {one.turns:>3}  {shown(one.title)}")
        lines += [f"    {shown(hit.line)}" for hit in one.hits[:1]]
    return Reply(JoinedText(lines), ok=False, data={"found": [one.session_id for one in found]})


async def _may_trust(agent: Agent, name: str) -> bool:
    """Ask about an untrusted record. Where nobody can answer, only its conversation is used
    (`resume_session`). Raises `HistoryError`."""
    if is_trusted(agent.place.home, agent.place.store, name) or not agent.front.can_ask:
        return True
    about = Text("record.foreign_about", id=shown(name), title=shown(agent.place.store.title(name)) or "-")
    question = [about, Text("record.foreign_ask")]
    if await ask_to_go_on(agent.session, question, can_always=False) == "no":
        return False
    accept(agent.place.home, agent.place.store, name)
    return True


async def sessions_command(agent: Agent, args: str) -> Reply:
    return Reply(_session_list(agent, 30))


def _session_list(agent: Agent, limit: int, without: str = "") -> AnyText:
    known = agent.place.store.infos(limit + 1)
    infos = [info for info in known if info.session_id != without][:limit]
    if not infos:
        return Text("session.no_other" if known else "session.none")
    return "\n".join(
        f"{shown(info.session_id)}  {local_time(info.updated_at)}  {info.turns:>3}  {shown(info.title)}"
        for info in infos
    )
