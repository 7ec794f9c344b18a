"""`/diff review [turn N]`: go through the hunks of the session or of a turn, and keep or take back each.

The question is an approval about a diff (`tool` `review`): `yes` keeps all of it, with `amended` those
hunks alone, or runs of changed lines of them; `no` takes all of it back. A cancel changes nothing, and
`/redo` does again what was taken back.
"""

from __future__ import annotations

import asyncio

from coder.engine.agent import Agent
from coder.engine.approval import ask_about_diff
from coder.engine.commands.modes import Reply
from coder.engine.commands.undo import keep_outcome, outcome_lines
from coder.protocol.ops import ApprovalReply
from coder.record.undo.hunks import FileHunks, Places
from coder.record.undo.journal import UndoOutcome
from coder.texts import Joined, Phrase
from coder.tools.text.hunks import Hunk, diff_of, hunks_of

_NAMED = 50  # hunks that the record and the model are told of


async def review_command(agent: Agent, args: str) -> Reply:
    """`args`: nothing, or `turn N`."""
    journal, shown = agent.session.undo, agent.place.workspace.show
    turn = 0
    if args:
        number = args.removeprefix("turn").strip()
        turn = int(number[:9]) if args.startswith("turn") and number.isascii() and number.isdigit() else 0
        if turn not in journal.turns():
            known = ", ".join(map(str, journal.turns())) or "–"
            return Reply(
                Phrase("diff.no_turn", turn=number or "?", turns=known), ok=False, data={"usage": True}
            )
    files, unkept = await asyncio.to_thread(journal.hunks, turn, shown)
    lines = [Phrase("diff.not_kept", path=shown(path)) for path in unkept]
    hunks = [hunk for file in files for hunk in file.hunks]
    if not hunks:
        return Reply(Joined([*lines, Phrase("diff.none_by_session")]))
    diff = diff_of(hunks)
    if not agent.can_ask:
        return Reply(Joined([*lines, diff, Phrase("record.review_needs_person")]), data={"hunks": len(hunks)})
    reply = await ask_about_diff(agent.session, "review", diff, [*lines, Phrase("record.review_question")])
    parts = _taken_back(files, reply)
    names = [f"{hunk.path} {hunk.head}" for file, places in parts for hunk in _at(file, places)]
    if not names:
        return Reply(Phrase("record.review_kept"), data={"kept": len(hunks), "taken_back": 0})
    return await _take_back(agent, parts, names, len(hunks), reply.reason)


def _taken_back(files: list[FileHunks], reply: ApprovalReply) -> list[tuple[FileHunks, Places]]:
    """Of each file the places of the hunks that the person does not keep, or not whole."""
    if reply.answer != "no" and not reply.amended:
        return []
    amended = hunks_of(reply.amended) if reply.answer != "no" else []
    kept = {(hunk.names, hunk.start): hunk for hunk in amended}
    found: list[tuple[FileHunks, Places]] = []
    for file in files:
        places: dict[int, list[int] | None] = {}
        for place, hunk in zip(file.places, file.hunks, strict=True):
            own = kept.get((hunk.names, hunk.start))
            if own is None or own.text != hunk.text:
                runs = hunk.kept_runs(own) if own is not None else []
                places[place] = [at for at, has in enumerate(runs) if not has] if any(runs) else None
        if places:
            found.append((file, places))
    return found


def _at(file: FileHunks, places: Places) -> list[Hunk]:
    """These hunks, or the pieces of them that have the runs."""
    found: list[Hunk] = []
    for place, runs in places.items():
        hunk = file.hunks[file.places.index(place)]
        found += [hunk] if runs is None else [hunk.pieces()[run] for run in runs]
    return found


async def _take_back(
    agent: Agent, parts: list[tuple[FileHunks, Places]], names: list[str], count: int, reason: str
) -> Reply:
    # Shielded from cancellation: an interrupted undo is completed only by the next one.
    work = asyncio.ensure_future(asyncio.to_thread(agent.session.undo.take_back, parts))
    try:
        outcome = await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        if work.exception() is None:
            _tell(agent, work.result(), names, reason)
        raise
    except OSError as error:
        return Reply(Phrase("undo.failed", reason=f"{error.strerror}: {error.filename}"), ok=False)
    _tell(agent, outcome, names, reason)
    data: dict[str, object] = {"kept": count - len(names), "taken_back": 0 if outcome.refused else len(names)}
    return Reply(Joined(outcome_lines(agent, outcome, "undo")), ok=not outcome.refused, data=data)


def _tell(agent: Agent, outcome: UndoOutcome, names: list[str], reason: str) -> None:
    keep_outcome(agent, "undo", outcome, force=False, hunks=names[:_NAMED], reason=reason)
