"""Turn-level undo, with or without git, across restarts.

A write-ahead journal keeps the state of every path before and after each change of a turn, made by a file
tool or the shell. A person's later edit of other lines is merged; otherwise it is a conflict and nothing is
overwritten.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING

import msgspec

from coder.base.files import lock_directories, make_private, write_atomically
from coder.base.safe_open import parent_of, read_at, scan_directory
from coder.history.sinks import encode
from coder.history.undo.apply_steps import PathState, PathStep, apply_steps, decoded_path, path_state, text_of
from coder.history.undo.journal_files import KEPT_TURNS, MOVES, REDOING, REVIEWS, UNDOING, JournalFiles
from coder.history.undo.plan import (
    MERGED_BYTES,
    JournalChange,
    PlannedTree,
    UndoPlan,
    by_path,
    plan_undo,
    reverted_since,
)

if TYPE_CHECKING:
    from coder.history.undo.review_hunks import FileHunks, Places


UNUSED_SECONDS = 30 * 86_400
KEPT = "kept"
_TEMPORARY = re.compile(r"\.coder-.{12}\.tmp")


def forget_unused(directory: Path, own: str) -> None:
    """Empty stale directories in `directory`, except `own`. Ignores errors: another process may do it too."""
    oldest = time.time() - UNUSED_SECONDS
    with contextlib.suppress(OSError), os.scandir(directory) as found:
        stale = [entry.path for entry in found if entry.name != own and entry.stat().st_mtime < oldest]
        for path in stale:
            _empty(Path(path))


def _empty(directory: Path) -> None:
    if directory.is_symlink() or not directory.is_dir():
        return
    for child in list(directory.iterdir()):
        if child.is_dir() and not child.is_symlink():
            if child.name != KEPT:
                rmtree(child, ignore_errors=True)
        else:
            child.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not empty: copies are kept in it
        directory.rmdir()


def remove_leftovers(moves: Iterable[JournalChange], content: Callable[[str], bytes | None]) -> None:
    """Remove temporary files of an undo that was killed: those that hold a prefix of what it was to write."""
    directories: dict[Path, list[JournalChange]] = {}
    for move in moves:
        directories.setdefault(decoded_path(move.path).parent, []).append(move)
    for directory, own in directories.items():
        found = _temporary_files(directory)
        if not found:
            continue
        blobs = {held.blob for move in own for held in (move.before, move.after) if held.blob}
        contents = [known for blob in blobs if (known := content(blob)) is not None]
        with lock_directories(found):
            for path in found:
                _remove_if_partial(path, contents)


def _temporary_files(directory: Path) -> list[Path]:
    try:
        with scan_directory(directory) as (found, _):
            return [directory / entry.name for entry in found if _TEMPORARY.fullmatch(entry.name)]
    except OSError:
        return []


def _remove_if_partial(path: Path, contents: list[bytes]) -> None:
    with contextlib.suppress(OSError), parent_of(path) as directory:
        if stat.S_ISLNK(os.stat(path.name, dir_fd=directory, follow_symlinks=False).st_mode):
            begun = os.fsencode(os.readlink(path.name, dir_fd=directory))
        else:
            begun = read_at(path.name, directory) or b""
        if any(content.startswith(begun) for content in contents):
            os.unlink(path.name, dir_fd=directory)


__all__ = ["KEPT_TURNS", "REVIEWS", "UndoJournal", "UndoOutcome"]
_UNKNOWN = b"\0not kept"  # compared by identity
_RUNNING, _CUT_OFF = "running.jsonl", "cut-off.jsonl"


class UndoOutcome(msgspec.Struct, frozen=True):
    """What an undo or redo did or would do; `turn` is 0 if there was nothing to do, and from `REVIEWS` on
    where hunks were taken back or done again. Nothing was done because of `conflicts` (changed since) and
    `shared` (another session was running a command). `kept`: directories that are not empty. `kept_copies`:
    what a forced undo replaced."""

    turn: int = 0
    restored: list[str] = []
    removed: list[str] = []
    merged: list[str] = []
    kept: list[str] = []
    conflicts: list[str] = []
    uncovered: list[str] = []
    kept_copies: list[str] = []
    shared: list[str] = []

    @property
    def refused(self) -> bool:
        """Nothing was changed because of conflicts, and nothing will be without force."""
        return bool(self.conflicts or self.shared)


class _Task(msgspec.Struct, frozen=True):
    """Changes to revert; `name`: progress file; `begun`, `drops`: interrupted run to continue or revert."""

    turn: int
    changes: list[JournalChange]
    name: str = ""
    begun: list[JournalChange] = []
    drops: str = ""


class UndoJournal:
    """The undo journal of one session, in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.files = JournalFiles(directory)
        self.lock = threading.RLock()  # scans run in threads
        self._turn = 0
        self._written: set[Path] | None = None
        self._has_run = False  # this process has run a command

    @property
    def turn(self) -> int:
        return self._turn

    def begin_turn(self, turn: int) -> None:
        self._turn = turn

    # recording

    def before_change(self, path: Path, after: bytes | None, mode: int | None = None) -> None:
        """Write ahead: durable before the change is made. `path` is resolved."""
        with self.lock:
            before = self._keep_current(path)
            bits = mode if mode is not None else before.mode
            later = PathState() if after is None else PathState(self.files.keep(after, MERGED_BYTES), bits)
            made = [text_of(p) for p in path.parents if not p.exists()]
            self.written().add(path)
            self.add([JournalChange(text_of(path), before, later, made, by_tool=True)])

    def add(self, changes: Iterable[JournalChange], turn: int = 0, at: int | None = None) -> None:
        """Append changes of this turn (or of `turn`) whose contents were stored with `keep`."""
        now = time.time_ns() if at is None else at
        changes = [msgspec.structs.replace(change, at=now) for change in changes]
        with self.lock:
            make_private(self.directory)
            manifest = self.files.turn(turn or self._turn)
            if not manifest.exists():
                self.files.forget_old(changes)
                forget_unused(self.directory.parent, self.directory.name)
            self.files.add_changes(manifest.name, changes)

    def command_begins(self, command: str) -> None:
        """Recorded until `commands_ended`: a later process finds it if this one is killed. Raises OSError."""
        make_private(self.directory)
        running = self.directory / _RUNNING
        if not self._has_run and running.exists():
            self.files.append(_CUT_OFF, running.read_bytes())
            running.unlink()
        self._has_run = True
        self.files.append(_RUNNING, encode([self._turn, command]) + b"\n")

    def commands_ended(self, *, journalled: bool = True) -> None:
        """Commands that could not be journalled count as interrupted. Raises OSError."""
        running = self.directory / _RUNNING
        if not journalled and running.exists():
            if not (self.directory / _CUT_OFF).exists():  # a rename works on a full disk
                running.rename(self.directory / _CUT_OFF)
                return
            self.files.append(_CUT_OFF, running.read_bytes())
        running.unlink(missing_ok=True)

    def was_covered(self, commands: Iterable[tuple[int, str]]) -> None:
        """The changes of these interrupted commands have been recovered."""
        found = set(commands)
        left = [one for one in self.cut_off() if one not in found]
        for name in (_CUT_OFF, _RUNNING):
            (self.directory / name).unlink(missing_ok=True)
        if left:
            self.files.append(_CUT_OFF, b"".join(encode(one) + b"\n" for one in left))

    def cut_off(self) -> list[tuple[int, str]]:
        """Turn and command line of interrupted commands whose changes are unknown."""
        found: list[tuple[int, str]] = []
        for name in (_CUT_OFF, _RUNNING):
            with contextlib.suppress(OSError):
                for line in (self.directory / name).read_bytes().splitlines():
                    with contextlib.suppress(msgspec.DecodeError):  # torn
                        found.append(msgspec.json.decode(line, type=tuple[int, str]))
        return found

    def written(self) -> set[Path]:
        """Paths written by this session's tools; after a resume, all that its turns changed."""
        if self._written is None:
            self._written = set(self.pending_changes())
        return self._written

    def keep(self, content: bytes, *, only_to_merge: bool = False) -> str:
        """Store a content and return its digest. `only_to_merge`: skip it if it is too large to merge."""
        return self.files.keep(content, MERGED_BYTES if only_to_merge else None)

    # undo and redo

    def undo(self, *, force: bool = False, since: int = 0) -> UndoOutcome:
        """Undo the newest turn that changed files; nothing if a file is in conflict, unless `force`."""
        self._recover_interrupted()
        task = next(self._to_undo(since), None)
        return self._run(task, force) if task else UndoOutcome()

    def undo_turns(self, count: int, *, force: bool = False) -> list[UndoOutcome]:
        """Undo `count` turns, newest first; stops at the first that is refused."""
        return _repeat_until_refused(count, lambda: self.undo(force=force))

    def undo_since(self, turn: int, *, force: bool = False) -> list[UndoOutcome]:
        """Undo this turn and all later ones, after what was interrupted."""
        most = sum(1 for _ in self._to_undo(turn))
        return _repeat_until_refused(most, lambda: self.undo(force=force, since=turn))

    def undo_turn(self, turn: int, *, force: bool = False) -> list[UndoOutcome]:
        """Undo this turn alone, merging with later changes or refusing. Empty without changes to undo."""
        self._recover_interrupted()
        return [self._run(task, force) for task in self._alone(turn)]

    def preview_turn(self, turn: int, *, force: bool = False) -> list[UndoOutcome]:
        """Dry run of `undo_turn`."""
        self._recover_interrupted()
        return [_outcome(t, self._plan(t, PlannedTree(), force), force=force) for t in self._alone(turn)]

    def hunks(self, turn: int, shown: Callable[[Path], str]) -> tuple[list[FileHunks], list[Path]]:
        """The hunks of the turn (0: of the session), and the paths that have none."""
        from coder.history.undo.review_hunks import file_hunks

        self._recover_interrupted()
        turns = [one for one in self.files.turns() if turn in (0, one)]
        changes = [change for one in turns for change in self.files.changes(self.files.turn(one))]
        made = {directory for change in changes for directory in change.made}
        files: list[FileHunks] = []
        left = [decoded_path(change.path) for change in changes if change.lost]
        for path, own in by_path(changes).items():
            pair = self._kept(own[0].before), self._kept(own[-1].after)
            if path in made or own[0].before.same(own[-1].after):
                continue
            if any(side is _UNKNOWN for side in pair):
                left.append(decoded_path(path))
            elif found := file_hunks(path, own, *pair, shown(decoded_path(path))):
                files.append(found)
        return files, list(dict.fromkeys(left))

    def take_back(self, parts: Iterable[tuple[FileHunks, Places]]) -> UndoOutcome:
        """Take these hunks back, unless a file is in conflict. Redo puts them back."""
        with self.lock:
            self._recover_interrupted()
            changes: list[JournalChange] = []
            conflicts: list[str] = []
            for file, places in parts:
                now, held = path_state(decoded_path(file.path))
                goal = file.goal(places, now, held)
                if goal is None:
                    conflicts.append(file.path)
                    continue
                for state, content in ((now, held), goal):
                    if not state.absent:
                        self.files.keep(content)
                changes.append(
                    JournalChange(file.path, goal[0], now, file.made, by_tool=True, at=time.time_ns())
                )
            number = self.files.next_review()
            if conflicts:
                return UndoOutcome(turn=number, conflicts=conflicts)
            self.files.write_changes(self.files.turn(number), changes)
            return self._run(_Task(number, changes, UNDOING), force=False)

    def _alone(self, turn: int) -> list[_Task]:
        if turn not in self.files.turns():
            return []
        changes = self.files.changes(self.files.turn(turn))
        later = [
            change
            for other in self.files.turns()
            if other > turn
            for change in self.files.changes(self.files.turn(other))
        ]
        gone = reverted_since(changes, later)
        begun = self.files.begun(UNDOING).get(turn, [])
        return [_Task(turn, [change for change in changes if change.path not in gone], UNDOING, begun)]

    def preview(self, count: int = 1, *, force: bool = False) -> list[UndoOutcome]:
        """Dry run of `undo_turns`."""
        return self._preview(count, force)

    def preview_since(self, turn: int, *, force: bool = False) -> list[UndoOutcome]:
        """Dry run of `undo_since`."""
        return self._preview(sum(1 for _ in self._to_undo(turn)), force, turn)

    def _preview(self, count: int, force: bool, since: int = 0) -> list[UndoOutcome]:
        self._recover_interrupted()
        tree = PlannedTree()
        waiting = self._to_undo(since)

        def plan_next() -> UndoOutcome:
            task = next(waiting, None)
            if task is None:
                return UndoOutcome()
            found = self._plan(task, tree, force)
            tree.apply(found.steps.values())
            return _outcome(task, found, force=force)

        return _repeat_until_refused(count, plan_next)

    def redo(self, *, force: bool = False) -> UndoOutcome:
        """Redo the turn that was undone last, unless files were changed since."""
        self._recover_interrupted()
        for turn, moves in self.files.begun(UNDOING).items():
            return self._run(_Task(turn, moves, begun=moves, drops=UNDOING), force)
        turn = next(iter(self.files.redos()), 0)
        if not turn:
            return UndoOutcome()
        begun = self.files.begun(REDOING).get(turn, [])
        outcome = self._run(_Task(turn, self.files.changes(self.files.redo(turn)), REDOING, begun), force)
        self.files.settle()
        return outcome

    def redo_turns(self, count: int, *, force: bool = False) -> list[UndoOutcome]:
        """Redo `count` turns, the one undone last first."""
        return _repeat_until_refused(count, lambda: self.redo(force=force))

    def turns(self) -> list[int]:
        """Turns that can be undone."""
        return self.files.turns()

    def contents_of(self, turn: int) -> dict[Path, tuple[bytes | None, bytes | None] | None]:
        """Each file before and after the turn (None: absent); no pair where the contents are unknown."""
        found: dict[Path, tuple[bytes | None, bytes | None] | None] = {}
        changes = self.files.changes(self.files.turn(turn)) if turn in self.files.turns() else []
        for text, own in by_path(changes).items():
            before, after = own[0].before, own[-1].after
            if "folder" not in (before.kind, after.kind):
                pair = self._kept(before), self._kept(after)
                found[decoded_path(text)] = None if any(side is _UNKNOWN for side in pair) else pair
        found |= {decoded_path(change.path): None for change in changes if change.lost}
        return found

    def pending_changes(self) -> list[Path]:
        """Paths changed by turns that can be undone."""
        files = [self.files.turn(turn) for turn in self.files.turns()]
        return [
            decoded_path(text) for text in {c.path: None for file in files for c in self.files.changes(file)}
        ]

    def contents_before(self) -> dict[Path, bytes | None]:
        """Known contents of each file before the session first changed it (None: absent)."""
        first: dict[str, JournalChange] = {}
        undone = {turn: self.files.undone(turn) for turn in self.files.redos()}
        for _, file in sorted({**undone, **{turn: self.files.turn(turn) for turn in self.turns()}}.items()):
            for change in self.files.changes(file):
                first.setdefault(change.path, change)
        kept = {decoded_path(text): self._kept(one.before) for text, one in first.items() if not one.lost}
        return {path: content for path, content in kept.items() if content is not _UNKNOWN}

    def _kept(self, state: PathState) -> bytes | None:
        """The content of a file, None if it is absent."""
        if state.absent:
            return None
        kept = self.files.content(state.blob) if state.blob and state.kind == "file" else None
        return _UNKNOWN if kept is None else kept

    def _to_undo(self, since: int = 0) -> Iterator[_Task]:
        """First what was interrupted, then turn by turn, back to the turn `since`."""
        for turn, moves in self.files.begun(REDOING).items():
            yield _Task(turn, moves, begun=moves, drops=REDOING)
        begun = self.files.begun(UNDOING)
        turns = [*self.files.turns(), *(turn for turn in begun if turn >= REVIEWS)]
        for turn in sorted(turns, key=lambda turn: (turn in begun, turn), reverse=True):
            if turn in begun and turn < REVIEWS:  # it may have been undone alone, before later turns
                yield from self._alone(turn)
            elif turn >= since:
                yield _Task(turn, self.files.changes(self.files.turn(turn)), UNDOING, begun.get(turn, []))

    def _recover_interrupted(self) -> None:
        """Clean up after a kill."""
        self.files.settle()
        for name in (UNDOING, REDOING):
            for moves in self.files.begun(name).values():
                remove_leftovers(moves, self.files.content)

    # running a task

    def _run(self, task: _Task, force: bool) -> UndoOutcome:
        """Revert these changes, written ahead: an interrupted run can be completed or reverted."""
        found = self._plan(task, PlannedTree(), force)
        outcome = _outcome(task, found, force=force)
        if outcome.refused and not force:
            return outcome
        replaced = dict.fromkeys([*found.conflicts, *found.shared])
        copies = [c for path in replaced if path in found.steps and (c := self._copy(found.steps[path]))]
        moves = [self._move(step) for step in found.steps.values() if not step.is_noop]
        if task.name:
            self.files.begin(task.name, task.turn, moves)
        self.files.add_changes(MOVES, moves)
        applied = {step.path for step in apply_steps(found.steps.values())}
        if task.drops:
            self.files.drop(task.drops, task.turn)
        elif task.name:
            self.files.end(task.name, task.turn)
        stayed = [path for path in outcome.removed if path not in applied]  # no longer empty
        removed = [path for path in outcome.removed if path in applied]
        return msgspec.structs.replace(
            outcome, removed=removed, kept=[*outcome.kept, *stayed], kept_copies=copies
        )

    def _plan(self, task: _Task, tree: PlannedTree, force: bool) -> UndoPlan:
        resuming = not task.drops
        return plan_undo(
            task.changes, tree, self.files.content, force=force, begun=task.begun, resuming=resuming
        )

    def _copy(self, step: PathStep) -> str:
        """Back up what a forced undo replaces; never deleted."""
        if step.now.blob is None or step.is_noop:
            return ""
        copy = self.directory / KEPT / step.now.blob
        make_private(copy.parent)
        write_atomically(copy, path_state(decoded_path(step.path))[1])
        return str(copy)

    def _move(self, step: PathStep) -> JournalChange:
        now, content = path_state(decoded_path(step.path))
        if now.blob is not None:
            self.files.keep(content)
        if step.goal.blob is not None and not step.goal.absent:
            self.files.keep(step.content)
        return JournalChange(step.path, now, step.goal, by_tool=True, at=time.time_ns())

    def _keep_current(self, path: Path) -> PathState:
        held, content = path_state(path)
        if held.blob is not None:
            self.files.keep(content)
        return held


def _repeat_until_refused(count: int, one: Callable[[], UndoOutcome]) -> list[UndoOutcome]:
    outcomes: list[UndoOutcome] = []
    while len(outcomes) < count and not (outcomes and outcomes[-1].refused):
        outcome = one()
        if not outcome.turn:
            break
        outcomes.append(outcome)
    return outcomes


def _outcome(task: _Task, found: UndoPlan, *, force: bool) -> UndoOutcome:
    """Conflicts without `force` mean that nothing was done."""
    uncovered = list({c.path: None for c in task.changes if c.lost})
    if (found.conflicts or found.shared) and not force:
        return UndoOutcome(
            turn=task.turn, conflicts=found.conflicts, uncovered=uncovered, shared=found.shared
        )
    made = {directory for change in task.changes for directory in change.made}
    moved = [s for s in found.steps.values() if not s.is_noop and s.path not in made]

    def paths(which: Callable[[PathStep], bool]) -> list[str]:
        return [s.path for s in moved if which(s)]

    return UndoOutcome(
        turn=task.turn,
        restored=paths(lambda s: not s.goal.absent and not s.merged),
        removed=paths(lambda s: s.goal.absent),
        merged=paths(lambda s: s.merged and not s.goal.absent),
        kept=found.kept,
        uncovered=uncovered,
    )
