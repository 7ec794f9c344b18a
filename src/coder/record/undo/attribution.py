"""From what differs in a tree to the changes that the undo journal keeps: whose doing each is, as far as that
can be known, and with the contents that are needed to take it back.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import msgspec

from coder.record.tree.index import IndexEntry
from coder.record.tree.scan import Changed, Tree
from coder.record.undo.apply import PathState, state_of, text_of
from coder.record.undo.files import MOVES, JournalFiles
from coder.record.undo.journal import UndoJournal
from coder.record.undo.others import Writes, between, fetch, journalled_since, written_by_others
from coder.record.undo.overlap import Overlap
from coder.record.undo.plan import KILLED, Change

CLOCK_NS = 50_000_000  # a file system's clock may be this far behind
_HASHED_BYTES = 64 << 20  # of a new file that is too large to keep: its digest is enough to remove it again


class RunContext(msgspec.Struct, frozen=True):
    """Under which a command ran: since when (nanoseconds), beside whose commands, and until when, where it
    was killed with its session. `steady`: the clock was not set meanwhile, so that times can be compared."""

    since: int
    overlaps: Sequence[Overlap] = ()
    until: int | None = None
    steady: bool = True


def journal_changes(
    tree: Tree, journal: UndoJournal, found: Changed, under: RunContext, turn: int = 0
) -> list[Change]:
    """What the command did, now in the journal; OSError where that cannot be written."""
    if not found:
        return []
    with journal.lock:
        writes, journals = written_by_others(journal.folder, under.since)
        if turn:  # tools of the same session, when it had been taken up again
            _add_writes(writes, _written_after(journal.files, turn, under.since))
        owners = _OtherOwners(journal.folder.parent, under, tree.replaced_dirs)
        changes: list[Change] = []
        for path, (old, new) in sorted(found.items()):
            change = _change(tree, journal, path, old, new)
            own = between(change, writes[change.path]) if change.path in writes else [change]
            doubt = owners.of(change.path, path, old)
            changes += [_with_contents(one, journals, journal.files, doubt) for one in own]
        if changes:
            journal.add(changes, turn)
    return changes


def _written_after(files: JournalFiles, turn: int, since: int) -> list[Change]:
    """By the tools of later turns, and by undoing."""
    later = [files.turn(number) for number in files.turns() if number > turn]
    found = [change for file in later for change in files.changes(file)]
    found += journalled_since(files, since, only=(MOVES,))
    return [change for change in found if change.by_tool]


def _add_writes(writes: Writes, changes: list[Change]) -> None:
    for change in changes:
        writes.setdefault(change.path, []).append(change)
        writes[change.path].sort(key=lambda one: one.at)


def _with_contents(change: Change, journals: list[JournalFiles], own: JournalFiles, doubt: str) -> Change:
    if change.lost:
        return change
    if not fetch(change.before, journals, own, to_merge=False):
        return Change(change.path, PathState(), PathState(), lost=True)
    fetch(change.after, journals, own, to_merge=True)
    return msgspec.structs.replace(change, doubt=doubt)


def _change(
    tree: Tree, journal: UndoJournal, path: bytes, old: IndexEntry | None, new: IndexEntry | None
) -> Change:
    before, after = (
        _journalled_state(tree, journal, old, to_merge=False),
        _journalled_state(tree, journal, new, to_merge=True),
    )
    if after is None and new is not None and new.kind == "file":
        after = _hash_only(path, new)
    text = text_of(Path(os.fsdecode(path)))
    if before is None or after is None:
        return Change(text, PathState(), PathState(), lost=True)
    return Change(text, before, after)


def _journalled_state(
    tree: Tree, journal: UndoJournal, seen: IndexEntry | None, *, to_merge: bool
) -> PathState | None:
    """As the journal keeps it; None where it was not kept."""
    if seen is None:
        return PathState()
    if seen.kind in ("folder", "other"):
        return PathState(None, seen.mode, seen.kind) if seen.kind == "folder" or to_merge else None
    content = tree.content(seen)
    if content is None:
        return None
    try:
        blob = journal.keep(content, only_to_merge=to_merge)
    except OSError:  # no room for this one: it can be named at least, and the others are not lost with it
        return None
    return PathState(blob, 0 if seen.kind == "link" else seen.mode, seen.kind)


def _hash_only(path: bytes, seen: IndexEntry) -> PathState | None:
    if seen.size > _HASHED_BYTES:
        return None
    held = blake2b(digest_size=20)
    try:
        with Path(os.fsdecode(path)).open("rb") as file:
            while part := file.read(1 << 20):
                held.update(part)
    except PermissionError:  # closed by the command itself, which need not stop us
        return _unreadable_state(path)
    except OSError:
        return None
    return PathState(held.hexdigest(), seen.mode)


def _unreadable_state(path: bytes) -> PathState | None:
    try:
        return state_of(Path(os.fsdecode(path)))[0]
    except OSError:
        return None


class _OtherOwners:
    """Whose doing a change may be instead."""

    def __init__(self, journals: Path, under: RunContext, replaced_dirs: set[bytes]) -> None:
        self._under = under
        self._replaced_dirs = replaced_dirs
        # One that has ended has said what changed while it ran: all else is not its doing. What one did that
        # still runs is anybody's guess.
        self._running = [overlap for overlap in under.overlaps if not overlap.ended]
        # But one that was under way when ours began may have had something half done, to be completed while
        # ours ran: what it changed from its own beginning to its end does not tell of that.
        self._under_way = [overlap for overlap in under.overlaps if overlap.ended and overlap.under_way_since]
        self._named: dict[str, str] = {}
        for overlap in under.overlaps:
            if overlap.ended:
                files = JournalFiles(journals / overlap.session)
                changed = journalled_since(files, min(under.since, overlap.at - CLOCK_NS))
                self._named |= {change.path: overlap.session for change in changed if not change.by_tool}

    def of(self, text: str, path: bytes, old: IndexEntry | None) -> str:
        if text in self._named:
            return self._named[text]
        until = self._under.until
        if not self._running and not self._under_way and until is None:
            return ""
        at = _changed_at(path, self._replaced_dirs) if self._under.steady else None
        for overlap in self._under_way:
            if at is None or _may_complete(overlap, old, at):
                return overlap.session
        for overlap in self._running:
            if at is None or at >= overlap.at - CLOCK_NS:
                return overlap.session
        return KILLED if until is not None and (at is None or at > until) else ""


def _may_complete(overlap: Overlap, old: IndexEntry | None, changed_at: int) -> bool:
    """Whether what was seen of a path as ours began may have been what the other one had just made of it."""
    if old is None:
        return changed_at <= overlap.until + CLOCK_NS
    return not old.ctime or old.ctime >= overlap.under_way_since - CLOCK_NS  # 0: it was too young to tell


def _changed_at(path: bytes, replaced_dirs: set[bytes]) -> int | None:
    """When a path was last changed, or something beside it where it is gone; at the latest. What is in a
    folder that was moved does not tell of it: the folder does."""
    above = path
    times: list[int] = []
    while len(above) > 1:
        try:
            info = os.lstat(above)
        except OSError:
            pass
        else:
            if not times:
                times.append(info.st_ctime_ns if above == path else info.st_mtime_ns)
            if above in replaced_dirs:
                times.append(info.st_ctime_ns)
        above = os.path.dirname(above)  # noqa: PTH120 - bytes, as the system has them
    return max(times, default=None)
