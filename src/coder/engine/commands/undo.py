"""`/undo` and `/redo`: turns are taken back and done again, what happens to each file is said, the record and
the model are told.

    /undo [N] [force]      the last turn that changed files, or the last N of them
    /undo 3.. [force]      turn 3 and all after it
    /undo turn 3 [force]   turn 3 alone, merged with what changed after it
    /undo show …           what that would do, and nothing else
    /redo [N] [force]      the turns that were undone last, or the conversation as before a `/rewind`
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from coder import engine
from coder.engine.agent import Agent
from coder.engine.commands.mode_commands import Reply
from coder.history.log import read_log
from coder.history.undo.journal import REVIEWS, UndoOutcome
from coder.policy import shell
from coder.policy.verification import is_cache
from coder.protocol import entries
from coder.texts import AnyText, JoinedText, Text

_SHOWN = 200  # lines about one turn: a command may have changed thousands of files
_COMMANDS_NAMED = 5
_SHOWING = ("show", "?")
_FORCING = ("force", "--force")

_Turns = Callable[..., list[UndoOutcome]]  # which turns, and `force`


class _Asked(msgspec.Struct, frozen=True):
    """The words after the command. `since`: from this turn on; `alone`: this turn and no other."""

    count: int = 1
    since: int = 0
    alone: int = 0
    force: bool = False
    show: bool = False

    @property
    def which(self) -> int:
        return self.alone or self.since or self.count


def _asked(args: str) -> _Asked | None:
    """None if a word is none that is known."""
    which = ""
    given: dict[str, int] = {}
    force, show = False, False
    for word in args.split():
        if word in _FORCING:
            force = True
        elif word in _SHOWING:
            show = True
        elif word == "turn" and not which and not given:
            which = "alone"
        elif number := _number(word.removesuffix("..")):
            kind = "since" if word.endswith("..") else which or "count"
            if given or (which and kind != which):
                return None
            given[kind] = number
        else:
            return None
    return None if which and not given else _Asked(**given, force=force, show=show)


def _number(word: str) -> int:
    return int(word[:9]) if word.isascii() and word.isdigit() else 0


async def undo_command(agent: Agent, args: str) -> Reply:
    asked = _asked(args)
    if asked is None:
        return Reply(Text("undo.usage"), ok=False, data={"usage": True})
    journal = agent.session.undo.journal
    await recover_killed_commands(agent)
    turns = journal.turns()
    if (one := asked.alone) and one not in turns:
        known = ", ".join(map(str, turns)) or "–"
        return Reply(Text("undo.no_turn", turn=one, turns=known), ok=False)
    undo: _Turns = journal.undo_turns
    preview: _Turns = journal.preview
    if asked.alone:
        undo, preview = journal.undo_turn, journal.preview_turn
    elif asked.since:
        undo, preview = journal.undo_since, journal.preview_since
    if asked.show:
        outcomes = await asyncio.to_thread(preview, asked.which, force=asked.force)
        lines = [
            line for one in outcomes for line in outcome_lines(agent, one, "would", alone=bool(asked.alone))
        ]
        return Reply(told(agent, outcomes, lines), data=_data(outcomes))
    return await _do(agent, "undo", undo, asked)


async def redo_command(agent: Agent, args: str) -> Reply:
    asked = _asked(args)
    if asked is None or asked.show or asked.since or asked.alone:
        return Reply(Text("redo.usage"), ok=False, data={"usage": True})
    await recover_killed_commands(agent)
    newest = next(iter(agent.session.undo.journal.files.redos()), 0)
    if agent.session.rewinds and asked.count == 1 and newest < REVIEWS:
        from coder.engine.commands.rewind import take_back_rewind

        return await take_back_rewind(agent, force=asked.force)
    return await _do(agent, "redo", agent.session.undo.journal.redo_turns, asked)


async def recover_killed_commands(agent: Agent) -> None:
    """Recover changes of commands that were killed with the session, for their turn."""
    if agent.session.undo.journal.cut_off():
        await asyncio.to_thread(engine.isolation.undo_of(agent.session).recover)


async def carry_out(
    agent: Agent, action: str, turns: _Turns, which: int, *, force: bool
) -> list[UndoOutcome] | Text:
    """Undo or redo, and record it. Returns the error message if it failed."""
    # Shielded from cancellation: an interrupted undo is completed only by the next one.
    work = asyncio.ensure_future(asyncio.to_thread(turns, which, force=force))
    try:
        outcomes = await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        if work.exception() is None:
            _keep(agent, action, work.result(), force)
        raise
    except OSError as error:
        return Text(f"{action}.failed", reason=f"{error.strerror}: {error.filename}")
    _keep(agent, action, outcomes, force)
    return outcomes


async def _do(agent: Agent, action: str, turns: _Turns, asked: _Asked) -> Reply:
    outcomes = await carry_out(agent, action, turns, asked.which, force=asked.force)
    if isinstance(outcomes, Text):
        return Reply(outcomes, ok=False)
    lines = [line for one in outcomes for line in outcome_lines(agent, one, action, alone=bool(asked.alone))]
    refused = bool(outcomes and outcomes[-1].refused)
    if action == "redo":
        return Reply(JoinedText(lines or [Text("redo.nothing")]), ok=not refused, data=_data(outcomes))
    if any(one.restored or one.removed or one.merged for one in outcomes):
        lines.append(Text("undo.redo"))
    return Reply(told(agent, outcomes, lines), ok=not refused, data=_data(outcomes))


def _data(outcomes: Sequence[UndoOutcome]) -> dict[str, object]:
    return {"turns": msgspec.to_builtins(list(outcomes))}


def told(agent: Agent, outcomes: Sequence[UndoOutcome], lines: list[AnyText]) -> AnyText:
    lines = lines or [Text("undo.nothing")]
    oldest = min((one.turn for one in outcomes), default=0)
    for key, commands in (
        (
            "undo.cut_off",
            [command for turn, command in agent.session.undo.journal.cut_off() if turn >= oldest],
        ),
        ("undo.own_commands", _commands_since(agent, oldest)),
    ):
        if commands:
            named = ", ".join(commands[:_COMMANDS_NAMED]) + (", …" if len(commands) > _COMMANDS_NAMED else "")
            lines.append(Text(key, commands=named))
    return JoinedText(lines)


def _commands_since(agent: Agent, turn: int) -> list[str]:
    """The person's own `!` commands since that turn that may have changed something: undo does not cover
    them."""
    path = agent.place.store.log_path(agent.session.id)
    events = read_log(path) if path.exists() else ()  # a session that nothing happened in has no file yet
    return [
        f"!{event.entry.command}"
        for event in events
        if isinstance(event.entry, entries.Command) and event.entry.kind == "bang" and event.turn >= turn
        if not shell.judge.judge(event.entry.command, agent.root).read_only
    ]


# what is said


def outcome_lines(agent: Agent, outcome: UndoOutcome, manner: str, *, alone: bool = False) -> list[AnyText]:
    """`manner`: undo, redo, or would. `alone`: the turn was named, so that the command must name it again."""
    shown = _shown_paths(agent)
    again = f"/undo turn {outcome.turn}" if alone else "/redo" if manner == "redo" else "/undo"
    if outcome.refused:
        names: list[AnyText] = [f"  {shown(path)}" for path in outcome.conflicts]
        names += ["  " + Text("undo.shared", path=shown(path)) for path in outcome.shared]
        key = "undo.would_not" if manner == "would" else f"{manner}.conflict"
        if outcome.turn >= REVIEWS:
            key = "record.review_conflict"
        return [Text(key, turn=outcome.turn, files=JoinedText(_lines(names)), again=again)]
    each = {
        "restored": (outcome.restored, "undo.would_restore" if manner == "would" else f"{manner}.restored"),
        "removed": (outcome.removed, "undo.would_remove" if manner == "would" else f"{manner}.removed"),
        "merged": (outcome.merged, "undo.would_merge" if manner == "would" else f"{manner}.merged"),
        "kept": (outcome.kept, "undo.kept"),
        "uncovered": (outcome.uncovered, "undo.uncovered"),
    }
    named = [(key, shown(path)) for paths, key in each.values() for path in paths]
    # Caches are restored with the rest, and counted, not named.
    lines: list[AnyText] = ["  " + Text(key, path=path) for key, path in named if not is_cache(path)]
    if caches := len(named) - len(lines):
        lines.append("  " + Text("undo.caches", n=caches))
    lines += ["  " + Text("undo.copy", path=path) for path in outcome.kept_copies]
    if not lines and manner != "redo" and outcome.turn < REVIEWS:
        return [Text("undo.nothing_left", turn=outcome.turn)]
    head = "undo.preview" if manner == "would" else f"{manner}.done"
    if outcome.turn >= REVIEWS:
        head = f"record.review_{manner}"
    return [Text(head, turn=outcome.turn), *_lines(lines or ["  " + Text("undo.no_change")])]


def _lines(lines: Sequence[AnyText]) -> Sequence[AnyText]:
    if len(lines) <= _SHOWN:
        return lines
    return [*lines[:_SHOWN], "  " + Text("undo.more", n=len(lines) - _SHOWN)]


def _shown_paths(agent: Agent) -> Callable[[str], str]:
    return lambda path: agent.place.workspace.show(Path(path))


# who else is told


def _keep(agent: Agent, action: str, outcomes: Iterable[UndoOutcome], force: bool) -> None:
    """The record first: a resumed session takes the note from there."""
    for outcome in outcomes:
        keep_outcome(agent, action, outcome, force=force)


def keep_outcome(
    agent: Agent,
    action: str,
    outcome: UndoOutcome,
    *,
    force: bool,
    hunks: Sequence[str] = (),
    reason: str = "",
) -> None:
    """`hunks`: those that were taken back in a review, with the person's `reason`."""
    if outcome.refused:
        return
    agent.session.checks.last_evidence = None
    note = agent.session.redactor.redact(_note(agent, action, outcome, hunks, reason))
    turn = None if outcome.turn >= REVIEWS else outcome.turn
    entry = entries.Undo(
        action=action,
        undone_turn=turn if action == "undo" else None,
        redone_turn=None if action == "undo" else turn,
        restored=outcome.restored,
        removed=outcome.removed,
        merged=outcome.merged,
        kept=outcome.kept,
        uncovered=outcome.uncovered,
        kept_copies=outcome.kept_copies,
        shared=[],
        unsure=[],
        forced=force,
        hunks=list(hunks),
    )
    agent.session.log.append(entry, note)
    agent.session.reminders.add(note)


def _note(agent: Agent, action: str, outcome: UndoOutcome, hunks: Sequence[str], reason: str) -> str:
    shown = _shown_paths(agent)

    def names(paths: Sequence[str]) -> str:
        return ", ".join(map(shown, paths[:_SHOWN])) + (" …" if len(paths) > _SHOWN else "")

    what, state = ("undone", "as before it") if action == "undo" else ("done again", "as after it")
    note = f"The person has {what} the file changes of turn {outcome.turn}; these files are {state}: "
    if outcome.turn >= REVIEWS:
        what = "taken back these parts of your changes" if hunks else "put back the parts taken back last"
        listed = "".join(f"\n- {hunk}" for hunk in hunks)
        note = f"The person has {what}{listed}\n{reason}\nFiles: " if hunks else f"The person has {what}: "
    note += f"{names([*outcome.restored, *outcome.removed]) or 'none'}."
    if outcome.merged:
        note += f" Merged with later changes: {names(outcome.merged)}."
    return note
