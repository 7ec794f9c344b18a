"""Journal the differences of a tree as a command's changes, with the contents needed to undo them.

Changes that another session may have made are marked `shared`.
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
from coder.history.tree.scan import Changed, WorkspaceTree
from coder.history.undo.apply_steps import PathState, path_state, text_of
from coder.history.undo.journal import UndoJournal
from coder.history.undo.journal_files import MOVES, JournalFiles, distinct
from coder.history.undo.plan import JournalChange

CLOCK_NS = 50_000_000  # clock skew of file systems
_HASHED_BYTES = 64 << 20  # new files too large to keep are hashed, which is enough to remove them


class RunContext(msgspec.Struct, frozen=True):
    """When a command ran (nanoseconds). `beside`: another session's command was running. `until` and `turn`:
    its latest end and its turn, if it was killed with its session."""

    since: int
    beside: bool = False
    until: int | None = None
    turn: int = 0


def journal_changes(
    tree: WorkspaceTree, journal: UndoJournal, found: Changed, context: RunContext
) -> list[JournalChange]:
    """Journal what the command changed. Raises OSError."""
    if not found:
        return []
    with journal.lock:
        writes, by_commands = _changed_by_others(journal.files, context)
        changes: list[JournalChange] = []
        for path, (old, new) in sorted(found.items()):
            change = _change(tree, journal, path, old, new)
            if context.until is not None and _changed_at(path, found) > context.until:
                change = _lost(change.path)  # after the kill, perhaps by a person
            elif not change.lost:
                own, mixed = _without_tools(change, writes.get(change.path, ()))
                if own is None:
                    continue
                shared = mixed or context.beside or change.path in by_commands
                change = msgspec.structs.replace(own, shared=shared)
            changes.append(change)
        if changes:
            # A recovered command's changes are older than the commands of others that ran since.
            journal.add(changes, context.turn, at=context.since if context.turn else None)
    return changes


def _changed_by_others(
    own: JournalFiles, context: RunContext
) -> tuple[dict[str, list[JournalChange]], set[str]]:
    """Since the command began: writes of others' tools by path, and the paths their commands changed."""
    since = context.since - CLOCK_NS
    found: list[JournalChange] = []
    with contextlib.suppress(OSError), os.scandir(own.directory.parent) as directories:
        for entry in directories:
            if entry.name != own.directory.name and entry.stat().st_mtime_ns >= since:
                found += _journalled_since(JournalFiles(Path(entry.path)), since)
    by_commands = {change.path for change in found if not change.by_tool and change.at >= context.since}
    if context.turn:  # the killed session may have been resumed since
        later = [own.turn(number) for number in own.turns() if number > context.turn]
        found += [change for file in later for change in own.changes(file)]
        found += _journalled_since(own, since, (MOVES,))
    writes: dict[str, list[JournalChange]] = {}
    for change in distinct(change for change in found if change.by_tool):
        writes.setdefault(change.path, []).append(change)
    return writes, by_commands


def _journalled_since(
    journal: JournalFiles, since: int, only: Sequence[str] = ("turn-*.jsonl", "turn-*.undone", MOVES)
) -> Iterator[JournalChange]:
    """All changes journalled since then, of any turn, undone or not."""
    for pattern in only:
        for file in journal.directory.glob(pattern):
            with contextlib.suppress(OSError):
                if file.stat().st_mtime_ns >= since:
                    yield from (change for change in journal.changes(file) if change.at >= since)


def _without_tools(
    change: JournalChange, writes: Iterable[JournalChange]
) -> tuple[JournalChange | None, bool]:
    """The change without others' last writes (None: nothing is left), and whether it still has one."""
    state, rest = change.after, list(writes)
    while any(write.after.same(change.before) for write in rest):
        rest.pop(0)  # led to the state before the command
    while rest:
        if _alike(rest[-1].after, state):
            state = rest.pop().before
        elif _alike(rest[-1].before, state):
            rest.pop()  # journalled (write-ahead) and not done yet
        else:
            break
    if state is change.after:
        return change, bool(rest)
    own = None if _alike(change.before, state) else msgspec.structs.replace(change, after=state)
    return own, bool(rest)


def _alike(one: PathState, other: PathState) -> bool:
    """Equal; a mode of 0 is unknown and matches any."""
    return one.same(other) and (one.absent or one.mode == other.mode or 0 in (one.mode, other.mode))


def _lost(text: str) -> JournalChange:
    return JournalChange(text, PathState(), PathState(), lost=True)


def _change(
    tree: WorkspaceTree, journal: UndoJournal, path: bytes, old: IndexEntry | None, new: IndexEntry | None
) -> JournalChange:
    before = _journalled_state(tree, journal, old, to_merge=False)
    after = _journalled_state(tree, journal, new, to_merge=True)
    if after is None and new is not None and new.kind == "file":
        after = _hash_only(path, new)
    text = text_of(Path(os.fsdecode(path)))
    return _lost(text) if before is None or after is None else JournalChange(text, before, after)


def _journalled_state(
    tree: WorkspaceTree, journal: UndoJournal, seen: IndexEntry | None, *, to_merge: bool
) -> PathState | None:
    """The entry's state with its content stored in the journal; None if the content was not kept."""
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
    file = Path(os.fsdecode(path))
    try:
        with stream_of(file) as stream:
            while part := stream.read(1 << 20):
                held.update(part)
    except PermissionError:  # the command removed read permission
        with contextlib.suppress(OSError):
            return path_state(file)[0]
        return None
    except OSError:
        return None
    return PathState(held.hexdigest(), seen.mode)


def _changed_at(path: bytes, found: Changed) -> int:
    """Upper bound of the change time, from the path, or the directory above if it is gone."""
    times: list[int] = []
    above = path
    while len(above) > 1:
        with contextlib.suppress(OSError):
            info = os.lstat(above)
            if not times:
                times.append(info.st_ctime_ns if above == path else info.st_mtime_ns)
            elif above in found:
                times.append(info.st_ctime_ns)
        above = os.path.dirname(above)  # noqa: PTH120 - bytes, as the system has them
    return max(times)
