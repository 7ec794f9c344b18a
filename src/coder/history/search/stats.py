"""Figures over many sessions, added up from the index: in all, by day and by project."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import msgspec

from coder.history.search.database import PART_BITS, with_index
from coder.history.search.facts import Facts, ModelFacts, ToolFacts
from coder.history.search.index import Progress, bring_up_to_date


class Figures(msgspec.Struct):
    """Facts added up, of the sessions that are listed: those with more than commands such as `/status`."""

    sessions: int = 0
    facts: Facts = msgspec.field(default_factory=Facts)

    @property
    def prompt(self) -> int:
        return sum(model.prompt for model in self.facts.models.values())

    @property
    def cached(self) -> int:
        return sum(model.cached for model in self.facts.models.values())

    @property
    def completion(self) -> int:
        return sum(model.completion for model in self.facts.models.values())

    @property
    def cost_usd(self) -> float:
        return sum(model.cost_usd for model in self.facts.models.values())

    @property
    def model_ms(self) -> int:
        return sum(model.wait_ms for model in self.facts.models.values())

    @property
    def tool_ms(self) -> int:
        return sum(tool.run_ms for tool in self.facts.tools.values())


class Stats(msgspec.Struct):
    """`days` in order, `projects` by the directory of their records."""

    total: Figures = msgspec.field(default_factory=Figures)
    days: dict[str, Figures] = {}
    projects: dict[str, Figures] = {}


def collect(
    home: Path, directories: Sequence[str], since: str = "", progress: Progress = lambda left: None
) -> Stats:
    """Over all sessions recorded in `directories`; `since`: only from this day on. Raises `IndexFault`."""

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
    decoder = msgspec.json.Decoder(Facts)
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


def _add(total: Facts, more: Facts) -> None:
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
