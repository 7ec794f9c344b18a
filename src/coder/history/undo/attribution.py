"""Turn the differences of a tree into journal entries: who made each change, as far as is known, and the
contents needed to undo it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path

import msgspec

from coder.base.safe_open import stream_of
from coder.history.tree.index import IndexEntry
from coder.history.tree.scan import Changed, Tree
from coder.history.undo.apply_steps import PathState, state_of, text_of
from coder.history.undo.journal import UndoJournal
from coder.history.undo.journal_files import MOVES, JournalFiles, distinct
from coder.history.undo.overlap import Overlap
from coder.history.undo.plan import KILLED, MERGED_BYTES, Change

Writes = dict[str, list[Change]]  # by path, oldest first


def written_by_others(own: Path, since: int) -> tuple[Writes, list[JournalFiles]]:
    """Tool and undo writes of all sessions but `own` since then (nanoseconds), and their journals."""
    found: list[Change] = []
    journals: list[JournalFiles] = []
    with contextlib.suppress(OSError), os.scandir(own.parent) as directories:
        for entry in directories:
            if entry.name != own.name and entry.stat().st_mtime_ns >= since:
                journals.append(JournalFiles(Path(entry.path)))
                found += [change for change in journalled_since(journals[-1], since) if change.by_tool]
    writes: Writes = {}
    for change in distinct(found):
        writes.setdefault(change.path, []).append(change)
    return writes, journals


def journalled_since(
    journal: JournalFiles, since: int, only: Iterable[str] = ("turn-*.jsonl", "turn-*.undone", MOVES)
) -> Iterator[Change]:
    """All changes journalled since then, of any turn, undone or not."""
    for pattern in only:
        for file in journal.directory.glob(pattern):
            with contextlib.suppress(OSError):
                if file.stat().st_mtime_ns >= since:
                    yield from (change for change in journal.changes(file) if change.at >= since)


def between(change: Change, writes: Iterable[Change]) -> list[Change]:
    """A command's change of a path minus the writes of others: its own changes before, between and after
    them."""
    writes = list(writes)
    same = [number for number, write in enumerate(writes) if write.after.same(change.before)]
    rest = writes[same[-1] + 1 :] if same else writes  # earlier ones led to the command's starting state
    own: list[Change] = []
    state = change.before
    for number, write in enumerate(rest):
        last = number == len(rest) - 1
        if not _alike(state, write.before):
            own.append(Change(change.path, state, write.before))
        # Journalled (write-ahead), but not done before the command ended.
        state = write.before if last and _alike(write.before, change.after) else write.after
    if not _alike(state, change.after):
        own.append(Change(change.path, state, change.after))
    return own


def _alike(one: PathState, other: PathState) -> bool:
    """Equal; a mode of 0 is unknown and matches any."""
    return one.same(other) and (one.absent or one.mode == other.mode or 0 in (one.mode, other.mode))


def fetch(held: PathState, journals: list[JournalFiles], own: JournalFiles, *, to_merge: bool) -> bool:
    """Copy a content from other journals; False where it is needed and missing."""
    if held.blob is None or own.content(held.blob) is not None:
        return True
    for journal in journals:
        content = journal.content(held.blob)
        if content is not None:
            own.keep(content, MERGED_BYTES if to_merge else None)
            return True
    return to_merge


CLOCK_NS = 50_000_000  # clock skew of file systems
_HASHED_BYTES = 64 << 20  # new files too large to keep are hashed, which is enough to remove them


class RunContext(msgspec.Struct, frozen=True):
    """When a command ran (nanoseconds) and which commands of other sessions overlapped. `until`: its latest
    end, where it was killed with its session."""

    since: int
    overlaps: Sequence[Overlap] = ()
    until: int | None = None


def journal_changes(
    tree: Tree, journal: UndoJournal, found: Changed, under: RunContext, turn: int = 0
) -> list[Change]:
    """Journal what the command changed. Raises OSError."""
    if not found:
        return []
    with journal.lock:
        writes, journals = written_by_others(journal.directory, under.since)
        if turn:  # recovered: the session may have been resumed since
            _add_writes(writes, _written_after(journal.files, turn, under.since))
        owners = _OtherOwners(journal.directory.parent, under, tree.replaced_dirs)
        changes: list[Change] = []
        for path, (old, new) in sorted(found.items()):
            change = _change(tree, journal, path, old, new)
            own = between(change, writes[change.path]) if change.path in writes else [change]
            doubt = owners.of(change.path, path)
            changes += [_with_contents(one, journals, journal.files, doubt) for one in own]
        if changes:
            journal.add(changes, turn)
    return changes


def _written_after(files: JournalFiles, turn: int, since: int) -> list[Change]:
    """Writes by the tools of later turns and by undo."""
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
    """The entry's state with its content stored in the journal; None where the content was not kept."""
    if seen is None:
        return PathState()
    if seen.kind in ("folder", "other"):
        return PathState(None, seen.mode, seen.kind) if seen.kind == "folder" or to_merge else None
    content = tree.content(seen)
    if content is None:
        return None
    try:
        blob = journal.keep(content, only_to_merge=to_merge)
    except OSError:  # disk full: report this path as lost, keep the others
        return None
    return PathState(blob, 0 if seen.kind == "link" else seen.mode, seen.kind)


def _hash_only(path: bytes, seen: IndexEntry) -> PathState | None:
    if seen.size > _HASHED_BYTES:
        return None
    held = blake2b(digest_size=20)
    try:
        with stream_of(Path(os.fsdecode(path))) as file:
            while part := file.read(1 << 20):
                held.update(part)
    except PermissionError:  # the command removed read permission
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
    """Which other session may have made a change."""

    def __init__(self, journals: Path, under: RunContext, replaced_dirs: set[bytes]) -> None:
        self._under = under
        self._replaced_dirs = replaced_dirs
        # An overlap that began after ours and has ended journalled its changes: nothing else is its doing.
        # One that still runs, or was under way when ours began (it may have completed a partial write), may
        # have changed anything: the person is asked.
        unsure = [overlap.session for overlap in under.overlaps if overlap.under_way or not overlap.ended]
        self._unsure = unsure[0] if unsure else ""
        self._named: dict[str, str] = {}
        for overlap in under.overlaps:
            if overlap.ended:
                files = JournalFiles(journals / overlap.session)
                changed = journalled_since(files, min(under.since, overlap.at - CLOCK_NS))
                self._named |= {change.path: overlap.session for change in changed if not change.by_tool}

    def of(self, text: str, path: bytes) -> str:
        if text in self._named:
            return self._named[text]
        until = self._under.until
        if self._unsure or until is None:
            return self._unsure
        at = _changed_at(path, self._replaced_dirs)
        return KILLED if at is None or at > until else ""


def _changed_at(path: bytes, replaced_dirs: set[bytes]) -> int | None:
    """Upper bound of a path's change time; the parent's mtime where it is gone. For a moved directory's
    contents, the ctime of the directory."""
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
