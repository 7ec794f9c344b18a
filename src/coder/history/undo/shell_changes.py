"""Undo for shell commands: scan the tree before and after, and journal the difference.

Covers the workspace: contents, permission bits, symlinks, directories, creation and deletion. Does not cover
`.git`, ignored files that no tool wrote, files beyond the limits, or anything outside; these are named. What
a person changes while a command runs counts as the command's; what another session's file tool writes does
not. A change made while commands of two sessions run is a conflict: undo asks for force.

The state before is on disk when a command begins, so one killed together with its session is recovered by the
next session that runs a command here or undoes it.
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

from coder.base.safe_open import read_whole, repository_of
from coder.history.tree.index import Base
from coder.history.tree.scan import TreeLimits, WorkspaceTree
from coder.history.undo.command_changes import RunContext, journal_changes
from coder.history.undo.journal import UndoJournal
from coder.history.undo.running_commands import Orphan, RunningCommands

_HARD_LINKING = ("ln ", "link", "cp -", "rsync")  # may create hard links, which inotify does not report
_GIT_REFS = ("HEAD", "logs/HEAD", "packed-refs", "refs/heads", "refs/stash")


class ShellChanges(msgspec.Struct, frozen=True):
    """What a command changed. `git`: commits, branches or stashes, which undo leaves alone."""

    changed: list[str] = []
    uncovered: list[str] = []
    partial: bool = False
    git: bool = False


class _StartTime:
    """A start time that follows a clock set back since."""

    def __init__(self) -> None:
        self._wall, self._steady = time.time_ns(), time.monotonic_ns()

    def since(self) -> int:
        set_back = (time.time_ns() - self._wall) - (time.monotonic_ns() - self._steady)
        return self._wall + min(0, set_back)


class ShellUndo:
    """Undo of one session's commands. Only the first scan reads the whole tree."""

    def __init__(
        self,
        workspace: Path,
        home: Path,
        journal: UndoJournal,
        limits: TreeLimits | None = None,
        excluded: Sequence[Path] = (),
    ) -> None:
        """`home` is $CODER_HOME, where contents are kept."""
        self._root = Path(os.path.realpath(workspace))
        name = blake2b(os.fsencode(self._root), digest_size=10).hexdigest()
        self.journal = journal
        self._directory = home / "trees" / name
        self._limits = limits or TreeLimits()
        own = [self._root / ".coder" / "history", self._root / ".coder" / "sessions"]
        self._excluded = [*own, home, *excluded]
        self._tree = self._new_tree()
        self._commands = RunningCommands(self._directory / "open", journal.directory.name)
        self._base = Base(self._commands.directory)
        self._git_directories = _git_directories(self._root)
        self._git: dict[Path, list[int]] = {}
        self._check_hard_links = False
        self._running = 0  # commands of subagents run concurrently
        self._clock = _StartTime()
        self._lock = threading.Lock()  # scans run in threads

    def _new_tree(self) -> WorkspaceTree:
        return WorkspaceTree(self._root, self._directory, self._limits, self._excluded)

    def before(self, command: str = "") -> None:
        """Call before a command that may write, then `after` or `not_run`. Never raises."""
        with self._lock:
            if not self._running:
                self._clock = _StartTime()
            self._recover_orphans(self._commands.open(self.journal.turn, command))
            self._tree.also = {os.fsencode(path) for path in self.journal.written()}
            self._tree.shared = self._commands.others
            linking = any(word in command for word in _HARD_LINKING)
            self._check_hard_links = linking or (self._check_hard_links and self._running > 0)
            found = self._tree.sync(check_hard_links=self._check_hard_links)
            with contextlib.suppress(OSError):
                if self._running:  # changes so far belong to the running command
                    journal_changes(self._tree, self.journal, found, self._run_context())
                else:
                    self._git = self._git_state()
                self.journal.command_begins(command)
                self._tree.save_base(self._base)
                self._commands.base_saved()
            self._running += 1

    def not_run(self) -> None:
        """The command that `before` announced was not run."""
        with self._lock:
            self._command_ended(journalled=True)

    def _command_ended(self, *, journalled: bool) -> None:
        self._running -= 1
        if not self._running:
            self._commands.close(journalled=journalled)
            with contextlib.suppress(OSError):
                self.journal.commands_ended(journalled=journalled)

    def after(self) -> ShellChanges:
        """Call after the command, however it ended. Journals what it changed. Raises OSError."""
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
        """Git directories below the workspace's root, as of the last scan."""
        return [os.fsdecode(path) for path in self._tree.repositories()]

    def recover(self) -> None:
        """Journal what commands changed that were killed with their sessions. Never raises."""
        with self._lock:
            self._recover_orphans(self._commands.orphans())

    def close(self) -> None:
        with self._lock:
            self._tree.close()
            self._commands.unregister()

    def _run_context(self) -> RunContext:
        return RunContext(self._clock.since(), self._commands.beside_another())

    def _recover_orphans(self, orphans: list[Orphan]) -> None:
        for orphan in orphans:
            try:
                if orphan.base_saved:
                    self._recover_orphan(orphan)
                orphan.discard()
            except OSError:  # disk full: leave it to the next session
                orphan.release()

    def _recover_orphan(self, orphan: Orphan) -> None:
        """Journal its changes in the journal of the killed session."""
        first = orphan.commands[0]
        own = first.session == self.journal.directory.name
        journal = self.journal if own else UndoJournal(self.journal.directory.parent / first.session)
        tree = self._new_tree()
        try:
            if not tree.restore_from(Base(orphan.directory)):
                return
            tree.also = {os.fsencode(path) for path in journal.written()}
            found = tree.sync()
            beside = first.beside or self._running > 0 or self._commands.beside_another()
            journal_changes(tree, journal, found, RunContext(first.at, beside, orphan.until, first.turn))
            journal.was_covered((command.turn, command.command) for command in orphan.commands)
        finally:
            tree.close()

    def _git_state(self) -> dict[Path, list[int]]:
        inner = (directory for git in self._tree.inner_git() for directory in _state_directories(git))
        return {directory: _ref_mtimes(directory) for directory in (*self._git_directories, *inner)}

    def _git_changed(self) -> bool:
        """Ignores new repositories; deleted ones are reported as uncovered."""
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


def _git_directories(root: Path) -> list[Path]:
    """Git directories of the repository that contains the workspace."""
    return _state_directories((repository_of(root) or root) / ".git")


def _state_directories(git: Path) -> list[Path]:
    """`.git`, or its target: in submodules and worktrees it is a file."""
    try:
        if git.is_file():
            git = git.parent / _line(git).removeprefix("gitdir: ")
        common = git / "commondir"
        return [git, git / _line(common)] if common.is_file() else [git]
    except OSError:
        return [git]


_LONGEST_LINE = 65_536  # bytes of a pointer file


def _line(file: Path) -> str:
    return os.fsdecode(read_whole(file, _LONGEST_LINE)).strip()
