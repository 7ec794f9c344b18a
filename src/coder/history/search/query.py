"""Search over the records (sessions in which all words occur, best first) and figures over many sessions."""

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
    SearchIndexError,
    line_around,
    query_marks,
    terms_of,
    transaction,
    with_index,
)
from coder.history.search.facts import ModelFacts, SessionFacts, ToolFacts
from coder.history.search.index import (
    IndexProgress,
    PartKind,
    bring_up_to_date,
    unpacked_body,
    unpacked_parts,
)

_HITS = 3  # lines shown of a session
_PARTS_READ = 4  # of a session, for its lines
_ORDER: dict[PartKind, int] = {"person": 0, "answer": 1, "call": 2, "thinking": 3, "output": 4}


class Hit(msgspec.Struct, frozen=True):
    """A line with some of the words; `kind`: who said it."""

    turn: int
    kind: PartKind
    line: str


class FoundSession(msgspec.Struct, frozen=True):
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
    progress: IndexProgress = lambda left: None,
) -> list[FoundSession]:
    """Sessions that have every word of `query`: in person's and answers' words first, then within one
    turn, then anywhere; each newest first. Raises `SearchIndexError`."""
    terms = terms_of(query)
    if not terms:
        raise SearchIndexError("lookback.no_words")

    def use(index: sqlite3.Connection) -> list[FoundSession]:
        for directory in directories:
            bring_up_to_date(index, directory, progress)
        with transaction(index, writes=False):
            return _search(index, directories, terms, query_marks(query), limit)

    return with_index(home, use)


def _search(
    index: sqlite3.Connection, directories: Sequence[str], terms: list[str], marks: list[str], limit: int
) -> list[FoundSession]:
    said = _by_session(_rows(index, "said", " AND ".join(terms)))
    found = _newest(index, directories, said, limit)
    if len(found) < limit:
        # Person and answers do not say all of it often enough: calls, outputs and thinking too.
        rows = [set(_rows(index, "said", term)).union(_rows(index, "other", term)) for term in terms]
        near = _by_session(sorted(set.intersection(*rows)))
        found += _newest(index, directories, near, limit - len(found), {one.id for one in found})
    if len(found) < limit and len(terms) > 1:
        matching = set.intersection(*({row >> PART_BITS for row in one} for one in rows)) - {
            one.id for one in found
        }
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
    """The newest of these sessions in the directories that have more than commands such as `/status`."""
    if not parts:
        return []
    query = "SELECT mtime, id FROM session WHERE directory = ? AND (turns > 0 OR title != '')"
    rows = (row for directory in directories for row in index.execute(query, (os.fsencode(directory),)))
    wanted = ((-mtime, one) for mtime, one in rows if one in parts and one not in apart_from)
    return [_Match(one, parts[one]) for _, one in nsmallest(limit, wanted)]


def _found(index: sqlite3.Connection, match: _Match, marks: list[str]) -> FoundSession:
    query = "SELECT name, directory, title, turns, mtime FROM session WHERE id = ?"
    name, directory, title, turns, mtime = index.execute(query, (match.id,)).fetchone()
    hits = _hits(index, match.parts, marks)
    return FoundSession(name, os.fsdecode(directory), title, turns, mtime / 1e9, hits)


def _rows(index: sqlite3.Connection, table: str, expression: str) -> list[int]:
    query = f"SELECT rowid FROM {table} WHERE {table} MATCH ?"  # noqa: S608 - one of `WORDS`
    return [row[0] for row in index.execute(query, (expression,))]


def _by_session(rows: Iterable[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row in rows:
        found.setdefault(row >> PART_BITS, []).append(row)
    return found


def _hits(index: sqlite3.Connection, parts: list[int], marks: list[str]) -> list[Hit]:
    ranked = []
    for part in parts[:_PARTS_READ]:
        turn, body = index.execute("SELECT turn, body FROM part WHERE id = ?", (part,)).fetchone()
        for kind, text in unpacked_parts(unpacked_body(body)):
            count, line = line_around(text, marks)
            if count:
                ranked.append((-count, _ORDER[kind], turn, Hit(turn, kind, line)))
    ranked.sort(key=lambda row: row[:3])
    return list({hit.line: hit for *_, hit in ranked}.values())[:_HITS]


class Figures(msgspec.Struct):
    """Facts added up, of the sessions that are listed: those with more than commands such as `/status`."""

    sessions: int = 0
    facts: SessionFacts = msgspec.field(default_factory=SessionFacts)

    @property
    def models(self) -> ModelFacts:
        """All models together."""
        total = ModelFacts()
        for model in self.facts.models.values():
            _add_fields(total, model)
        return total

    @property
    def tool_ms(self) -> int:
        return sum(tool.run_ms for tool in self.facts.tools.values())


class Stats(msgspec.Struct):
    """`days` in order, `projects` by the directory of their records."""

    total: Figures = msgspec.field(default_factory=Figures)
    days: dict[str, Figures] = {}
    projects: dict[str, Figures] = {}


def collect(
    home: Path, directories: Sequence[str], since: str = "", progress: IndexProgress = lambda left: None
) -> Stats:
    """Figures of all sessions in `directories` since that day. Raises `SearchIndexError`."""

    def use(index: sqlite3.Connection) -> Stats:
        stats = Stats()
        for directory in directories:
            bring_up_to_date(index, directory, progress)
            _add_directory(index, directory, since, stats)
        stats.days = dict(sorted(stats.days.items()))
        return stats

    return with_index(home, use)


def _add_directory(index: sqlite3.Connection, directory: str, since: str, stats: Stats) -> None:
    query = (
        "SELECT session.id, part.facts FROM session JOIN part "
        "ON part.id BETWEEN session.id << :bits AND (session.id + 1 << :bits) - 1 "
        "WHERE session.directory = :directory AND (turns > 0 OR title != '') ORDER BY part.id"
    )
    decoder = msgspec.json.Decoder(SessionFacts)
    counted: set[tuple[str, int]] = set()
    for session, row in index.execute(query, {"bits": PART_BITS, "directory": os.fsencode(directory)}):
        facts = decoder.decode(row)
        if facts.day < since:
            continue
        day = stats.days.setdefault(facts.day, Figures())
        project = stats.projects.setdefault(directory, Figures())
        for scope, figures in (("total", stats.total), (facts.day, day), ("project", project)):
            if (scope, session) not in counted:
                counted.add((scope, session))
                figures.sessions += 1
            _add(figures.facts, facts)


def _add(total: SessionFacts, more: SessionFacts) -> None:
    total.turns += more.turns
    total.steps += more.steps
    total.files += more.files
    total.person_ms += more.person_ms
    for counts, others in ((total.ends, more.ends), (total.checks, more.checks)):
        for name, count in others.items():
            counts[name] = counts.get(name, 0) + count
    for name, model in more.models.items():
        _add_fields(total.models.setdefault(name, ModelFacts()), model)
    for name, tool in more.tools.items():
        _add_fields(total.tools.setdefault(name, ToolFacts()), tool)


def _add_fields(total: ModelFacts | ToolFacts, more: ModelFacts | ToolFacts) -> None:
    for field in total.__struct_fields__:
        setattr(total, field, getattr(total, field) + getattr(more, field))
