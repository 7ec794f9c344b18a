"""The files of one session's undo journal; their names are the state machine of an undo or redo.

    turn-N.jsonl      the changes of a turn that can be undone
    turn-N.undone     those of one that was undone
    redo-N.jsonl      what that undo did to each path: doing it again leads back; its mtime is the undo's
    undoing-N.jsonl   the same for an undo in progress or interrupted
    redoing-N.jsonl   the moves of a redo in progress
    moves.jsonl       recent changes of undo, redo and forgotten turns, for other sessions whose command may
                      still be running
    objects/          contents by their digests

From `REVIEWS` on the number is that of a review: hunks that were taken back, which can be done again.

A single rename commits: it makes a turn undone or redone.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from coder.base.files import make_private, write_all, write_atomically
from coder.history.undo.apply_steps import content_digest
from coder.history.undo.plan import JournalChange, is_intermediate

KEPT_TURNS = 20
REVIEWS = 900_000
MOVES = "moves.jsonl"
_RECENT_NS = 86_400_000_000_000  # commands of other sessions are assumed to end within this
_MAX_RECENT = 50_000
UNDOING, REDOING, _REDO = "undoing", "redoing", "redo"


class JournalFiles:
    """The journal in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    # contents

    def keep(self, content: bytes, limit: int | None = None) -> str:
        """Store a content unless it is longer than `limit`; returns its digest."""
        name = content_digest(content)
        blob = self.directory / "objects" / name
        if (limit is None or len(content) <= limit) and not blob.exists():
            make_private(blob.parent)
            write_atomically(blob, content)
        return name

    def content(self, name: str) -> bytes | None:
        try:
            return (self.directory / "objects" / name).read_bytes()
        except OSError:
            return None

    # changes

    def turn(self, turn: int) -> Path:
        return self.directory / f"turn-{turn:06d}.jsonl"

    def undone(self, turn: int) -> Path:
        return self.directory / f"turn-{turn:06d}.undone"

    def redo(self, turn: int) -> Path:
        return self._progress_file(_REDO, turn)

    def _progress_file(self, name: str, turn: int) -> Path:
        return self.directory / f"{name}-{turn:06d}.jsonl"

    def changes(self, file: Path) -> list[JournalChange]:
        changes = []
        for line in file.read_bytes().splitlines():
            with contextlib.suppress(msgspec.DecodeError):  # torn by a kill, before the change was made
                changes.append(_decode_change(line))
        return changes

    def append(self, name: str, data: bytes) -> None:
        fd = os.open(self.directory / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            write_all(fd, data)
        finally:
            os.close(fd)

    def add_changes(self, name: str, changes: Iterable[JournalChange]) -> None:
        # A newline first: the last line may be torn.
        self.append(name, b"".join(b"\n" + _encode_change(change) + b"\n" for change in changes))
        os.utime(self.directory)  # other sessions look at the directory's mtime

    def write_changes(self, file: Path, changes: Iterable[JournalChange]) -> None:
        write_atomically(file, b"".join(_encode_change(change) + b"\n" for change in changes))

    # progress

    def turns(self) -> list[int]:
        return [number for number in self._numbers() if number < REVIEWS]

    def _numbers(self) -> list[int]:
        return sorted(_number(path) for path in self.directory.glob("turn-*.jsonl"))

    def next_review(self) -> int:
        return max([REVIEWS, *(_number(path) + 1 for path in self.directory.glob("turn-9*"))])

    def redos(self) -> list[int]:
        """Turns whose undo is complete; the one undone last first."""
        undone = {_number(path) for path in self.directory.glob("turn-*.undone")}
        found = [path for path in self.directory.glob("redo-*.jsonl") if _number(path) in undone]
        return [_number(path) for path in sorted(found, key=lambda path: -path.stat().st_mtime_ns)]

    def begun(self, name: str) -> dict[int, list[JournalChange]]:
        """The moves of an interrupted undo (`UNDOING`) or redo (`REDOING`), by turn."""
        files = sorted(self.directory.glob(f"{name}-*.jsonl"))
        return {_number(file): self.changes(file) for file in files}

    def begin(self, name: str, turn: int, moves: list[JournalChange]) -> None:
        """Write ahead the moves of an undo or redo: after a kill it can be completed or reverted."""
        file = self._progress_file(name, turn)
        earlier = {move.path: move for move in self.changes(file)} if file.exists() else {}
        self.write_changes(
            file, (earlier | {move.path: _with_original_before(earlier, move) for move in moves}).values()
        )
        self._stamp(file)

    def _stamp(self, file: Path) -> None:
        """Make it the newest: redo goes by modification time, which is coarse and may be set back."""
        others = (path.stat().st_mtime_ns for path in self.directory.glob("redo-*.jsonl") if path != file)
        newest = max([time.time_ns(), *(mtime + 1_000_000 for mtime in others)])
        os.utime(file, ns=(newest, newest))

    def end(self, name: str, turn: int) -> None:
        """Commit."""
        if name == UNDOING:
            self.turn(turn).rename(self.undone(turn))
        else:
            self.undone(turn).rename(self.turn(turn))
        self.settle()

    def drop(self, name: str, turn: int) -> None:
        """Forget an undo or redo that was reverted."""
        self._progress_file(name, turn).unlink(missing_ok=True)

    def settle(self) -> None:
        """Finish the clean-up that a kill may have prevented after the committing rename."""
        turns, undone = set(self._numbers()), {_number(path) for path in self.directory.glob("turn-*.undone")}
        for file in self.directory.glob(f"{UNDOING}-*.jsonl"):
            if _number(file) in undone:
                file.replace(self.redo(_number(file)))
            elif _number(file) not in turns:
                file.unlink(missing_ok=True)
        for file in [*self.directory.glob(f"{_REDO}-*.jsonl"), *self.directory.glob(f"{REDOING}-*.jsonl")]:
            if _number(file) not in undone:
                file.unlink(missing_ok=True)
        for number in turns:  # of a review that was done again, or never begun
            if number >= REVIEWS and not self._progress_file(UNDOING, number).exists():
                self.turn(number).unlink(missing_ok=True)

    def forget_old(self, upcoming: list[JournalChange]) -> None:
        """A new turn drops the redo stack. Keep the newest turns and the contents they need."""
        turns = list(self.directory.glob("turn-*.undone"))
        turns += [self.turn(turn) for turn in self.turns()[: -(KEPT_TURNS - 1)]]
        ways = [
            path
            for ended in ("redo-*.jsonl", "undoing-*.jsonl", "redoing-*.jsonl")
            for path in self.directory.glob(ended)
        ]
        moves = self._keep_recent_moves(turns)
        for file in (*ways, *turns):
            file.unlink(missing_ok=True)
        objects = self.directory / "objects"
        if not (ways or turns) or not objects.exists():
            return
        kept = [change for turn in self.turns() for change in self.changes(self.turn(turn))]
        kept += moves
        needed = {blob for change in (*kept, *upcoming) for blob in (change.before.blob, change.after.blob)}
        for blob in objects.iterdir():
            if blob.name not in needed:
                blob.unlink(missing_ok=True)

    def _keep_recent_moves(self, forgotten: list[Path]) -> list[JournalChange]:
        """Keep recent changes of forgotten turns for other sessions; returns tools' changes."""
        file = self.directory / MOVES
        known = self.changes(file) if file.exists() else []
        oldest = time.time_ns() - _RECENT_NS
        added = [change for turn in forgotten for change in self.changes(turn)]
        recent = distinct(change for change in (*known, *added) if change.at >= oldest)[-_MAX_RECENT:]
        if recent != known:
            with contextlib.suppress(OSError):  # disk full: the new turn matters more
                self.write_changes(file, recent)
        return [change for change in recent if change.by_tool]


def distinct(changes: Iterable[JournalChange]) -> list[JournalChange]:
    """Deduplicated: a kill may leave a change in two files."""
    found = {(change.path, change.at, change.before, change.after): change for change in changes}
    return sorted(found.values(), key=lambda change: change.at)


def _with_original_before(earlier: dict[str, JournalChange], move: JournalChange) -> JournalChange:
    """An intermediate state of an interrupted move is not its original state."""
    begun = earlier.get(move.path)
    if begun is None or not is_intermediate(begun, move.before):
        return move
    return msgspec.structs.replace(move, before=begun.before)


def _number(file: Path) -> int:
    return int(file.stem.rpartition("-")[2])


def _encode_change(change: JournalChange) -> bytes:
    # ASCII escapes preserve lone surrogates, as in file names that are not UTF-8.
    from json import dumps

    return dumps(msgspec.to_builtins(change)).encode("ascii")


def _decode_change(line: bytes) -> JournalChange:
    from json import JSONDecodeError, loads

    try:
        return msgspec.convert(loads(line), JournalChange)
    except JSONDecodeError as error:
        raise msgspec.DecodeError(str(error)) from error
