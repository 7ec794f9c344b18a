"""`coder compare DIR DIR2`: what changed between two batches of the same tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from coder.cli.args import Parser
from coder.cli.common import parser_for, settings_from
from coder.cli.errors import Exit, UsageError
from coder.cli.streams import show, show_json
from coder.terminal.render.sanitize import flat
from coder.texts import Texts

if TYPE_CHECKING:
    from coder.batch.compare import Comparison, Difference, Share

_MOST_NAMED = 50


def run(arguments: list[str]) -> int:
    from coder.batch.compare import compare
    from coder.batch.tasks import BatchError

    chosen = parser(arguments).parse_args(arguments)
    try:
        found = compare(chosen.first, chosen.second)
    except BatchError as error:
        raise UsageError(error.phrase) from None
    if chosen.json:
        show_json(found)
    else:
        _, settings = settings_from(chosen)
        show("\n".join(_lines(found, settings.texts)))
    return Exit.ANSWERED


def parser(arguments: list[str]) -> Parser:
    made = parser_for("compare", arguments)
    made.arguments.add_argument("first", type=Path, metavar="DIR", help=made.say("batch.help.first"))
    made.arguments.add_argument("second", type=Path, metavar="DIR2", help=made.say("batch.help.second"))
    made.options.add_argument("--json", action="store_true", help=made.say("cli.help.json_object"))
    return made


def _lines(found: Comparison, texts: Texts) -> list[str]:
    say = texts.say
    lines = [
        say("batch.compare.tasks", n=found.common),
        say("batch.compare.success", before=_share(found.first), after=_share(found.second)),
        say("batch.compare.better", n=len(found.better)),
        *_named(found.better, texts),
        say("batch.compare.worse", n=len(found.worse)),
        *_named(found.worse, texts),
        say("batch.compare.chance", chance=f"{found.chance:.3f}"),
    ]
    if found.cost is not None:
        lines.append(say("batch.compare.cost", change=_change(found.cost, "${:.4f}", texts)))
    if found.steps is not None:
        lines.append(say("batch.compare.steps", change=_change(found.steps, "{:g}", texts)))
    for key, tasks in (
        ("batch.compare.first", found.only_first),
        ("batch.compare.second", found.only_second),
    ):
        if tasks:
            lines += [say(key, n=len(tasks)), *_named(tasks, texts)]
    return lines


def _share(share: Share) -> str:
    low, high = share.interval
    return f"{share.count}/{share.of} ({100 * low:.1f}–{100 * high:.1f} %)"


def _named(tasks: list[str], texts: Texts) -> list[str]:
    more = [texts.say("batch.more", n=len(tasks) - _MOST_NAMED)] if len(tasks) > _MOST_NAMED else []
    return [*(f"  {flat(task)}" for task in tasks[:_MOST_NAMED]), *more]


def _change(found: Difference, form: str, texts: Texts) -> str:
    total = f"{form.format(found.before)} → {form.format(found.after)}"
    median = _signed(form, found.median)
    if found.interval is None:
        return texts.say("batch.compare.few", total=total, median=median)
    low, high = (_signed(form, value) for value in found.interval)
    return texts.say("batch.compare.median", total=total, median=median, low=low, high=high)


def _signed(form: str, value: float) -> str:
    """The sign goes before the currency."""
    return ("-" if value < 0 else "") + form.format(abs(value))
