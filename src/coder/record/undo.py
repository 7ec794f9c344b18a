"""Turn-level undo, with or without git, across restarts (seed 001 §10, SPEC §1.1).

What every path held before and after each change of a turn is kept here, whether a file tool or the shell
made it. Undo goes back through the changes one by one. A person's later change is merged where it is about
other lines, else it is named and nothing is overwritten.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from coder.record.files import write_all, write_atomically
from coder.record.undo_merge import three_way
from coder.record.undo_state import Held, Step, digest, led_astray, path_of, state_of, take, text_of

KEPT_TURNS = 20
_MERGED_BYTES = 1 << 20  # of a file whose later state is kept too, so that a change can be merged out of it
Progress = tuple[Held, bytes | None, bool]  # what a path would hold, its bytes, and whether lines were merged


class Change(msgspec.Struct, frozen=True):
    """One line of a turn's manifest. `made`: folders that did not exist before."""

    path: str
    before: Held
    after: Held
    made: list[str] = []
    lost: bool = False  # what the path held was not kept: it can only be named


class UndoOutcome(msgspec.Struct, frozen=True):
    """What an undo or redo did, or would do, or why it did nothing: `turn` is 0 where there was nothing."""

    turn: int = 0
    restored: list[str] = []
    removed: list[str] = []
    merged: list[str] = []
    conflicts: list[str] = []
    uncovered: list[str] = []
    kept_copies: list[str] = []


class UndoJournal:
    """The undo memory of one session, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._turn = 0
        self._written: set[Path] | None = None

    def begin_turn(self, turn: int) -> None:
        self._turn = turn

    # what tools and the shell tell

    def before_change(self, path: Path, after: bytes | None, mode: int | None = None) -> None:
        """Durable before it returns: a kill between this and the change loses nothing."""
        path = Path(os.path.realpath(path.parent), path.name)
        before = self._hold(path)
        bits = mode if mode is not None else before.mode
        later = Held() if after is None else Held(self._keep(after, _MERGED_BYTES), bits)
        made = [text_of(p) for p in path.parents if not p.exists()]
        self.written().add(path)
        self.add([Change(text_of(path), before, later, made)])

    def add(self, changes: Iterable[Change]) -> None:
        """Further changes of this turn, whose contents have been kept with `keep`."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        manifest = self._manifest(self._turn)
        changes = list(changes)
        if not manifest.exists():
            self._forget_old(changes)
        fd = os.open(manifest, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            # Each begins on a line of its own, also after one that a kill has torn.
            write_all(fd, b"".join(b"\n" + _encode_change(change) + b"\n" for change in changes))
        finally:
            os.close(fd)

    def written(self) -> set[Path]:
        """The paths that tools of this session wrote; in a resumed one, all that its turns changed."""
        if self._written is None:
            self._written = set(self.pending_changes())
        return self._written

    def keep(self, content: bytes, *, only_to_merge: bool = False) -> str:
        """Keep a content under its digest, which is returned; what is only there to merge has a bound."""
        return self._keep(content, _MERGED_BYTES if only_to_merge else None)

    # taking back

    def undo(self, *, force: bool = False) -> UndoOutcome:
        """Take back the newest turn that changed files; all of it, or nothing where a file is in conflict."""
        turn = max(self._turns(), default=0)
        if not turn:
            return UndoOutcome()
        manifest = self._manifest(turn)
        outcome, back = self._go(turn, self._changes(manifest), force)
        if not outcome.conflicts:
            self._write_redo(turn, back)
            manifest.rename(manifest.with_suffix(".undone"))
        return outcome

    def undo_turns(self, count: int, *, force: bool = False) -> list[UndoOutcome]:
        """The newest `count` turns, newest first; stops at the first that cannot be taken back."""
        outcomes: list[UndoOutcome] = []
        while len(outcomes) < count and not (outcomes and outcomes[-1].conflicts):
            outcome = self.undo(force=force)
            if not outcome.turn:
                break
            outcomes.append(outcome)
        return outcomes

    def preview(self, count: int = 1) -> list[UndoOutcome]:
        """What `undo_turns(count)` would do. Where turns changed the same file, the older one is told as if
        it were alone; changes nothing."""
        found: list[UndoOutcome] = []
        for turn in sorted(self._turns(), reverse=True)[:count]:
            changes = self._changes(self._manifest(turn))
            steps, conflicts = self._steps(changes, found_above=bool(found))
            found.append(_told(turn, steps.values(), conflicts, changes))
        return found

    def redo(self, *, force: bool = False) -> UndoOutcome:
        """Do again the turn that was undone last, unless something was changed since."""
        turn = min(self._redos(), default=0)
        if not turn:
            return UndoOutcome()
        file = self._redo_file(turn)
        outcome, _ = self._go(turn, self._changes(file), force)
        if not outcome.conflicts:
            manifest = self._manifest(turn)
            manifest.with_suffix(".undone").rename(manifest)
            file.unlink()
        return outcome

    def pending_changes(self) -> list[Path]:
        """The paths that the turns which could still be undone have changed."""
        paths = {c.path: None for turn in sorted(self._turns()) for c in self._changes(self._manifest(turn))}
        return [path_of(text) for text in paths]

    # how it goes back

    def _go(self, turn: int, changes: list[Change], force: bool) -> tuple[UndoOutcome, list[Change]]:
        """Go back through these changes. Also what would bring them about again."""
        steps, conflicts = self._steps(changes, force=force)
        if conflicts and not force:
            return _told(turn, [], conflicts, changes), []
        copies = [copy for path in conflicts if path in steps and (copy := self._copy(steps[path]))]
        back = [self._kept_way_back(step) for step in steps.values() if not step.idle]
        done = take(steps.values())
        told = _told(turn, done, [], changes)
        return msgspec.structs.replace(told, kept_copies=copies), back

    def _steps(
        self, changes: list[Change], *, force: bool = False, found_above: bool = False
    ) -> tuple[dict[str, Step], list[str]]:
        """One step a path, and the paths where a person's change stands in the way."""
        steps: dict[str, Step] = {}
        conflicts = []
        for path, own in _by_path(changes).items():
            try:
                now, content = state_of(path_of(path))
            except OSError:  # closed to us: whatever it holds now, it stays
                conflicts.append(path)
                continue
            # With newer turns still to be undone, a path is where its newest change left it.
            ended = self._back(own, own[-1].after, None) if found_above else self._back(own, now, content)
            step = self._step(path, now, ended or (own[0].before, None, False))
            if ended is None or step is None:
                conflicts.append(path)
            steps[path] = step or Step(path, now, now, content)
        astray = [path for path, step in steps.items() if led_astray(step, steps)]
        if force:  # what cannot be forced is left as it is
            for path in astray:
                steps[path] = msgspec.structs.replace(steps[path], goal=steps[path].now)
            return steps, [path for path in conflicts if path not in astray]
        conflicts += [path for path in astray if path not in conflicts]
        return steps, conflicts

    def _step(self, path: str, now: Held, ended: Progress) -> Step | None:
        """None where the content that it would go back to is not there any more."""
        goal, content, merged = ended
        if goal.kind == "other":  # a pipe or a socket cannot be made again
            return Step(path, now, now)
        if content is None and goal.blob is not None:
            content = self._content(goal.blob)
            if content is None:
                return None
        return Step(path, now, goal, content or b"", merged)

    def _back(self, changes: list[Change], now: Held, content: bytes | None) -> Progress | None:
        """From what a path holds now to before the first of these changes; None where that is in conflict."""
        state, merged = now, False
        for change in reversed(changes):
            if state.same(change.after):
                kept_mode = state.mode not in (change.after.mode, 0) and change.before.kind == state.kind
                bits = state.mode if kept_mode and not change.before.nothing else change.before.mode
                state, content = Held(change.before.blob, bits, change.before.kind), None
            elif not state.same(change.before):
                result = self._merged(change, state, content)
                if result is None:
                    return None
                state, content, merged = Held(digest(result), state.mode), result, True
        return state, content, merged

    def _merged(self, change: Change, now: Held, content: bytes | None) -> bytes | None:
        sides = (change.after, now, change.before)
        if any(side.kind != "file" or side.blob is None for side in sides):
            return None
        base, theirs = (self._content(side.blob or "") for side in (change.after, change.before))
        ours = content if content is not None else self._content(now.blob or "")
        if base is None or ours is None or theirs is None or len(ours) > _MERGED_BYTES:
            return None
        return three_way(base, ours, theirs)

    def _copy(self, step: Step) -> str:
        """A forced undo replaces what a person wrote; their text is kept all the same, for good."""
        if step.now.blob is None or step.idle:
            return ""
        copy = self.folder / "kept" / step.now.blob
        copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(copy, state_of(path_of(step.path))[1])
        return str(copy)

    def _kept_way_back(self, step: Step) -> Change:
        now, content = state_of(path_of(step.path))
        if now.blob is not None:
            self._keep(content)
        if step.goal.blob is not None and not step.goal.nothing:
            self._keep(step.content)
        return Change(step.path, now, step.goal)

    # what is kept

    def _hold(self, path: Path) -> Held:
        held, content = state_of(path)
        if held.blob is not None:
            self._keep(content)
        return held

    def _keep(self, content: bytes, limit: int | None = None) -> str:
        name = digest(content)
        blob = self._blob(name)
        if (limit is None or len(content) <= limit) and not blob.exists():
            blob.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(blob, content)
        return name

    def _content(self, name: str) -> bytes | None:
        try:
            return self._blob(name).read_bytes()
        except OSError:
            return None

    def _blob(self, name: str) -> Path:
        return self.folder / "objects" / name

    def _manifest(self, turn: int) -> Path:
        return self.folder / f"turn-{turn:06d}.jsonl"

    def _redo_file(self, turn: int) -> Path:
        return self.folder / f"redo-{turn:06d}.jsonl"

    def _turns(self) -> list[int]:
        return [int(p.stem[5:]) for p in self.folder.glob("turn-*.jsonl")]

    def _redos(self) -> list[int]:
        return [int(p.stem[5:]) for p in self.folder.glob("redo-*.jsonl")]

    def _write_redo(self, turn: int, back: list[Change]) -> None:
        lines = b"".join(_encode_change(change) + b"\n" for change in back)
        write_atomically(self._redo_file(turn), lines)

    def _changes(self, manifest: Path) -> list[Change]:
        changes = []
        for line in manifest.read_bytes().splitlines():
            with contextlib.suppress(msgspec.DecodeError):  # torn by a kill: that change was never made
                changes.append(_decode_change(line))
        return changes

    def _forget_old(self, coming: list[Change]) -> None:
        """A new turn ends what could be done again. Keep the newest turns, and the contents they need."""
        stale = [self._redo_file(turn) for turn in self._redos()]
        stale += self.folder.glob("turn-*.undone")
        stale += [self._manifest(turn) for turn in sorted(self._turns())[: -(KEPT_TURNS - 1)]]
        for file in stale:
            file.unlink(missing_ok=True)
        objects = self.folder / "objects"
        if not stale or not objects.exists():
            return
        kept = [change for turn in self._turns() for change in self._changes(self._manifest(turn))]
        needed = {blob for change in (*kept, *coming) for blob in (change.before.blob, change.after.blob)}
        for blob in objects.iterdir():
            if blob.name not in needed:
                blob.unlink(missing_ok=True)


def _by_path(changes: list[Change]) -> dict[str, list[Change]]:
    found: dict[str, list[Change]] = {}
    for change in changes:
        for folder in change.made:
            found.setdefault(folder, []).append(Change(folder, Held(), Held(None, 0, "folder")))
        if not change.lost:
            found.setdefault(change.path, []).append(change)
    return found


def _told(turn: int, steps: Iterable[Step], conflicts: list[str], changes: list[Change]) -> UndoOutcome:
    aside = {*conflicts, *(folder for change in changes for folder in change.made)}
    moved = [s for s in steps if not s.idle and s.path not in aside]

    def paths(which: Callable[[Step], bool]) -> list[str]:
        return [s.path for s in moved if which(s)]

    return UndoOutcome(
        turn=turn,
        restored=paths(lambda s: not s.goal.nothing and not s.merged),
        removed=paths(lambda s: s.goal.nothing),
        merged=paths(lambda s: s.merged and not s.goal.nothing),
        conflicts=conflicts,
        uncovered=list({c.path: None for c in changes if c.lost}),
    )


def _encode_change(change: Change) -> bytes:
    # ASCII escapes carry lone surrogates, which is how a file name that is not UTF-8 survives
    from json import dumps

    return dumps(msgspec.to_builtins(change)).encode("ascii")


def _decode_change(line: bytes) -> Change:
    from json import JSONDecodeError, loads

    try:
        return msgspec.convert(loads(line), Change)
    except JSONDecodeError as error:
        raise msgspec.DecodeError(str(error)) from error
