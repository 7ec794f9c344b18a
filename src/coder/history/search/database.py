"""The index's file: opened, created, and replaced if it is damaged; tokens of texts and queries."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

from coder.base.files import make_private
from coder.texts import CoderError

_VERSION = 5  # of tables, tokens and facts: another one is rebuilt
_FILE = "index.db"
_SUFFIXES = ("", "-wal", "-shm", "-journal")
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_NOT_WRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
_FULL = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_SHMSIZE,
    sqlite3.SQLITE_IOERR_SHMMAP,
)

# A row of `said` and `other` is a turn, or a part of one: its rowid is `session << PART_BITS | part`. What
# person and answers say is a table of its own: most searches for a common word end there, and it is small
# enough to keep prefixes. The tables keep no text (`content=''`); `part.body` has it compressed, for
# excerpts, and because a row of such a table can only be deleted by its text. It comes last: SQLite reads a
# row up to the column that is asked for. `upkeep.erase`: deleted words are still in the file.
PART_BITS = 24
WORDS = ("said", "other")
_TABLES = """
CREATE TABLE session (
  id INTEGER PRIMARY KEY, directory BLOB NOT NULL, name TEXT NOT NULL, size INTEGER NOT NULL,
  mtime INTEGER NOT NULL, inode INTEGER NOT NULL, title TEXT NOT NULL, turns INTEGER NOT NULL,
  UNIQUE (directory, name));
CREATE TABLE part (id INTEGER PRIMARY KEY, turn INTEGER NOT NULL, facts BLOB NOT NULL, body BLOB NOT NULL);
CREATE TABLE upkeep (erase INTEGER NOT NULL);
INSERT INTO upkeep VALUES (0);
CREATE VIRTUAL TABLE said USING fts5(text, content='', columnsize=0, prefix='3',
  tokenize='unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE other USING fts5(text, content='', columnsize=0,
  tokenize='unicode61 remove_diacritics 2');
INSERT INTO said (said, rank) VALUES ('usermerge', 2);
INSERT INTO other (other, rank) VALUES ('usermerge', 2);
"""

Done = TypeVar("Done")


class SearchIndexError(CoderError):
    """The index cannot be used."""


class Busy(SearchIndexError):
    """Another process writes it."""


@contextlib.contextmanager
def opened(home: Path | None, *, seconds: float = 5.0) -> Iterator[sqlite3.Connection]:
    """A connection to the index (in memory without `home`). Raises OSError or `sqlite3.Error`."""
    if home is not None:
        make_private(home)
        # SQLite would create it with the umask; its journals take the mode of the file.
        os.close(os.open(home / _FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    path = home / _FILE if home is not None else ":memory:"
    connection = sqlite3.connect(path, timeout=seconds, isolation_level=None)
    try:
        # No fsync: after a power failure the index is rebuilt.
        connection.executescript(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA secure_delete = ON;"
        )
        if connection.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
            _make(connection)
        yield connection
    finally:
        connection.close()


def _make(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")  # one process makes it, others wait
    with _transaction_end(connection):
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == _VERSION:
            return
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in tables:
            if name in ("session", "part", "words", "upkeep", *WORDS):
                connection.execute(f"DROP TABLE IF EXISTS {name}")
        for statement in filter(str.strip, _TABLES.split(";")):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {_VERSION}")


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, *, writes: bool = True) -> Iterator[None]:
    """Without `writes`: what is read is of one moment, whatever other processes write meanwhile."""
    connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
    with _transaction_end(connection):
        yield


@contextlib.contextmanager
def _transaction_end(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def with_index(home: Path, use: Callable[[sqlite3.Connection], Done], *, seconds: float = 5.0) -> Done:
    """`use` the index; recreate a damaged one, if need be in memory. Raises `SearchIndexError`."""
    places: list[Path | None] = [home, home, None]
    while True:
        place = places.pop(0)
        try:
            with opened(place, seconds=seconds) as connection:
                return use(connection)
        except OSError:
            if place is None:
                raise
            places = [None]
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0)
            if code & 0xFF in _BUSY:
                raise Busy("lookback.busy") from error
            if not places or "fts5" in str(error):
                raise SearchIndexError("lookback.unusable", why=str(error)) from error
            if code & 0xFF in _NOT_WRITABLE:
                places = [None]
                continue
            if code in _FULL:
                places = [None]  # and the room that it took is free for what cannot be made anew
            _delete(home)


def _delete(home: Path) -> None:
    for suffix in _SUFFIXES:
        with contextlib.suppress(OSError):
            (home / f"{_FILE}{suffix}").unlink()


_CJK = "぀-ヿ㐀-䶿一-鿿豈-﫿가-힯\U00020000-\U000323af"
_PHRASE = re.compile(r'"([^"]*)"|(\S+)')
_SHORTEST_PREFIX = 3  # a shorter one stands for too many words


@cache
def _run() -> re.Pattern[str]:
    return re.compile(f"[{_CJK}]+")


@cache
def _piece() -> re.Pattern[str]:
    """A run of CJK characters, or a word as the tokenizer sees it. Lazy: compiling takes 10 ms."""
    return re.compile(f"[{_CJK}]+|[^\\W{_CJK}](?:[^\\W{_CJK}]|[\u0300-\u036f])*")


def tokenizable(text: str) -> str:
    """`text` with its CJK runs as pairs, and the last character alone, so that one character is found too."""
    return text if text.isascii() else _run().sub(_pairs, text)


def _pairs(found: re.Match[str]) -> str:
    run = found[0]
    return f" {' '.join([*(run[at : at + 2] for at in range(len(run) - 1)), run[-1]])} "


def terms_of(query: str) -> list[str]:
    """FTS5 expressions, all of which must match. A quoted part is a phrase; other words match as prefixes."""
    terms: dict[str, None] = {}
    for quoted, word in _PHRASE.findall(query):
        pieces = _piece().findall((quoted or word).replace("_", " "))
        if pieces and not any(_run().match(piece) for piece in pieces) and (quoted or len(pieces) > 1):
            terms[f'"{" ".join(pieces)}"'] = None
            continue
        terms.update(dict.fromkeys(_term(piece, exact=bool(quoted)) for piece in pieces))
    return list(terms)


def _term(piece: str, *, exact: bool) -> str:
    if _run().match(piece):
        if len(piece) == 1:
            return f'"{piece}"*'
        return f'"{" ".join(piece[at : at + 2] for at in range(len(piece) - 1))}"'
    return f'"{piece}"' if exact or len(piece) < _SHORTEST_PREFIX else f'"{piece}"*'


def query_marks(query: str) -> list[str]:
    """What to look for in a line, in lower case; the longest first."""
    found = {
        piece.lower()
        for quoted, word in _PHRASE.findall(query)
        for piece in ([quoted] if quoted else [word, *_piece().findall(word.replace("_", " "))])
        if piece.strip()
    }
    return sorted(found, key=len, reverse=True)


def line_around(text: str, marks: list[str], width: int = 160) -> tuple[int, str]:
    """The line with the most marks, cut to `width` around one of them, and their number."""
    folded = text.lower()
    if len(folded) != len(text):  # a few letters have a longer lower case: positions would differ
        text = folded
    best, held, place = (0, 0), 0, 0
    for mark in marks:
        at = folded.find(mark)
        if at < 0:
            continue
        end = folded.find("\n", at)
        line = folded.rfind("\n", 0, at) + 1, len(text) if end < 0 else end
        count = sum(folded.find(one, *line) >= 0 for one in marks)
        if count > held:
            best, held, place = line, count, at
    if not held:
        return 0, ""
    start = max(best[0], min(place - width // 3, best[1] - width))
    end = min(best[1], start + width)
    cut = " ".join(text[start:end].split())
    return held, ("…" if start > best[0] else "") + cut + ("…" if end < best[1] else "")
