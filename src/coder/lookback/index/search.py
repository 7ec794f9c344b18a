"""Search over the records: the sessions in which all words occur, the best first."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import msgspec

from coder.lookback.index.content import Kind, unpacked
from coder.lookback.index.database import PART_BITS, IndexFault, with_index
from coder.lookback.index.update import Progress, body_of, bring_up_to_date
from coder.lookback.index.words import line_around, marks_of, terms_of

_HITS = 3  # lines shown of a session
_PARTS_READ = 4  # of a session, for its lines
_ORDER: dict[Kind, int] = {"person": 0, "answer": 1, "call": 2, "thinking": 3, "output": 4}


class Hit(msgspec.Struct, frozen=True):
    """A line with some of the words; `kind`: who said it."""

    turn: int
    kind: Kind
    line: str


class Found(msgspec.Struct, frozen=True):
    """A session in which all words occur. `directory` holds its record."""

    session_id: str
    directory: str
    title: str
    turns: int
    updated_at: float
    hits: list[Hit]


def search(
    home: Path,
    directories: Sequence[str],
    query: str,
    limit: int = 20,
    progress: Progress = lambda left: None,
) -> list[Found]:
    """Sessions recorded in `directories` that have every word of `query`: first those where person or answer
    say all of it in one turn, then those where one turn has it, then the others; each newest first. Raises
    `IndexFault`."""
    terms = terms_of(query)
    if not terms:
        raise IndexFault("lookback.no_words")

    def use(index: sqlite3.Connection) -> list[Found]:
        for directory in directories:
            bring_up_to_date(index, directory, progress)
        return _search(index, directories, terms, marks_of(query), limit)

    return with_index(home, use)


def _search(
    index: sqlite3.Connection, directories: Sequence[str], terms: list[str], marks: list[str], limit: int
) -> list[Found]:
    rows = [_rows(index, term) for term in terms]
    matching = set.intersection(*map(_sessions, rows))
    if not matching:
        return []
    together = set.intersection(*rows)
    in_one = _sessions(together)
    said = _sessions(_rows(index, f"said : ({' AND '.join(terms)})"))
    ranked = sorted(
        (one not in said, one not in in_one, -mtime, one)
        for directory in directories
        for one, mtime in index.execute("SELECT id, mtime FROM session WHERE directory = ?", (directory,))
        if one in matching
    )
    best = {one for *_, one in ranked[:limit]}
    near, spread = _by_session(together, best), _by_session(set.union(*rows), best)
    found = []
    for _, apart, _, one in ranked[:limit]:
        query = "SELECT name, directory, title, turns, mtime FROM session WHERE id = ?"
        name, directory, title, turns, mtime = index.execute(query, (one,)).fetchone()
        hits = _hits(index, (spread if apart else near).get(one, []), marks)
        found.append(Found(name, directory, title, turns, mtime / 1e9, hits))
    return found


def _rows(index: sqlite3.Connection, expression: str) -> set[int]:
    query = "SELECT rowid FROM words WHERE words MATCH ?"
    return {row[0] for row in index.execute(query, (expression,))}


def _sessions(rows: set[int]) -> set[int]:
    return {row >> PART_BITS for row in rows}


def _by_session(rows: set[int], sessions: set[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row in sorted(row for row in rows if row >> PART_BITS in sessions):
        found.setdefault(row >> PART_BITS, []).append(row)
    return found


def _hits(index: sqlite3.Connection, parts: list[int], marks: list[str]) -> list[Hit]:
    ranked = []
    for part in parts[:_PARTS_READ]:
        turn, body = index.execute("SELECT turn, body FROM part WHERE id = ?", (part,)).fetchone()
        for kind, text in unpacked(body_of(body)):
            count, line = line_around(text, marks)
            if count:
                ranked.append((-count, _ORDER[kind], turn, Hit(turn, kind, line)))
    ranked.sort(key=lambda row: row[:3])
    return list({hit.line: hit for *_, hit in ranked}.values())[:_HITS]
