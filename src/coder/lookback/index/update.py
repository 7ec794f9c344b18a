"""Brings the index up to date with the records: only what was appended since is read, and what was deleted
goes."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO, NamedTuple

import msgspec

from coder.lookback.facts import FactCounter
from coder.lookback.index.content import Part, packed, parts_of, unpacked
from coder.lookback.index.database import PART_BITS, IndexFault, transaction, with_index
from coder.lookback.index.words import tokenizable
from coder.lookback.projects import Project, remember_project
from coder.protocol.entries import Command, State, TurnEnd, TurnStart
from coder.protocol.history import HistoryEvent, title_of

_LARGEST_PART = 1 << 18  # characters; an excerpt reads a whole part
_AT_THE_END = 8 << 20  # bytes of a record that a session's end waits for; a search reads the rest
_MERGED_PAGES = 500  # a step of a merge
_MERGES = 40
_SAID = ("person", "answer")
Progress = Callable[[int], None]  # how many records are left


class _Known(NamedTuple):
    id: int
    size: int
    mtime: int
    inode: int
    turns: int


class _Record(NamedTuple):
    name: str
    stat: os.stat_result


def session_ended(home: Path, project: Project, name: str) -> None:
    """Index a record that was just completed. Never fails: the next search does what could not be done."""
    path = Path(project.history, f"{name}.jsonl")
    try:
        stat = path.lstat()
        remember_project(home, project)

        def add(index: sqlite3.Connection) -> None:
            known = _known(index, project.history, name).get(name)
            if stat.st_size - (known.size if known else 0) <= _AT_THE_END:
                _update(index, project.history, _Record(name, stat))

        with_index(home, add, seconds=0.1)
    except (OSError, IndexFault):
        return


def bring_up_to_date(
    index: sqlite3.Connection, directory: str, progress: Progress = lambda left: None
) -> None:
    """All records in `directory`. One that cannot be read is left out."""
    known = _known(index, directory)
    present = _records(directory)
    gone = known.keys() - present.keys()
    for name in gone:
        with transaction(index):
            _forget(index, known[name])
    if gone:
        _erase(index)
    seen = {name: (one.size, one.mtime) for name, one in known.items()}
    stale = [
        _Record(name, stat)
        for name, stat in present.items()
        if seen.get(name) != (stat.st_size, stat.st_mtime_ns) and S_ISREG(stat.st_mode)
    ]
    for left, record in zip(range(len(stale), 0, -1), stale, strict=True):
        progress(left)
        with contextlib.suppress(OverflowError):  # numbers that no session has
            _update(index, directory, record)
    if stale:
        progress(0)


def _known(index: sqlite3.Connection, directory: str, name: str | None = None) -> dict[str, _Known]:
    rows = index.execute(
        "SELECT name, id, size, mtime, inode, turns FROM session "
        "WHERE directory = ?1 AND name = ifnull(?2, name)",
        (directory, name),
    )
    return {row[0]: _Known(*row[1:]) for row in rows}


def _records(directory: str) -> dict[str, os.stat_result]:
    """Every file that may be a record. On the way of each search, for thousands of files: no object more."""
    try:
        with os.scandir(directory) as entries:
            return {
                entry.name[:-6]: entry.stat(follow_symlinks=False)
                for entry in entries
                if entry.name.endswith(".jsonl")
            }
    except OSError:
        return {}


def _update(index: sqlite3.Connection, directory: str, record: _Record) -> None:
    """In one transaction: an index without the part, or with the whole of it."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.fdopen(os.open(Path(directory, f"{record.name}.jsonl"), flags), "rb")
    except OSError:
        return
    with file, transaction(index):
        stat = record.stat
        # Within the transaction: another process may have indexed it meanwhile.
        known = _known(index, directory, record.name).get(record.name)
        if known is not None and not _is_appended(file, known, stat):
            _forget(index, known)
            known = None
        if known is None:
            row = (directory, record.name, stat.st_ino)
            query = "INSERT INTO session VALUES (NULL, ?, ?, 0, 0, ?, '', 0)"
            known = _Known(index.execute(query, row).lastrowid or 0, 0, 0, stat.st_ino, 0)
        writer = _PartWriter(index, known)
        file.seek(known.size)
        size = known.size
        decoder = msgspec.json.Decoder(HistoryEvent)
        for line in file:
            if not line.endswith(b"\n"):  # torn, or being written
                break
            size += len(line)
            try:
                writer.take(decoder.decode(line))
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
        writer.flush()
        index.execute(
            "UPDATE session SET size = ?, mtime = ?, turns = ?, "
            "title = CASE WHEN title = '' OR ? THEN ? ELSE title END WHERE id = ?",
            (size, stat.st_mtime_ns, writer.turns, writer.renamed, writer.title, known.id),
        )


def _is_appended(file: BinaryIO, known: _Known, stat: os.stat_result) -> bool:
    """Whether what was indexed is still the beginning of the record."""
    if stat.st_ino != known.inode or stat.st_size < known.size:
        return False
    return not known.size or os.pread(file.fileno(), 1, known.size - 1) == b"\n"


class _PartWriter:
    """Collects the events of a turn and writes them as a row."""

    def __init__(self, index: sqlite3.Connection, known: _Known) -> None:
        self._index = index
        self._session = known.id
        top = index.execute(
            "SELECT max(id) FROM part WHERE id BETWEEN ? AND ?", _rows_of(known.id)
        ).fetchone()[0]
        self._next = (known.id << PART_BITS) if top is None else top + 1
        self.turns = known.turns
        self.title = ""
        self.renamed = False
        self._parts: list[Part] = []
        self._size = 0
        self._seen = False
        self._counter = FactCounter()

    def take(self, event: HistoryEvent) -> None:
        self._seen = True
        self._counter.take(event)
        self.turns = max(self.turns, event.turn)
        for part in parts_of(event):
            self._parts.append(part)
            self._size += len(part[1])
        entry = event.entry
        if isinstance(entry, State) and entry.title:
            self.title, self.renamed = title_of(entry.title), True
        elif not self.title and isinstance(entry, TurnStart):
            self.title = title_of(event.content)
        elif not self.title and isinstance(entry, Command) and event.role == "user":
            self.title = title_of(entry.input)
        if isinstance(entry, TurnEnd) or self._size > _LARGEST_PART:
            self.flush()

    def flush(self) -> None:
        if self._seen:
            body, facts = packed(self._parts), msgspec.json.encode(self._counter.facts)
            row = (self._next, self.turns, facts, zlib.compress(_encoded(body), 1))
            self._index.execute("INSERT INTO part VALUES (?, ?, ?, ?)", row)
            self._index.execute(
                "INSERT INTO words (rowid, said, other) VALUES (?, ?, ?)", _row(self._next, body)
            )
            self._next += 1
        self._parts, self._size, self._seen = [], 0, False
        self._counter.restart()


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", errors="replace")


def body_of(row: bytes) -> str:
    return zlib.decompress(row).decode("utf-8")


def _row(rowid: int, body: str) -> tuple[int, str, str]:
    parts = unpacked(_encoded(body).decode("utf-8"))
    said = tokenizable("\n".join(text for kind, text in parts if kind in _SAID))
    return rowid, said, tokenizable("\n".join(text for kind, text in parts if kind not in _SAID))


def _rows_of(session: int) -> tuple[int, int]:
    return session << PART_BITS, (session + 1 << PART_BITS) - 1


def _forget(index: sqlite3.Connection, known: _Known) -> None:
    """Remove a record, its words too."""
    rows = index.execute("SELECT id, body FROM part WHERE id BETWEEN ? AND ?", _rows_of(known.id)).fetchall()
    for rowid, body in rows:
        index.execute(
            "INSERT INTO words (words, rowid, said, other) VALUES ('delete', ?, ?, ?)",
            _row(rowid, body_of(body)),
        )
    index.execute("DELETE FROM part WHERE id BETWEEN ? AND ?", _rows_of(known.id))
    index.execute("DELETE FROM session WHERE id = ?", (known.id,))


def _erase(index: sqlite3.Connection) -> None:
    """FTS5 marks words as deleted; they leave the file when its segments are merged. Bounded: in a very large
    index the rest goes with later merges."""
    for _ in range(_MERGES):
        before = index.total_changes
        index.execute("INSERT INTO words (words, rank) VALUES ('merge', ?)", (-_MERGED_PAGES,))
        if index.total_changes - before < 2:  # FTS5's sign that nothing is left to merge
            break
