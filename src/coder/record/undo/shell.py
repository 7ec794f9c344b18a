"""Undo for what commands do to files: the tree is looked at before and after, and the difference goes to the
turn's undo journal.

It covers the workspace: bytes, permission bits, links, folders, things made and deleted. It does not cover
git's own folder, ignored files that no tool wrote, files beyond the bounds, nor anything outside; and what a
person changes while a command runs counts as the command's. Not so what a file tool of another session writes
meanwhile: that is theirs. What changes while commands of two sessions run may be the doing of either, and is
kept as such. What it could not cover it names.

What there was before is on disk before a command begins: one that is killed together with its session is
covered too, by the next session that runs a command here, or that is asked to undo it.
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

from coder.record.tree.index import Base
from coder.record.tree.scan import Tree, TreeLimits
from coder.record.undo.attribution import CLOCK_NS, RunContext, journal_changes
from coder.record.undo.journal import UndoJournal
from coder.record.undo.overlap import CommandWindows, Orphan
from coder.tools.search.ignore import repository_of

_HARD_LINKING = ("ln ", "link", "cp -", "rsync")  # what may give files further names, which nobody is told of
_GIT_REFS = ("HEAD", "logs/HEAD", "packed-refs", "refs/heads", "refs/stash")


class ShellChanges(msgspec.Struct, frozen=True):
    """What a command changed. `uncovered` can be named but not undone; `partial`: there are more files than
    are watched over; `git`: commits, branches or stashes changed, which undo leaves alone."""

    changed: list[str] = []
    uncovered: list[str] = []
    partial: bool = False
    git: bool = False


class _StartTime:
    """Since when, and whether the clock was set meanwhile."""

    def __init__(self) -> None:
        self._wall, self._steady = time.time_ns(), time.monotonic_ns()

    def since(self) -> tuple[int, bool]:
        set_back = (time.time_ns() - self._wall) - (time.monotonic_ns() - self._steady)
        return self._wall - CLOCK_NS + min(0, set_back), abs(set_back) < CLOCK_NS


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
        self._root = Path(os.path.realpath(workspace))
        name = blake2b(os.fsencode(self._root), digest_size=10).hexdigest()
        self.journal = journal
        self._folder = home / "trees" / name
        self._limits = limits or TreeLimits()
        own = [self._root / ".coder" / "history", self._root / ".coder" / "sessions"]
        self._excluded = [*own, home, *excluded]
        self._tree = self._new_tree()
        self._windows = CommandWindows(self._folder / "open", journal.folder.name)
        self._base = Base(self._windows.folder)
        self._git_folders = _git_folders(self._root)
        self._git: dict[Path, list[int]] = {}
        self._check_hard_links = False
        self._running = 0  # commands of subagents and other tools run beside each other
        self._clock = _StartTime()
        self._lock = threading.Lock()  # they look in threads of their own

    def _new_tree(self) -> Tree:
        return Tree(self._root, self._folder, self._limits, self._excluded)

    def before(self, command: str = "") -> None:
        """Right before a command that is not known to be read-only. Raises nothing. `after` follows, or
        `not_run`."""
        with self._lock:
            if not self._running:
                self._clock = _StartTime()
            self._recover_orphans(self._windows.open(self.journal.turn, command))
            self._tree.also = {os.fsencode(path) for path in self.journal.written()}
            self._tree.shared = self._windows.others
            linking = any(word in command for word in _HARD_LINKING)
            self._check_hard_links = linking or (self._check_hard_links and self._running > 0)
            found = self._tree.sync(check_hard_links=self._check_hard_links)
            with contextlib.suppress(OSError):
                if self._running:  # what has changed by now is the doing of the one that runs
                    journal_changes(self._tree, self.journal, found, self._run_context())
                else:
                    self._git = self._git_state()
                self.journal.command_begins(command)
                self._tree.save_base(self._base)
                self._windows.base_saved()
            self._running += 1

    def not_run(self) -> None:
        """The command that `before` was called for did not come to it."""
        with self._lock:
            self._command_ended(journalled=True)

    def _command_ended(self, *, journalled: bool) -> None:
        self._running -= 1
        if not self._running:
            self._windows.close(journalled=journalled)
            with contextlib.suppress(OSError):
                self.journal.commands_ended(journalled=journalled)

    def after(self) -> ShellChanges:
        """Right after it, however it ended. What it changed is in the journal when this returns; OSError
        where the journal cannot be written."""
        with self._lock:
            journalled = False
            try:
                found = self._tree.sync(check_hard_links=self._check_hard_links)
                git = self._git_changed()
                changes = journal_changes(self._tree, self.journal, found, self._run_context())
                journalled = True
            finally:
                self._command_ended(journalled=journalled)
        lost = [change.path for change in changes if change.lost]
        rest = [change.path for change in changes if not change.lost]
        return ShellChanges(list(dict.fromkeys(rest)), lost, self._tree.partial, git)

    def repositories(self) -> list[str]:
        """Where git's own files lie further down in the workspace, as far as is known without looking."""
        return [os.fsdecode(path) for path in self._tree.repositories()]

    def recover(self) -> None:
        """Find out what commands that were killed with their sessions had changed. Raises nothing."""
        with self._lock:
            self._recover_orphans(self._windows.orphans())

    def close(self) -> None:
        with self._lock:
            self._tree.close()
            self._windows.unregister()

    def _run_context(self) -> RunContext:
        since, steady = self._clock.since()
        return RunContext(since, self._windows.overlaps(), steady=steady)

    def _recover_orphans(self, orphans: list[Orphan]) -> None:
        for orphan in orphans:
            try:
                if orphan.base_saved:
                    self._recover_orphan(orphan)
                orphan.discard()
            except OSError:  # the disk is full: the next one may have more luck
                orphan.release()

    def _recover_orphan(self, orphan: Orphan) -> None:
        """Into the journal of the session that was killed, where its command belongs."""
        first = orphan.commands[0]
        own = first.session == self.journal.folder.name
        journal = self.journal if own else UndoJournal(self.journal.folder.parent / first.session)
        tree = self._new_tree()
        try:
            if not tree.restore_from(Base(orphan.folder)):
                return
            tree.also = {os.fsencode(path) for path in journal.written()}
            found = tree.sync()
            under = RunContext(first.at - CLOCK_NS, orphan.overlaps, orphan.until)
            journal_changes(tree, journal, found, under, first.turn)
            journal.was_covered((command.turn, command.command) for command in orphan.commands)
        finally:
            tree.close()

    def _git_state(self) -> dict[Path, list[int]]:
        inner = (folder for git in self._tree.inner_git() for folder in _state_folders(git))
        return {folder: _ref_mtimes(folder) for folder in (*self._git_folders, *inner)}

    def _git_changed(self) -> bool:
        """Not where a repository is new; one that is gone is named."""
        now = self._git_state()
        return any(git in now and now[git] != marks for git, marks in self._git.items())


def _ref_mtimes(git: Path) -> list[int]:
    marks = []
    for name in _GIT_REFS:
        try:
            marks.append((git / name).stat().st_mtime_ns)
        except OSError:
            marks.append(0)
    return marks


def _git_folders(root: Path) -> list[Path]:
    """Where git keeps its state about a workspace, which may be only a part of a repository."""
    return _state_folders((repository_of(root) or root) / ".git")


def _state_folders(git: Path) -> list[Path]:
    """`.git`, or where it points to: that of a submodule and of a further working tree is a file."""
    try:
        if git.is_file():
            git = git.parent / _line(git).removeprefix("gitdir: ")
        common = git / "commondir"
        return [git, git / _line(common)] if common.is_file() else [git]
    except OSError:
        return [git]


def _line(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="surrogateescape").strip()
