"""What else has changed a workspace's files while a command ran: the file tools and undos of other sessions,
whose journals say exactly what they wrote. That is theirs for certain, and never put down to the command.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from coder.record.undo.apply import PathState
from coder.record.undo.files import MOVES, JournalFiles, distinct
from coder.record.undo.plan import MERGED_BYTES, Change

Writes = dict[str, list[Change]]  # a path's, in their order


def written_by_others(own: Path, since: int) -> tuple[Writes, list[JournalFiles]]:
    """What the tools and undos of all sessions but `own` have made of paths since then (nanoseconds), and
    where the contents are kept."""
    found: list[Change] = []
    journals: list[JournalFiles] = []
    with contextlib.suppress(OSError), os.scandir(own.parent) as folders:
        for entry in folders:
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
    """All that a journal was told since then, in whatever turn, taken back or not."""
    for pattern in only:
        for file in journal.folder.glob(pattern):
            with contextlib.suppress(OSError):
                if file.stat().st_mtime_ns >= since:
                    yield from (change for change in journal.changes(file) if change.at >= since)


def between(change: Change, writes: Iterable[Change]) -> list[Change]:
    """What is left of a command's change of a path once the writes of others are taken out of it: what it did
    before the first, between them, and after the last."""
    writes = list(writes)
    same = [number for number, write in enumerate(writes) if write.after.same(change.before)]
    rest = writes[same[-1] + 1 :] if same else writes  # what led to where the command began is over
    own: list[Change] = []
    state = change.before
    for number, write in enumerate(rest):
        last = number == len(rest) - 1
        if not _alike(state, write.before):
            own.append(Change(change.path, state, write.before))
        # Announced, and not made by the time the command had ended.
        state = write.before if last and _alike(write.before, change.after) else write.after
    if not _alike(state, change.after):
        own.append(Change(change.path, state, change.after))
    return own


def _alike(one: PathState, other: PathState) -> bool:
    """Bits of 0 were not known beforehand."""
    return one.same(other) and (one.absent or one.mode == other.mode or 0 in (one.mode, other.mode))


def fetch(held: PathState, journals: list[JournalFiles], own: JournalFiles, *, to_merge: bool) -> bool:
    """Make a content ours that others have kept; whether we have it, or need not."""
    if held.blob is None or own.content(held.blob) is not None:
        return True
    for journal in journals:
        content = journal.content(held.blob)
        if content is not None:
            own.keep(content, MERGED_BYTES if to_merge else None)
            return True
    return to_merge
