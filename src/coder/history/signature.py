"""Authenticate records: the first line carries a MAC (the seal) made with a key in `$CODER_HOME`.

A resumed record is trusted, and a project can ship a forged one. The key alone decides, so sessions survive a
copied home or a moved workspace. A record without a valid seal is trusted after the person accepts it, which
appends a sealed line.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from msgspec.structs import replace

from coder.base.files import digest, locked, write_durably
from coder.history.log import now, read_log
from coder.history.sinks import HistoryError, JsonlHistorySink, encode
from coder.history.store import SessionStore
from coder.protocol.entries import Accepted, SessionStart
from coder.protocol.history import HistoryEvent

ACCEPTED = "accepted"  # the type of the line that accepts a foreign record
_KEY_FILE = "record.key"
_KEY_BYTES = 32


def sealed(home: Path, first: HistoryEvent) -> HistoryEvent:
    """The first event with its seal; unchanged if no key can be stored."""
    try:
        key = _key(home) or _new_key(home)
    except OSError:  # read-only home: the person is asked on resume
        return first
    return replace(first, meta={**first.meta, "seal": _seal(key, "made", first)})


def is_trusted(home: Path, store: SessionStore, session_id: str) -> bool:
    """Whether a record is sealed or accepted by this person, outside the project by choice, or empty."""
    if store.is_elsewhere:
        return True
    key = _key(home)
    first: HistoryEvent | None = None
    for event in read_log(store.log_path(session_id)):
        if first is None:
            first = event
            if key is not None and _has_seal(event, key, "made", event):
                return True
        elif key is not None and _has_seal(event, key, ACCEPTED, first):
            return True
    return first is None


def is_made_in(root: Path, home: Path, store: SessionStore, session_id: str) -> bool:
    """Whether this person made the record in `root`; a copy from another workspace was not."""
    first = next(iter(read_log(store.log_path(session_id))), None)
    if first is None or not isinstance(first.entry, SessionStart):
        return False
    key = _key(home)
    own = store.is_elsewhere or (key is not None and _has_seal(first, key, "made", first))
    return own and os.path.realpath(first.entry.cwd) == os.path.realpath(root)


def accept(home: Path, store: SessionStore, session_id: str) -> None:
    """Mark a foreign record as trusted. Raises `HistoryError`."""
    path = store.log_path(session_id)
    try:
        key = _key(home) or _new_key(home)
    except OSError as error:
        raise HistoryError("record.no_key", directory=home, why=error.strerror) from error
    sink = JsonlHistorySink(path, resolved=True)
    sink.open()
    try:
        first = last = None
        for last in read_log(path):
            first = first or last
        if first is not None and last is not None:
            meta = msgspec.to_builtins(Accepted(seal=_seal(key, ACCEPTED, first)))
            sink.append(replace(last, ts=now(), type=ACCEPTED, content="", role=None, meta=meta))
            sink.flush()
    finally:
        sink.close()


def _has_seal(event: HistoryEvent, key: bytes, kind: str, first: HistoryEvent) -> bool:
    form = Accepted if kind == ACCEPTED else SessionStart
    return isinstance(event.entry, form) and event.entry.seal == _seal(key, kind, first)


def _seal(key: bytes, kind: str, first: HistoryEvent) -> str:
    """MAC over the first event without its seal; it holds session, time, workspace and system message."""
    bare = {name: value for name, value in first.meta.items() if name != "seal"}
    # Listed one by one: a field added to events later must not invalidate existing seals.
    data = encode([first.ts, first.session_id, first.type, first.turn, first.content, first.role, bare])
    return digest(data, 16, key=key, person=kind.encode("ascii"))


def _key(home: Path) -> bytes | None:
    try:
        key = (home / _KEY_FILE).read_bytes()
    except OSError:
        return None
    return key if len(key) == _KEY_BYTES else None


def _new_key(home: Path) -> bytes:
    path = home / _KEY_FILE
    with locked(path):
        key = _key(home)  # another process may have won the race
        if key is None:
            key = os.urandom(_KEY_BYTES)
            write_durably(path, key)
        return key
