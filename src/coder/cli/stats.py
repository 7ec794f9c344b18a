"""`coder stats`: what the sessions did, took and cost, by day, model, project and tool."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from typing import Any

import msgspec

from coder.cli.arguments import positive
from coder.cli.common import columns, parser_for, settings_from
from coder.cli.search import indexing_shown, projects_of
from coder.history.search.facts import ModelFacts
from coder.history.search.query import Figures, Stats, collect
from coder.texts import Catalog
from coder.ui.streams import Exit, show, show_json
from coder.ui.terminal.render.escapes import flat
from coder.ui.terminal.render.width import text_width

_DAYS_SHOWN = 30
_STATES = ("passed", "failed", "skipped", "gave_up")
_WIDEST_BAR = 40
_EIGHTHS = " ▏▎▍▌▋▊▉"


def run(arguments: list[str]) -> int:
    parser = parser_for("stats", arguments)
    add = parser.options.add_argument
    add("--all", action="store_true", help=parser.say("stats.help.all"))
    add("--days", type=positive, metavar="N", help=parser.say("stats.help.days"))
    add("--json", action="store_true", help=parser.say("cli.help.json_object"))
    chosen = parser.parse_args(arguments)
    options, settings = settings_from(chosen)
    projects = projects_of(options, settings, everywhere=chosen.all)
    since = ""
    if chosen.days:
        since = (date.today() - timedelta(days=min(chosen.days - 1, 100_000))).isoformat()
    directories = [project.history for project in projects]
    stats = collect(settings.home, directories, since, indexing_shown(settings.texts))
    roots = {project.history: project.root for project in projects}
    if chosen.json:
        show_json(_as_json(stats, roots))
        return Exit.ANSWERED
    if not stats.total.sessions:
        key = "stats.none_lately" if chosen.days else "stats.none"
        show(settings.texts.say(key, n=chosen.days))
        return Exit.ANSWERED
    width = shutil.get_terminal_size().columns
    for line in _Page(settings.texts, width).lines(stats, roots if chosen.all else {}):
        show(line.rstrip())
    return Exit.ANSWERED


def _as_json(stats: Stats, roots: dict[str, str]) -> dict[str, Any]:
    return {
        "total": _row(stats.total),
        "days": [{"day": day, **_row(one)} for day, one in stats.days.items()],
        "projects": [{"project": roots[name], **_row(one)} for name, one in stats.projects.items()],
    }


def _row(one: Figures) -> dict[str, Any]:
    facts, models = one.facts, one.models
    return {
        "sessions": one.sessions,
        "turns": facts.turns,
        "steps": facts.steps,
        "files_changed": facts.files,
        "tokens": {"prompt": models.prompt, "cached": models.cached, "completion": models.completion},
        "cache_share": round(models.cached / models.prompt, 4) if models.prompt else None,
        "cost_usd": round(models.cost_usd, 6),
        "model_ms": models.wait_ms,
        "tool_ms": one.tool_ms,
        "person_ms": facts.person_ms,
        "turns_ended": facts.ends,
        "checks": facts.checks,
        "models": {name: msgspec.structs.asdict(model) for name, model in sorted(facts.models.items())},
        "tools": {name: msgspec.structs.asdict(tool) for name, tool in sorted(facts.tools.items())},
    }


class _Page:
    """The figures as lines of at most `width` cells, with bars."""

    def __init__(self, texts: Catalog, width: int) -> None:
        self.say = texts.say
        self._width = width
        plain = (os.environ.get("TERM") == "dumb") or not _has_blocks()
        self._bar = _plain_bar if plain else _block_bar

    def lines(self, stats: Stats, roots: dict[str, str]) -> Iterator[str]:
        total, facts, every = stats.total, stats.total.facts, stats.total.models
        say = self.say
        yield say("stats.total", sessions=total.sessions, turns=facts.turns, steps=facts.steps)
        yield say(
            "stats.tokens",
            prompt=f"{every.prompt:,}",
            share=_share(every.cached, every.prompt),
            completion=f"{every.completion:,}",
            cost=_cost(every.cost_usd),
        )
        if facts.checks:
            ran = ", ".join(
                f"{say(f'viewer.word.{name}') if name in _STATES else flat(name)} {count}"
                for name, count in sorted(facts.checks.items())
            )
            yield say("stats.checks", checks=ran)
        yield from self._part("stats.time", None, self._times(total))
        yield from self._part("stats.by_day", _USE, self._days(stats.days))
        models = sorted(facts.models.items(), key=lambda item: -item[1].prompt - item[1].completion)
        yield from self._part(
            "stats.by_model",
            ("requests", "prompt", "cached", "completion", "cost", "time"),
            (
                (
                    [name, str(one.requests), *_tokens(one), _cost(one.cost_usd), self._time(one.wait_ms)],
                    one.prompt + one.completion,
                )
                for name, one in models
            ),
        )
        if roots:
            used = {name: one.models for name, one in stats.projects.items()}
            named = sorted(
                stats.projects.items(), key=lambda item: -used[item[0]].prompt - used[item[0]].completion
            )
            rows = (self._use(roots[name], one) for name, one in named)
            yield from self._part("stats.by_project", _USE, rows)
        yield from self._part(
            "stats.by_tool",
            ("calls", "failed", "denied", "time"),
            (
                (
                    [name, str(one.calls), str(one.failures), str(one.denied), self._time(one.run_ms)],
                    one.calls,
                )
                for name, one in sorted(facts.tools.items(), key=lambda item: (-item[1].calls, item[0]))
            ),
        )

    def _times(self, total: Figures) -> Iterator[_Bar]:
        for key, spent in (
            ("stats.time.model", total.models.wait_ms),
            ("stats.time.tools", total.tool_ms),
            ("stats.time.person", total.facts.person_ms),
        ):
            yield [self.say(key), self._time(spent)], spent

    def _time(self, milliseconds: int) -> str:
        seconds = milliseconds / 1000
        if seconds < 60:
            return self.say("stats.seconds", seconds=f"{seconds:.1f}")
        minutes, rest = divmod(round(seconds), 60)
        if minutes < 60:
            return self.say("stats.minutes", minutes=minutes, seconds=f"{rest:02d}")
        return self.say("stats.hours", hours=minutes // 60, minutes=f"{minutes % 60:02d}")

    def _days(self, days: dict[str, Figures]) -> Iterator[_Bar]:
        return (self._use(day or "–", one) for day, one in list(days.items())[-_DAYS_SHOWN:])

    def _use(self, name: str, one: Figures) -> _Bar:
        counts, models = [str(one.sessions), str(one.facts.turns), str(one.facts.steps)], one.models
        return [name, *counts, *_tokens(models), _cost(models.cost_usd)], models.prompt + models.completion

    def _part(self, title: str, head: Sequence[str] | None, bars: Iterable[_Bar]) -> Iterator[str]:
        """A heading and a table; each row ends with a bar, or with none where the terminal is too narrow."""
        rows = list(bars)
        if not rows:
            return
        cells = [[flat(row[0]), *row[1:]] for row, _ in rows]
        if head is not None:
            cells.insert(0, ["", *(self.say(f"stats.head.{name}") for name in head)])
        lines = columns(_right_aligned(cells))
        room = min(_WIDEST_BAR, self._width - max(map(text_width, lines)) - 4)
        longest = max(map(text_width, lines))
        most = max(size for _, size in rows)
        yield ""
        yield self.say(title)
        if head is not None:
            yield "  " + lines.pop(0)
        for line, (_, size) in zip(lines, rows, strict=True):
            bar = self._bar(size / most, room) if most and room > 4 else ""
            yield f"  {line}{' ' * (longest - text_width(line))}  {bar}"


_Bar = tuple[list[str], int]  # the cells of a row, and how long its bar is
_USE = ("sessions", "turns", "steps", "prompt", "cached", "completion", "cost")


def _right_aligned(rows: list[list[str]]) -> list[list[str]]:
    widths = [max(map(text_width, column)) for column in zip(*rows, strict=True)]
    return [
        [row[0], *(" " * (widths[at] - text_width(row[at])) + row[at] for at in range(1, len(row)))]
        for row in rows
    ]


def _has_blocks() -> bool:
    try:
        _EIGHTHS.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _block_bar(share: float, room: int) -> str:
    eighths = max(1, round(share * room * 8)) if share else 0
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _plain_bar(share: float, room: int) -> str:
    return "#" * (max(1, round(share * room)) if share else 0)


def _tokens(one: ModelFacts) -> list[str]:
    return [f"{one.prompt:,}", _share(one.cached, one.prompt), f"{one.completion:,}"]


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "–"


def _cost(dollars: float) -> str:
    """No price is known where requests cost nothing."""
    return f"${dollars:.2f}" if dollars >= 0.005 else f"${dollars:.4f}" if dollars else "–"
