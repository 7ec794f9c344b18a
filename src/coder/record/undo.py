"""Turn-level undo, with or without git, across restarts.

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

from coder.record.files import encode, write_all, write_atomically
from coder.record.undo_plan import MERGED_BYTES, Change, Plan, Sight, plan
from coder.record.undo_state import Held, Step, digest, path_of, state_of, take, text_of
from coder.record.undo_tidy import KEPT, forget_unused

KEPT_TURNS = 20
_RUNNING, _CUT_OFF = "running.jsonl", "cut-off.jsonl"


class UndoOutcome(msgspec.Struct, frozen=True):
    """What an undo or redo did, or would do, or why it did nothing: `turn` is 0 where there was nothing.

    `kept`: left as it is, because something else is in it by now; `kept_copies`: where a forced undo put
    what it replaced."""

    turn: int = 0
    restored: list[str] = []
    removed: list[str] = []
    merged: list[str] = []
    kept: list[str] = []
    conflicts: list[str] = []
    uncovered: list[str] = []
    kept_copies: list[str] = []


class UndoJournal:
    """The undo memory of one session, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._turn = 0
        self._written: set[Path] | None = None
        self._has_run = False  # a command, in this process

    def begin_turn(self, turn: int) -> None:
        self._turn = turn

    # what tools and the shell tell

    def before_change(self, path: Path, after: bytes | None, mode: int | None = None) -> None:
        """Durable before it returns: a kill between this and the change loses nothing. `path` is resolved."""
        before = self._hold(path)
        bits = mode if mode is not None else before.mode
        later = Held() if after is None else Held(self._keep(after, MERGED_BYTES), bits)
        made = [text_of(p) for p in path.parents if not p.exists()]
        self.written().add(path)
        self.add([Change(text_of(path), before, later, made, by_tool=True)])

    def add(self, changes: Iterable[Change]) -> None:
        """Further changes of this turn, whose contents have been kept with `keep`."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        manifest = self._manifest(self._turn)
        changes = list(changes)
        if not manifest.exists():
            self._forget_old(changes)
            forget_unused(self.folder.parent, self.folder.name)
        # Each begins on a line of its own, also after one that a kill has torn.
        lines = (b"\n" + _encode_change(change) + b"\n" for change in changes)
        self._append(manifest.name, b"".join(lines))
        os.utime(self.folder)  # tells other sessions that there is something new in it

    def command_begins(self, command: str) -> None:
        """Kept until `commands_ended`: what a later process finds there was cut off. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        running = self.folder / _RUNNING
        if not self._has_run and running.exists():
            self._append(_CUT_OFF, running.read_bytes())
            running.unlink()
        self._has_run = True
        self._append(_RUNNING, encode([self._turn, command]) + b"\n")

    def commands_ended(self) -> None:
        (self.folder / _RUNNING).unlink(missing_ok=True)

    def cut_off(self) -> list[tuple[int, str]]:
        """Turns and commands that a kill ended: nobody looked at what they had changed by then."""
        found: list[tuple[int, str]] = []
        for name in (_CUT_OFF, _RUNNING):
            with contextlib.suppress(OSError):
                for line in (self.folder / name).read_bytes().splitlines():
                    with contextlib.suppress(msgspec.DecodeError):  # torn
                        found.append(msgspec.json.decode(line, type=tuple[int, str]))
        return found

    def _append(self, name: str, data: bytes) -> None:
        fd = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            write_all(fd, data)
        finally:
            os.close(fd)

    def written(self) -> set[Path]:
        """The paths that tools of this session wrote; in a resumed one, all that its turns changed."""
        if self._written is None:
            self._written = set(self.pending_changes())
        return self._written

    def written_by_others(self, since: int) -> dict[str, Held]:
        """What file tools of other sessions have made of paths since then (nanoseconds)."""
        found: dict[str, Held] = {}
        with contextlib.suppress(OSError), os.scandir(self.folder.parent) as folders:
            for entry in folders:
                if entry.name == self.folder.name or entry.stat().st_mtime_ns < since:
                    continue
                newest = max(Path(entry.path).glob("turn-*.jsonl"), default=None)
                changes = self._changes(newest) if newest else []
                found |= {change.path: change.after for change in changes if change.by_tool}
        return found

    def keep(self, content: bytes, *, only_to_merge: bool = False) -> str:
        """Keep a content under its digest, which is returned; what is only there to merge has a bound."""
        return self._keep(content, MERGED_BYTES if only_to_merge else None)

    # taking back

    def undo(self, *, force: bool = False) -> UndoOutcome:
        """Take back the newest turn that changed files; all of it, or nothing where a file is in conflict."""
        turn = max(self._turns(), default=0)
        if not turn:
            return UndoOutcome()
        manifest = self._manifest(turn)
        outcome = self._go(turn, self._changes(manifest), force, self._write_redo)
        if not outcome.conflicts:
            manifest.rename(manifest.with_suffix(".undone"))
        return outcome

    def undo_turns(self, count: int, *, force: bool = False) -> list[UndoOutcome]:
        """The newest `count` turns, newest first; stops at the first that cannot be taken back."""
        return _up_to_a_conflict(count, lambda: self.undo(force=force))

    def preview(self, count: int = 1, *, force: bool = False) -> list[UndoOutcome]:
        """What `undo_turns` would do; changes nothing."""
        sight = Sight()
        waiting = sorted(self._turns())

        def imagined() -> UndoOutcome:
            if not waiting:
                return UndoOutcome()
            turn = waiting.pop()
            changes = self._changes(self._manifest(turn))
            found = plan(changes, sight, self._content, force=force)
            sight.imagine(found.steps.values())
            return _told(turn, found, changes, force=force)

        return _up_to_a_conflict(count, imagined)

    def redo(self, *, force: bool = False) -> UndoOutcome:
        """Do again the turn that was undone last, unless something was changed since."""
        turn = min(self._redos(), default=0)
        if not turn:
            return UndoOutcome()
        file, manifest = self._redo_file(turn), self._manifest(turn)
        outcome = self._go(turn, self._changes(file), force, lambda _turn, _back: None)
        if not outcome.conflicts:
            manifest.with_suffix(".undone").rename(manifest)
            file.unlink()
        return outcome

    def redo_turns(self, count: int, *, force: bool = False) -> list[UndoOutcome]:
        """The `count` turns that were undone last, in the order in which they once were made."""
        return _up_to_a_conflict(count, lambda: self.redo(force=force))

    def pending_changes(self) -> list[Path]:
        """The paths that the turns which could still be undone have changed."""
        paths = {c.path: None for turn in sorted(self._turns()) for c in self._changes(self._manifest(turn))}
        return [path_of(text) for text in paths]

    # how it goes back

    def _go(
        self,
        turn: int,
        changes: list[Change],
        force: bool,
        keep_way_back: Callable[[int, list[Change]], None],
    ) -> UndoOutcome:
        """Go back through these changes. What would bring them about again is kept before the first is made:
        whoever is cut off in between can go on from either side."""
        found = plan(changes, Sight(), self._content, force=force)
        if found.conflicts and not force:
            return _told(turn, found, changes, force=False)
        copies = [
            copy
            for path in found.conflicts
            if path in found.steps and (copy := self._copy(found.steps[path]))
        ]
        keep_way_back(turn, [self._kept_way_back(step) for step in found.steps.values() if not step.idle])
        take(found.steps.values())
        return msgspec.structs.replace(_told(turn, found, changes, force=force), kept_copies=copies)

    def _copy(self, step: Step) -> str:
        """A forced undo replaces what a person wrote; their text is kept all the same, for good."""
        if step.now.blob is None or step.idle:
            return ""
        copy = self.folder / KEPT / step.now.blob
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
        """Those that were undone to the end."""
        undone = {int(p.stem[5:]) for p in self.folder.glob("turn-*.undone")}
        return [turn for p in self.folder.glob("redo-*.jsonl") if (turn := int(p.stem[5:])) in undone]

    def _write_redo(self, turn: int, back: list[Change]) -> None:
        file = self._redo_file(turn)
        anew = {change.path for change in back}
        # An undo that was cut off has already put some paths back; their way is only known from then.
        begun = [c for c in self._changes(file) if c.path not in anew] if file.exists() else []
        write_atomically(file, b"".join(_encode_change(change) + b"\n" for change in (*begun, *back)))

    def _changes(self, manifest: Path) -> list[Change]:
        changes = []
        for line in manifest.read_bytes().splitlines():
            with contextlib.suppress(msgspec.DecodeError):  # torn by a kill: that change was never made
                changes.append(_decode_change(line))
        return changes

    def _forget_old(self, coming: list[Change]) -> None:
        """A new turn ends what could be done again. Keep the newest turns, and the contents they need."""
        stale = [*self.folder.glob("redo-*.jsonl"), *self.folder.glob("turn-*.undone")]
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


def _up_to_a_conflict(count: int, one: Callable[[], UndoOutcome]) -> list[UndoOutcome]:
    outcomes: list[UndoOutcome] = []
    while len(outcomes) < count and not (outcomes and outcomes[-1].conflicts):
        outcome = one()
        if not outcome.turn:
            break
        outcomes.append(outcome)
    return outcomes


def _told(turn: int, found: Plan, changes: list[Change], *, force: bool) -> UndoOutcome:
    """With conflicts and without force nothing is done, and that is what is told."""
    uncovered = list({c.path: None for c in changes if c.lost})
    if found.conflicts and not force:
        return UndoOutcome(turn=turn, conflicts=found.conflicts, uncovered=uncovered)
    made = {folder for change in changes for folder in change.made}
    moved = [s for s in found.steps.values() if not s.idle and s.path not in made]

    def paths(which: Callable[[Step], bool]) -> list[str]:
        return [s.path for s in moved if which(s)]

    return UndoOutcome(
        turn=turn,
        restored=paths(lambda s: not s.goal.nothing and not s.merged),
        removed=paths(lambda s: s.goal.nothing),
        merged=paths(lambda s: s.merged and not s.goal.nothing),
        kept=found.kept,
        uncovered=uncovered,
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
