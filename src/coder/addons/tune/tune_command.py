"""`coder tune`: try a model with small real tasks in each dialect and tool set, and keep what suits it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from coder import (
    ChatModel,
    Config,
    Dialect,
    Exit,
    ModelError,
    Options,
    Provider,
    Settings,
    ToolSet,
    UsageError,
    ask_at_start,
    columns,
    complain,
    model_in,
    parser_for,
    positive,
    price_of,
    provider_of,
    read_settings,
    set_in_user_file,
    settings_from,
    show,
    show_json,
    with_model_named,
)
from coder.addons.tune.tune_run import Named, Outcome, probe_window, run_task
from coder.addons.tune.tune_tasks import TASKS, Task
from coder.texts import Catalog

SMALL_WINDOW = 32_768  # tokens; a window up to this is kept with what suits the model


_HOPELESS = ("auth", "unreachable")  # faults that say nothing of the model, and that the next task has too


class Variant(msgspec.Struct, frozen=True):
    """A way to put the tools to a model."""

    dialect: Dialect
    tools: ToolSet = "all"

    @property
    def name(self) -> str:
        return self.dialect if self.tools == "all" else f"{self.dialect}, {self.tools}"


VARIANTS = (Variant("native"), Variant("native", "few"), Variant("react-xml", "few"), Variant("guided"))


class Sum(msgspec.Struct, frozen=True):
    """What a variant came to."""

    variant: str
    done: int
    tasks: int
    steps: int
    tokens: int
    seconds: float
    cost: float | None
    outcomes: list[Outcome]


def run(arguments: list[str]) -> int:
    parser = parser_for("tune", arguments)
    add, say = parser.options.add_argument, parser.say
    names = [variant.name for variant in VARIANTS]
    add("--model", default="", metavar="NAME", help=say("cli.help.model"))
    add("--task", action="append", default=[], metavar="NAME", help=say("cli.help.tune_task"))
    add("--only", action="append", default=[], choices=names, metavar="WAY", help=say("cli.help.tune_only"))
    add("--seconds", type=positive, default=180, metavar="N", help=say("cli.help.tune_seconds"))
    add("--yes", action="store_true", help=say("cli.help.tune_yes"))
    add("--json", action="store_true", help=say("cli.help.json_object"))
    chosen = parser.parse_args(arguments)
    options, settings = settings_from(chosen)
    options = msgspec.structs.replace(options, model=chosen.model)
    unknown = [name for name in chosen.task if name not in {task.name for task in TASKS}]
    if unknown:
        raise UsageError("cli.tune.no_task", name=unknown[0], names=", ".join(task.name for task in TASKS))
    tasks = [task for task in TASKS if not chosen.task or task.name in chosen.task]
    variants = [variant for variant in VARIANTS if not chosen.only or variant.name in chosen.only]
    return asyncio.run(_tune(options, settings, tasks, variants, chosen))


async def _tune(
    options: Options, settings: Settings, tasks: Sequence[Task], variants: Sequence[Variant], chosen: Any
) -> int:
    say = settings.texts.say
    options, settings = _with_model(options, settings)
    try:
        provider = await with_model_named(provider_of(options, settings))
    except ModelError as error:
        complain(error.text(settings.texts))
        return Exit.FAILED
    _progress(say("cli.tune.begin", model=provider.model, n=len(tasks), ways=len(variants)))
    try:
        sums = [
            await _tried(variant, tasks, provider, options, settings, chosen.seconds) for variant in variants
        ]
    except ModelError as error:
        complain(error.text(settings.texts))
        return Exit.FAILED
    best = max(sums, key=lambda one: (one.done, -one.seconds))
    window = await probe_window(provider.base_url, provider.model)
    if chosen.json:
        told = {"model": provider.model, "window": window, "best": best.variant, "ways": sums}
        show_json(told)
    else:
        show("\n".join(_table(sums, settings.texts)))
    if not best.done:
        show(say("cli.tune.nothing", model=provider.model), sys.stderr)
        return Exit.FAILED
    show(say("cli.tune.suits", model=provider.model, way=best.variant), sys.stderr)
    if chosen.yes or (sys.stdin.isatty() and ask_at_start(say("cli.tune.keep"), settings.texts)):
        variant = next(one for one in variants if one.name == best.variant)
        file = set_in_user_file(settings.home, ("provider", "models", provider.model), _kept(variant, window))
        show(say("cli.tune.kept", file=file), sys.stderr)
    return Exit.ANSWERED


def _with_model(options: Options, settings: Settings) -> tuple[Options, Settings]:
    """The settings with the model of the command line, which is read before they are."""
    return (options, read_settings(options)) if options.model else (options, settings)


def _kept(variant: Variant, window: int) -> dict[str, Any]:
    kept: dict[str, Any] = {"dialect": variant.dialect, "tools": variant.tools}
    return {**kept, "context_window": window} if 0 < window <= SMALL_WINDOW else kept


async def _tried(
    variant: Variant,
    tasks: Sequence[Task],
    provider: Provider,
    options: Options,
    settings: Settings,
    seconds: float,
) -> Sum:
    """Raises `ModelError` where the server cannot be reached, or refuses the key."""
    model: ChatModel = model_in(provider, settings, options, variant.dialect)
    named = Named(model, provider.model)
    outcomes: list[Outcome] = []
    try:
        for at, task in enumerate(tasks, 1):
            person = settings.loaded.of_person
            outcome = await run_task(task, named, seconds, settings.texts, person=person, tools=variant.tools)
            if named.fault is not None:
                if named.fault.kind in _HOPELESS:
                    raise named.fault
                why = named.fault.text(settings.texts)
                outcome = msgspec.structs.replace(outcome, done=False, why=why)
            outcomes.append(outcome)
            _progress(_line(variant, at, len(tasks), outcome, settings.texts))
    finally:
        await model.close()
    return _sum(variant, outcomes, settings.loaded.config, provider)


def _line(variant: Variant, at: int, total: int, outcome: Outcome, texts: Catalog) -> str:
    mark = texts.say("cli.tune.done" if outcome.done else "cli.tune.failed")
    tail = f" ({outcome.why})" if outcome.why else ""
    return f"{variant.name}  {at}/{total}  {outcome.task}  {mark}  {outcome.seconds:.1f} s{tail}"


def _sum(variant: Variant, outcomes: list[Outcome], config: Config, provider: Provider) -> Sum:
    price = price_of(config.budget.prices, provider.model, provider.base_url)
    used = [outcome.usage for outcome in outcomes]
    costs = [price.cost(one.prompt, one.completion, one.cached, one.written) for one in used] if price else []
    return Sum(
        variant=variant.name,
        done=sum(outcome.done for outcome in outcomes),
        tasks=len(outcomes),
        steps=sum(outcome.steps for outcome in outcomes),
        tokens=sum(outcome.usage.total for outcome in outcomes),
        seconds=round(sum(outcome.seconds for outcome in outcomes), 1),
        cost=None if price is None else sum(costs),
        outcomes=outcomes,
    )


def _table(sums: Sequence[Sum], texts: Catalog) -> list[str]:
    heads = [
        texts.say(f"cli.tune.head.{name}") for name in ("way", "done", "steps", "tokens", "seconds", "cost")
    ]
    rows = [
        [
            one.variant,
            f"{one.done}/{one.tasks}",
            str(one.steps),
            str(one.tokens),
            f"{one.seconds:.0f}",
            "-" if one.cost is None else f"{one.cost:.4f}",
        ]
        for one in sums
    ]
    return columns([heads, *rows])


def _progress(text: str) -> None:
    show(text, sys.stderr)
