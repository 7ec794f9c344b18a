"""Undo for what commands do to files: the tree is looked at before and after, and the difference goes to the
turn's undo journal.

It covers the workspace: bytes, permission bits, links, folders, things made and deleted. It does not cover
git's own folder, ignored files that no tool wrote, files beyond the bounds, nor anything outside; and what a
person changes while a command runs counts as the command's, but not what a file tool of another session
writes meanwhile. What it could not cover it names.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import msgspec

from coder.record.tree import Changed, Seen, Tree, TreeLimits
from coder.record.undo import UndoJournal
from coder.record.undo_plan import Change
from coder.record.undo_state import Held, text_of

_HASHED_BYTES = 64 << 20  # of a new file that is too large to keep: its digest is enough to remove it again
_CLOCK_NS = 50_000_000  # a file system's clock may be this far behind
_GIT_MARKS = ("HEAD", "logs/HEAD", "packed-refs", "refs/heads", "refs/stash")


class ShellChanges(msgspec.Struct, frozen=True):
    """What a command changed. `uncovered` can be named but not undone; `partial`: there are more files than
    are watched over; `git`: commits, branches or stashes changed, which undo leaves alone."""

    changed: list[str] = []
    uncovered: list[str] = []
    partial: bool = False
    git: bool = False


class ShellUndo:
    """One for a session. Not cheap the first time, well under a millisecond from then on."""

    def __init__(
        self,
        workspace: Path,
        home: Path,
        journal: UndoJournal,
        limits: TreeLimits | None = None,
        excluded: Sequence[Path] = (),
    ) -> None:
        """`home` is $CODER_HOME: contents are kept there, never in the person's repository."""
        root = Path(os.path.realpath(workspace))
        name = blake2b(os.fsencode(root), digest_size=10).hexdigest()
        own = [root / ".coder" / "history", root / ".coder" / "sessions", home, *excluded]
        self.journal = journal
        self._root = root
        self._tree = Tree(root, home / "trees" / name, limits or TreeLimits(), own)
        self._git: list[int] = []
        self._running = 0  # commands of subagents run beside each other
        self._since = 0
        self._lock = threading.Lock()  # commands of subagents look in threads of their own

    def before(self, command: str = "") -> None:
        """Right before a command that is not known to be read-only. Raises nothing. `after` follows, or
        `not_run`."""
        with self._lock:
            self._tree.also = {os.fsencode(path) for path in self.journal.written()}
            found = self._tree.sync()
            if self._running:  # what has changed by now is the doing of the one that runs
                with contextlib.suppress(OSError):
                    self._journalled(found)
            else:
                self._since = time.time_ns() - _CLOCK_NS
                self._git = self._git_marks()
            self._running += 1
            with contextlib.suppress(OSError):
                self.journal.command_begins(command)

    def not_run(self) -> None:
        """The command that `before` was called for did not come to it."""
        with self._lock:
            self._ended()

    def _ended(self) -> None:
        self._running -= 1
        if not self._running:
            with contextlib.suppress(OSError):
                self.journal.commands_ended()

    def after(self) -> ShellChanges:
        """Right after it, however it ended. What it changed is in the journal when this returns; OSError
        where the journal cannot be written."""
        with self._lock:
            found = self._tree.sync()
            git = self._git != self._git_marks()
            try:
                changes = self._journalled(found)
            finally:
                self._ended()
        lost = [change.path for change in changes if change.lost]
        rest = [change.path for change in changes if not change.lost]
        return ShellChanges(rest, lost, self._tree.partial, git)

    def close(self) -> None:
        with self._lock:
            self._tree.close()

    def _journalled(self, found: Changed) -> list[Change]:
        theirs = self.journal.written_by_others(self._since) if found else {}
        changes = [c for c in self._changes(found) if not (c.path in theirs and c.after.same(theirs[c.path]))]
        if changes:
            self.journal.add(changes)
        return changes

    def _changes(self, found: Changed) -> list[Change]:
        changes = []
        for path, (old, new) in sorted(found.items()):
            before, after = self._held(old, to_merge=False), self._held(new, to_merge=True)
            if after is None and new is not None and new.kind == "file":
                after = _digest_only(path, new)
            text = text_of(Path(os.fsdecode(path)))
            if before is None or after is None:
                changes.append(Change(text, Held(), Held(), lost=True))
            else:
                changes.append(Change(text, before, after))
        return changes

    def _held(self, seen: Seen | None, *, to_merge: bool) -> Held | None:
        """As the journal keeps it; None where it was not kept."""
        if seen is None:
            return Held()
        if seen.kind in ("folder", "other"):
            return Held(None, seen.mode, seen.kind) if seen.kind == "folder" or to_merge else None
        content = self._tree.content(seen)
        if content is None:
            return None
        blob = self.journal.keep(content, only_to_merge=to_merge)
        return Held(blob, 0 if seen.kind == "link" else seen.mode, seen.kind)

    def _git_marks(self) -> list[int]:
        marks = []
        for name in _GIT_MARKS:
            try:
                marks.append((self._root / ".git" / name).stat().st_mtime_ns)
            except OSError:
                marks.append(0)
        return marks


def _digest_only(path: bytes, seen: Seen) -> Held | None:
    if seen.size > _HASHED_BYTES:
        return None
    held = blake2b(digest_size=20)
    try:
        with Path(os.fsdecode(path)).open("rb") as file:
            while part := file.read(1 << 20):
                held.update(part)
    except OSError:
        return None
    return Held(held.hexdigest(), seen.mode)
