"""Turn-level undo, with or without git, across restarts (seed 001 §10, SPEC §1.1).

Before a file tool changes a path, what the path held is kept here together with a digest of what it is
about to hold. Undo puts the former back only where the path still holds the latter: a person's later
change is named, not overwritten.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

import msgspec

from coder.record.files import write_all, write_atomically

KEPT_TURNS = 20


class _Held(msgspec.Struct, frozen=True):
    """What a path held: nothing (`blob` None), or a file's bytes and permission bits."""

    blob: str | None = None
    mode: int = 0


class _Change(msgspec.Struct, frozen=True):
    """One line of a turn's manifest. `made` are folders that did not exist before."""

    path: str
    before: _Held
    after: _Held
    made: list[str] = []


class UndoOutcome(msgspec.Struct, frozen=True):
    """What an undo did, or why it did nothing: `turn` is 0 where there was nothing to undo."""

    turn: int = 0
    restored: list[str] = []
    removed: list[str] = []
    conflicts: list[str] = []
    kept_copies: list[str] = []


class UndoJournal:
    """The undo memory of one session, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._turn = 0

    def begin_turn(self, turn: int) -> None:
        self._turn = turn

    def before_change(self, path: Path, after: bytes | None, mode: int | None = None) -> None:
        """Durable before it returns: a kill between this and the change loses nothing."""
        before = self._hold(path)
        bits = mode if mode is not None else before.mode
        change = _Change(
            path=os.fsencode(path).decode("utf-8", errors="surrogateescape"),
            before=before,
            after=_Held(blob=None if after is None else _digest(after), mode=bits),
            made=[str(p) for p in path.parents if not p.exists()],
        )
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        manifest = self._manifest(self._turn)
        if not manifest.exists():
            self._forget_old()
        fd = os.open(manifest, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            write_all(fd, _encode_change(change) + b"\n")
        finally:
            os.close(fd)

    def undo(self, *, force: bool = False) -> UndoOutcome:
        """Take back the newest turn that changed files; all of it, or nothing where a file is in conflict."""
        turn = max(self._turns(), default=0)
        if not turn:
            return UndoOutcome()
        changes = _merged(self._changes(turn))
        conflicts = [c.path for c in changes if self._in_conflict(c)]
        if conflicts and not force:
            return UndoOutcome(turn=turn, conflicts=conflicts)
        copies = [self._keep_copy(path) for path in conflicts]
        restored: list[str] = []
        removed: list[str] = []
        for change in changes:
            if self._put_back(change):
                (restored if change.before.blob is not None else removed).append(change.path)
        manifest = self._manifest(turn)
        manifest.rename(manifest.with_suffix(".undone"))
        return UndoOutcome(
            turn=turn, restored=restored, removed=removed, kept_copies=[c for c in copies if c]
        )

    def pending_changes(self) -> list[Path]:
        """The paths that the turns which could still be undone have changed."""
        paths = {c.path: None for turn in sorted(self._turns()) for c in self._changes(turn)}
        return [_path(text) for text in paths]

    # what is kept

    def _hold(self, path: Path) -> _Held:
        try:
            info = path.stat()
        except OSError:
            return _Held()
        content = path.read_bytes()
        digest = _digest(content)
        blob = self.folder / "objects" / digest
        if not blob.exists():
            blob.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(blob, content)
        return _Held(blob=digest, mode=stat.S_IMODE(info.st_mode))

    def _keep_copy(self, path: str) -> str:
        """A forced undo replaces what a person wrote; their text is kept all the same."""
        held = self._hold(_path(path))
        return str(self.folder / "objects" / held.blob) if held.blob else ""

    def _manifest(self, turn: int) -> Path:
        return self.folder / f"turn-{turn:06d}.jsonl"

    def _turns(self) -> list[int]:
        return [int(p.stem[5:]) for p in self.folder.glob("turn-*.jsonl")]

    def _changes(self, turn: int) -> list[_Change]:
        changes = []
        for line in self._manifest(turn).read_bytes().splitlines():
            with contextlib.suppress(msgspec.DecodeError):  # torn by a kill: that change was never made
                changes.append(_decode_change(line))
        return changes

    def _forget_old(self) -> None:
        """Keep the newest turns, and of the kept contents only what they need."""
        old = sorted(self._turns())[: -(KEPT_TURNS - 1)]
        for turn in old:
            self._manifest(turn).unlink(missing_ok=True)
        if not old:
            return
        needed = {c.before.blob for turn in self._turns() for c in self._changes(turn)}
        for blob in (self.folder / "objects").iterdir():
            if blob.name not in needed:
                blob.unlink(missing_ok=True)

    # putting back

    def _in_conflict(self, change: _Change) -> bool:
        now = _digest_of(_path(change.path))
        return now not in (change.after.blob, change.before.blob)

    def _put_back(self, change: _Change) -> bool:
        path = _path(change.path)
        if change.before.blob is None:
            existed = path.exists()
            path.unlink(missing_ok=True)
            for folder in change.made:
                with contextlib.suppress(OSError):  # a person may have put something there
                    Path(folder).rmdir()
            return existed
        if _digest_of(path) == change.before.blob and stat.S_IMODE(path.stat().st_mode) == change.before.mode:
            return False
        content = (self.folder / "objects" / change.before.blob).read_bytes()
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content, change.before.mode)
        return True


def _merged(changes: list[_Change]) -> list[_Change]:
    """One change a path: from what it held before the turn to what the turn last made of it."""
    by_path: dict[str, _Change] = {}
    for change in changes:
        first = by_path.get(change.path)
        by_path[change.path] = (
            change if first is None else _Change(change.path, first.before, change.after, first.made)
        )
    return list(by_path.values())


def _path(text: str) -> Path:
    return Path(os.fsdecode(text.encode("utf-8", errors="surrogateescape")))


def _encode_change(change: _Change) -> bytes:
    # ASCII escapes carry lone surrogates, which is how a file name that is not UTF-8 survives
    from json import dumps

    return dumps(msgspec.to_builtins(change)).encode("ascii")


def _decode_change(line: bytes) -> _Change:
    from json import JSONDecodeError, loads

    try:
        return msgspec.convert(loads(line), _Change)
    except JSONDecodeError as error:
        raise msgspec.DecodeError(str(error)) from error


def _digest(content: bytes) -> str:
    from hashlib import blake2b

    return blake2b(content, digest_size=20).hexdigest()


def _digest_of(path: Path) -> str | None:
    try:
        return _digest(path.read_bytes())
    except OSError:
        return None
