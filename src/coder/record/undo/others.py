"""Writes of other sessions' file tools and undos while a command ran. Their journals record them exactly, so
they are never attributed to the command.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from coder.record.undo.apply import PathState
from coder.record.undo.files import MOVES, JournalFiles, distinct
from coder.record.undo.plan import MERGED_BYTES, Change

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
