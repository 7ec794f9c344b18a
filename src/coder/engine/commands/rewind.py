"""`/rewind`: the conversation, and the files with it, are taken back to before an earlier message.

    /rewind                   the messages that it can be taken back to, as `/rewind conversation` and `force`
    /rewind N                 to before the message of turn N; refused if undo would refuse
    /rewind N conversation    the files stay as they are
    /rewind N force           as `/undo force`

The record keeps what was rewound. Settings (model, modes, budget) and background jobs are no part of the
conversation and stay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from coder.base.text import one_line, shown
from coder.context.action_log import ActionLog
from coder.context.conversation import count_unanswered
from coder.engine.agent import Agent
from coder.engine.commands.mode_commands import Reply
from coder.engine.commands.undo import carry_out, outcome_lines, recover_killed_commands, told
from coder.engine.compact import replace_conversation
from coder.engine.notes import look_at_git_again
from coder.engine.resume import tell_of_memory
from coder.engine.session import Session
from coder.history.replay import Replay
from coder.history.rewound import EarlierMessage, earlier_messages, marked_log
from coder.history.undo.journal import UndoOutcome
from coder.protocol import entries
from coder.protocol.events import TodosChanged
from coder.protocol.messages import head_length
from coder.texts import AnyText, JoinedText, Text
from coder.tools.seen import FileStamps
from coder.tools.todo import restore
from coder.tools.tool import Todo

_LISTED = 30
_CHARS = 100  # of a message in the list
_NAMED = 50  # files in a note to the model
_KEEPING_FILES = ("conversation", "talk")
_FORCING = ("force", "--force")


async def rewind_command(agent: Agent, args: str) -> Reply:
    path = _log(agent)
    messages = await asyncio.to_thread(earlier_messages, path) if path.exists() else []
    number, *words = args.split() or [""]
    if not words and number in ("", *_KEEPING_FILES, *_FORCING):
        return _list(
            messages, Text("rewind.list_conversation" if number in _KEEPING_FILES else "rewind.list")
        )
    keeping, force = (len(words) == 1 and words[0] in known for known in (_KEEPING_FILES, _FORCING))
    if not number.isdecimal() or (words and not keeping and not force):
        return Reply(Text("rewind.usage"), ok=False, data={"usage": True})
    to = next((message for message in messages if str(message.turn) == number), None)
    if to is None:
        known = ", ".join(str(message.turn) for message in messages[-_LISTED:]) or "–"
        return Reply(Text("rewind.no_turn", turn=number, turns=known), ok=False)
    after = [message for message in messages if message.turn >= to.turn]
    if keeping:
        return await _rewind(agent, to, [], [Text("rewind.files_stay")], _changed(after))
    undone = await _undo(agent, to.turn, force=force)
    if isinstance(undone, Reply):
        return undone
    lines: list[AnyText] = [line for one in undone for line in outcome_lines(agent, one, "undo")]
    lost = _not_covered(after, {one.turn for one in undone})
    if lost:
        turns = ", ".join(str(message.turn) for message in lost)
        lines.append(Text("rewind.not_covered", turns=turns, files=", ".join(_changed(lost))))
    if undone or lost:
        lines = [told(agent, undone, lines)]
    return await _rewind(agent, to, undone, lines, _changed(lost))


def _log(agent: Agent) -> Path:
    return agent.place.store.log_path(agent.session.id)


def _list(messages: Sequence[EarlierMessage], head: Text) -> Reply:
    if not messages:
        return Reply(Text("rewind.nothing"), data={"messages": []})
    lines: list[AnyText] = [head]
    for message in reversed(messages[-_LISTED:]):
        line: AnyText = f"{message.turn:>4}  {shown(one_line(message.text, _CHARS))}"
        if message.changed and not message.undone:
            line = line + Text("rewind.changed", n=len(message.changed))
        lines.append(line)
    return Reply(JoinedText(lines), data={"messages": msgspec.to_builtins(list(messages))})


def _changed(messages: Sequence[EarlierMessage]) -> list[str]:
    return sorted({path for message in messages if not message.undone for path in message.changed})


def _not_covered(messages: Sequence[EarlierMessage], undone: set[int]) -> list[EarlierMessage]:
    """Turns whose changes the undo journal does not have any more."""
    return [m for m in messages if m.changed and not m.undone and m.turn not in undone]


async def _undo(agent: Agent, turn: int, *, force: bool) -> list[UndoOutcome] | Reply:
    """All changes since, or none: tried first, so that a refusal leaves everything as it is."""
    journal = agent.session.undo.journal
    await recover_killed_commands(agent)
    if not force:
        would = await asyncio.to_thread(journal.preview_since, turn)
        if any(one.refused for one in would):
            return _refusal(agent, turn, would)
    outcomes = await carry_out(agent, "undo", journal.undo_since, turn, force=force)
    if isinstance(outcomes, Text):
        return Reply(outcomes, ok=False)
    if not force and any(one.refused for one in outcomes):  # changed by somebody in between
        return _refusal(agent, turn, outcomes)
    return outcomes


def _refusal(agent: Agent, turn: int, outcomes: Sequence[UndoOutcome]) -> Reply:
    show = agent.place.workspace.show
    paths = {p: None for one in outcomes for p in (*one.conflicts, *one.shared)}
    files = [show(Path(path)) for path in paths]
    text = Text("rewind.refused", turn=turn, files="\n".join(f"  {shown(file)}" for file in files))
    return Reply(text, ok=False, data={"refused": files, "turn": turn})


async def _rewind(
    agent: Agent,
    to: EarlierMessage,
    undone: Sequence[UndoOutcome],
    lines: Sequence[AnyText],
    files_as_now: Sequence[str],
) -> Reply:
    """`files_as_now`: files whose current content the conversation has not seen."""
    session = agent.session
    note = ""
    if files_as_now:
        named = ", ".join(files_as_now[:_NAMED]) + (" …" if len(files_as_now) > _NAMED else "")
        note = f"The person took the conversation back to this point. Changed meanwhile, and kept: {named}."
    # Without an earlier turn whose interrupted undo was finished first: `/redo` of the rewind leaves it.
    turns = [one.turn for one in undone if not one.refused and one.turn >= to.turn]
    entry = entries.Rewind(before=to.turn, undone=turns)
    session.log.append(entry, session.redactor.redact(note))
    await _take_over(session)
    data: dict[str, object] = {"rewound_to": to.turn, "draft": to.text}
    text = one_line(to.text, _CHARS)
    said = [Text("rewind.done", text=shown(text)), *lines, Text("rewind.redo"), *_jobs(session)]
    return Reply(JoinedText(said), data=data)


async def take_back_rewind(agent: Agent, *, force: bool) -> Reply:
    """`/redo` after a rewind: its files first, then the conversation."""
    session = agent.session
    last, journal = session.rewinds[-1], session.undo.journal
    again = sum(turn in last.undone for turn in journal.files.redos())
    outcomes: list[UndoOutcome] | Text = []
    if again:
        outcomes = await carry_out(agent, "redo", journal.redo_turns, again, force=force)
    if isinstance(outcomes, Text):
        return Reply(outcomes, ok=False)
    lines = [line for one in outcomes for line in outcome_lines(agent, one, "redo")]
    if outcomes and outcomes[-1].refused and not force:
        return Reply(JoinedText(lines), ok=False)
    session.log.append(entries.Rewind(before=last.before, back=True))
    await _take_over(session)
    return Reply(JoinedText([Text("rewind.back"), *lines]), data={"rewound_to": 0})


async def _take_over(session: Session) -> None:
    """Make the session what the record now says, as a resume would."""
    state, action_log = await asyncio.to_thread(_replayed, _log(session.agent))
    before = _shown_todos(session)
    session.action_log, session.rewinds = action_log, state.rewinds
    replace_conversation(session, state.messages)
    session.conversation.unanswered = count_unanswered(state.messages)
    session.context.todos, session.engine_todos = restore(state.todos), restore(state.engine_todos)
    session.context.files = FileStamps()  # what was read since is no longer in the conversation
    session.checks.known_failures = {}
    session.reminders.servers.clear()
    session.reminders.git = session.reminders.git and len(state.messages) > head_length(state.messages)
    look_at_git_again(session)
    session.reminders.next_notes = list(state.notes)
    if running := [job for job in session.jobs if job.running]:
        names = ", ".join(f"{job.id} ({job.command})" for job in running)
        session.reminders.add(session.redactor.redact(f"Background jobs that run: {names}."))
    tell_of_memory(session)
    if (todos := _shown_todos(session)) != before:
        session.agent.emit(TodosChanged([msgspec.structs.asdict(todo) for todo in todos]))


def _shown_todos(session: Session) -> list[Todo]:
    """Without a list of one that the engine made: the person was not shown it."""
    todos = session.context.todos
    return [] if len(todos) == 1 and todos == session.engine_todos else todos


def _replayed(path: Path) -> tuple[Replay, ActionLog]:
    state, action_log = Replay(), ActionLog()
    for event, current in marked_log(path):
        state.take(event)
        if current:
            action_log.take(event)
    return state, action_log


def _jobs(session: Session) -> list[AnyText]:
    names = [f"{job.id} ({session.redactor.redact(job.command)})" for job in session.jobs if job.running]
    return [Text("rewind.jobs", jobs=", ".join(names))] if names else []
