"""Brings the index up to date with the records: only what was appended since is read, and what was deleted
goes."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from stat import S_ISREG
from typing import Any, BinaryIO, Literal, NamedTuple

import msgspec

from coder.base.safe_open import stream_of
from coder.history.search.database import (
    PART_BITS,
    WORDS,
    SearchIndexError,
    tokenizable,
    transaction,
    with_index,
)
from coder.history.search.facts import FactCounter
from coder.history.search.projects import Project, remember_project
from coder.protocol import entries
from coder.protocol.entries import Command, State, TurnEnd, TurnStart
from coder.protocol.history import HistoryEvent, decode_event, title_of

PartKind = Literal["person", "answer", "thinking", "call", "output"]
TurnPart = tuple[PartKind, str]
_LETTERS: dict[PartKind, str] = {"person": "p", "answer": "a", "thinking": "t", "call": "c", "output": "o"}
_KINDS: dict[str, PartKind] = {letter: kind for kind, letter in _LETTERS.items()}
_BETWEEN = "\x1e"
_LONGEST = 200_000  # characters of one part; tools' outputs are cut below this when they are recorded


def parts_of(event: HistoryEvent) -> Iterator[TurnPart]:
    """System message and instructions are left out: they are the same in every session."""
    event = event.inner
    match event.entry:
        case entries.TurnStart() | entries.Note(reason="person"):
            yield "person", event.content
        case entries.Assistant(by=by, reasoning=reasoning) if not by:
            if reasoning:
                yield "thinking", reasoning
            yield "answer", event.said
        case entries.Action(input=given) if not event.for_model_alone:
            yield "call", "\n".join(_strings(given))
        case entries.Observation(path=path, files=files) if not event.for_model_alone:
            names = [path] if path else []
            names += [file.path for file in files] if isinstance(files, list) else []
            yield "call", "\n".join(names)
            yield "output", event.content
        case entries.Command(input=line):
            yield "person", line
            yield "output", event.content
        case entries.Verify(command=command):
            yield "call", command
            yield "output", event.content
        case entries.Job() | entries.Compaction():
            yield "output", event.content


def _strings(value: Any) -> Iterator[str]:
    """A call's arguments, without their names."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)


def packed_parts(parts: list[TurnPart]) -> str:
    """As one text; the separator occurs in no part."""
    return _BETWEEN.join(
        _LETTERS[kind] + text[:_LONGEST].replace(_BETWEEN, " ") for kind, text in parts if text.strip()
    )


def unpacked_parts(text: str) -> list[TurnPart]:
    return [(_KINDS[part[0]], part[1:]) for part in text.split(_BETWEEN) if part]


_LARGEST_PART = 1 << 18  # characters; an excerpt reads a whole part
_AT_THE_END = 8 << 20  # bytes of a record that a session's end waits for; a search reads the rest
_MERGED_PAGES = 100  # a step of a merge
_ERASING_SECONDS = 0.1  # of CPU time that a search spends on it
_SAID = ("person", "answer")
IndexProgress = Callable[[int], None]  # how many records are left


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
    except (OSError, SearchIndexError):
        return


def bring_up_to_date(
    index: sqlite3.Connection, directory: str, progress: IndexProgress = lambda left: None
) -> None:
    """All records in `directory`. One that cannot be read is left out."""
    query = "SELECT name, size, mtime FROM session WHERE directory = ?"
    seen = {name: (size, mtime) for name, size, mtime in index.execute(query, (os.fsencode(directory),))}
    try:
        present = _records(directory)
    except OSError:
        return
    gone = seen.keys() - present.keys()
    if gone:
        with transaction(index):
            for name in gone:
                for known in _known(index, directory, name).values():
                    _forget(index, known)
            index.execute("UPDATE upkeep SET erase = 1")
    _erase(index)
    stale = [
        _Record(name, stat)
        for name, stat in present.items()
        if seen.get(name) != (stat.st_size, stat.st_mtime_ns) and S_ISREG(stat.st_mode)
    ]
    stale.sort(key=lambda record: record.stat.st_mtime_ns)
    for left, record in zip(range(len(stale), 0, -1), stale, strict=True):
        progress(left)
        # Numbers and nestings that no session has: one record must not hide the others.
        with contextlib.suppress(OverflowError, ValueError, RecursionError):
            _update(index, directory, record)
    if stale:
        progress(0)


def _known(index: sqlite3.Connection, directory: str, name: str) -> dict[str, _Known]:
    rows = index.execute(
        "SELECT name, id, size, mtime, inode, turns FROM session WHERE directory = ? AND name = ?",
        (os.fsencode(directory), name),
    )
    return {row[0]: _Known(*row[1:]) for row in rows}


def _records(directory: str) -> dict[str, os.stat_result]:
    """Every file that may be a record (hot path of each search). Raises OSError if they are not known."""
    found = {}
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(".jsonl"):
                try:
                    found[entry.name[:-6]] = entry.stat(follow_symlinks=False)
                except FileNotFoundError:  # deleted this moment, and it alone
                    continue
    return found


def _update(index: sqlite3.Connection, directory: str, record: _Record) -> None:
    """In one transaction: an index without the part, or with the whole of it."""
    path = Path(directory, f"{record.name}.jsonl")
    try:
        file = stream_of(path)
    except OSError:
        return
    with file, transaction(index):
        stat = record.stat
        # Within the transaction: another process may have indexed it meanwhile, or forgotten a deleted one.
        if not os.path.lexists(path):
            return
        known = _known(index, directory, record.name).get(record.name)
        if known is not None and not _is_appended(file, known, stat):
            _forget(index, known)
            known = None
        if known is None:
            row = (os.fsencode(directory), record.name, stat.st_ino)
            query = "INSERT INTO session VALUES (NULL, ?, ?, 0, 0, ?, '', 0)"
            known = _Known(index.execute(query, row).lastrowid or 0, 0, 0, stat.st_ino, 0)
        writer = _PartWriter(index, known)
        file.seek(known.size)
        size = known.size
        for line in file:
            if not line.endswith(b"\n"):  # torn, or being written
                break
            size += len(line)
            if (event := decode_event(line)) is not None:
                writer.take(event)
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
        self._parts: list[TurnPart] = []
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
            body, facts = packed_parts(self._parts), msgspec.json.encode(self._counter.facts)
            row = (self._next, self.turns, facts, zlib.compress(_encoded(body), 1))
            self._index.execute("INSERT INTO part VALUES (?, ?, ?, ?)", row)
            for table, text in _texts(body):
                query = f"INSERT INTO {table} (rowid, text) VALUES (?, ?)"  # noqa: S608 - one of `WORDS`
                self._index.execute(query, (self._next, text))
            self._next += 1
        self._parts, self._size, self._seen = [], 0, False
        self._counter.restart()


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", errors="replace")


def unpacked_body(row: bytes) -> str:
    return zlib.decompress(row).decode("utf-8")


def _texts(body: str) -> Iterator[tuple[str, str]]:
    """The text for each of the tables that has any."""
    parts = unpacked_parts(_encoded(body).decode("utf-8"))
    for table in WORDS:
        if text := "\n".join(text for kind, text in parts if (kind in _SAID) == (table == "said")):
            yield table, tokenizable(text)


def _rows_of(session: int) -> tuple[int, int]:
    return session << PART_BITS, (session + 1 << PART_BITS) - 1


def _forget(index: sqlite3.Connection, known: _Known) -> None:
    """Remove a record, its words too."""
    rows = index.execute("SELECT id, body FROM part WHERE id BETWEEN ? AND ?", _rows_of(known.id)).fetchall()
    for rowid, body in rows:
        for table, text in _texts(unpacked_body(body)):
            line = f"INSERT INTO {table} ({table}, rowid, text) VALUES ('delete', ?, ?)"  # noqa: S608 - one of `WORDS`
            index.execute(line, (rowid, text))
    index.execute("DELETE FROM part WHERE id BETWEEN ? AND ?", _rows_of(known.id))
    index.execute("DELETE FROM session WHERE id = ?", (known.id,))


def _erase(index: sqlite3.Connection) -> None:
    """Merge FTS5's segments, so that deleted words leave the file; bounded per search."""
    if not index.execute("SELECT erase FROM upkeep").fetchone()[0]:
        return
    until = time.process_time() + _ERASING_SECONDS
    left = list(WORDS)
    while left and time.process_time() < until:
        before = index.total_changes
        table = left[0]
        line = f"INSERT INTO {table} ({table}, rank) VALUES ('merge', ?)"  # noqa: S608 - one of `WORDS`
        index.execute(line, (-_MERGED_PAGES,))
        if index.total_changes - before < 2:  # FTS5's sign that nothing is left to merge
            del left[0]
    if not left:
        index.execute("UPDATE upkeep SET erase = 0")
