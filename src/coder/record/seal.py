"""Whether a record was made by this person: its first line carries a seal, made with a key of `$CODER_HOME`.

A record is believed when a session is taken up again, and a project can ship one. Whoever has the key (a
copied home, a workspace that was moved) has its sessions; a record without a good seal is believed once the
person says so, which is a sealed line of its own in it.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from msgspec.structs import replace

from coder.fs.private import locked, write_whole
from coder.protocol.entries import Accepted, SessionStart
from coder.protocol.history import HistoryEvent
from coder.record.files import RecordError, encode
from coder.record.log import now, read_log
from coder.record.sinks import JsonlHistorySink
from coder.record.store import SessionStore

ACCEPTED = "accepted"  # the type of the line by which a person takes a record for their own
_KEY_FILE = "record.key"
_KEY_BYTES = 32


def sealed(home: Path, first: HistoryEvent) -> HistoryEvent:
    """The first event of a record with its seal; as it is where no key can be kept."""
    try:
        key = _key(home) or _new_key(home)
    except OSError:  # a home that cannot be written: the person will be asked when they come back
        return first
    return replace(first, meta={**first.meta, "seal": _seal(key, "made", first)})


def is_believed(home: Path, store: SessionStore, session_id: str) -> bool:
    """Whether a record is this person's: made with their key, accepted by them, or in a folder outside the
    project that they named themselves. One that says nothing yet is nobody's, and harmless."""
    if store.is_elsewhere:
        return True
    key = _key(home)
    first: HistoryEvent | None = None
    for event in read_log(store.log_path(session_id)):
        if first is None:
            first = event
            if key is not None and _bears(event, key, "made", event):
                return True
        elif key is not None and _bears(event, key, ACCEPTED, first):
            return True
    return first is None


def accept(home: Path, store: SessionStore, session_id: str) -> None:
    """The person takes the record for their own, from here on. Raises `RecordError`."""
    path = store.log_path(session_id)
    try:
        key = _key(home) or _new_key(home)
    except OSError as error:
        raise RecordError("record.no_key", folder=home, why=error.strerror) from error
    sink = JsonlHistorySink(path)
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


def _bears(event: HistoryEvent, key: bytes, kind: str, first: HistoryEvent) -> bool:
    form = Accepted if kind == ACCEPTED else SessionStart
    return isinstance(event.entry, form) and event.entry.seal == _seal(key, kind, first)


def _seal(key: bytes, kind: str, first: HistoryEvent) -> str:
    """Over the first event without its seal: session, time, place and the system message are in it."""
    from hashlib import blake2b

    bare = {name: value for name, value in first.meta.items() if name != "seal"}
    # Named one by one: an event that has more fields some day must not void the seals of today.
    data = encode([first.ts, first.session_id, first.type, first.turn, first.content, first.role, bare])
    return blake2b(data, key=key, digest_size=16, person=kind.encode("ascii")).hexdigest()


def _key(home: Path) -> bytes | None:
    try:
        key = (home / _KEY_FILE).read_bytes()
    except OSError:
        return None
    return key if len(key) == _KEY_BYTES else None


def _new_key(home: Path) -> bytes:
    path = home / _KEY_FILE
    with locked(path):
        key = _key(home)  # another process may have been quicker
        if key is None:
            key = os.urandom(_KEY_BYTES)
            write_whole(path, key)
        return key
