"""Search over the records: the sessions in which all words occur, the best first."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from heapq import nsmallest
from pathlib import Path
from typing import NamedTuple

import msgspec

from coder.history.search.database import (
    PART_BITS,
    IndexFault,
    line_around,
    marks_of,
    terms_of,
    transaction,
    with_index,
)
from coder.history.search.index import Kind, Progress, body_of, bring_up_to_date, unpacked

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
        with transaction(index, writes=False):
            return _search(index, directories, terms, marks_of(query), limit)

    return with_index(home, use)


def _search(
    index: sqlite3.Connection, directories: Sequence[str], terms: list[str], marks: list[str], limit: int
) -> list[Found]:
    said = _by_session(_rows(index, "said", " AND ".join(terms)))
    found = _newest(index, directories, said, limit)
    if len(found) < limit:
        # Person and answers do not say all of it often enough: calls, outputs and thinking too.
        rows = [set(_rows(index, "said", term)).union(_rows(index, "other", term)) for term in terms]
        near = _by_session(sorted(set.intersection(*rows)))
        found += _newest(index, directories, near, limit - len(found), {one.id for one in found})
    if len(found) < limit and len(terms) > 1:
        matching = set.intersection(*map(_sessions, rows)) - {one.id for one in found}
        spread = _by_session(row for row in sorted(set.union(*rows)) if row >> PART_BITS in matching)
        found += _newest(index, directories, spread, limit - len(found))
    return [_found(index, one, marks) for one in found]


class _Match(NamedTuple):
    id: int
    parts: list[int]


def _newest(
    index: sqlite3.Connection,
    directories: Sequence[str],
    parts: dict[int, list[int]],
    limit: int,
    apart_from: Collection[int] = (),
) -> list[_Match]:
    """The newest of these sessions that are recorded in the directories, and hold more than commands such as
    `/status`: as in the list of sessions."""
    if not parts:
        return []
    query = "SELECT mtime, id FROM session WHERE directory = ? AND (turns > 0 OR title != '')"
    rows = (row for directory in directories for row in index.execute(query, (os.fsencode(directory),)))
    wanted = ((-mtime, one) for mtime, one in rows if one in parts and one not in apart_from)
    return [_Match(one, parts[one]) for _, one in nsmallest(limit, wanted)]


def _found(index: sqlite3.Connection, match: _Match, marks: list[str]) -> Found:
    query = "SELECT name, directory, title, turns, mtime FROM session WHERE id = ?"
    name, directory, title, turns, mtime = index.execute(query, (match.id,)).fetchone()
    hits = _hits(index, match.parts, marks)
    return Found(name, os.fsdecode(directory), title, turns, mtime / 1e9, hits)


def _rows(index: sqlite3.Connection, table: str, expression: str) -> list[int]:
    query = f"SELECT rowid FROM {table} WHERE {table} MATCH ?"  # noqa: S608 - one of `WORDS`
    return [row[0] for row in index.execute(query, (expression,))]


def _sessions(rows: Iterable[int]) -> set[int]:
    return {row >> PART_BITS for row in rows}


def _by_session(rows: Iterable[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row in rows:
        session = row >> PART_BITS
        if session in found:
            found[session].append(row)
        else:
            found[session] = [row]
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
