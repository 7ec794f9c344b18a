"""`coder batch TASKS.jsonl --out DIR`: many tasks at once. `coder batch status DIR`: how far they are."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from msgspec.structs import replace

from coder import (
    KNOWN,
    OPERATING_MODES,
    PRESETS,
    Config,
    Exit,
    ModelError,
    Options,
    Parser,
    Settings,
    UsageError,
    html_file,
    options_from,
    parser_for,
    positive,
    price_of,
    provider_of,
    read_settings,
    show,
    with_model_named,
)
from coder.addons.batch.attempt import LocalEngine
from coder.addons.batch.batch_page import write_page
from coder.addons.batch.cluster import RayEngine
from coder.addons.batch.driver import Driver, plan
from coder.addons.batch.limits import Limits
from coder.addons.batch.results import OutputDirectory, read_status
from coder.addons.batch.table import Display, status_lines
from coder.addons.batch.task import Secrets
from coder.addons.batch.task import Settings as Shared
from coder.addons.batch.task_file import BatchError, TaskFile, read_matrix
from coder.addons.batch.workspace_of_task import files_of
from coder.base.process.own_process import STOP_OR_INTERRUPT, heard
from coder.texts import CoderError

if TYPE_CHECKING:
    from coder import Provider
    from coder.addons.batch.driver import BatchEngine, Plan
    from coder.addons.batch.limits import Limits
    from coder.addons.batch.results import OutputDirectory, Progress
    from coder.addons.batch.task import Secrets
    from coder.addons.batch.task_file import TaskFile

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_TASK_SECONDS = 3600.0
_REACH_SECONDS = 10.0


def run(arguments: list[str]) -> int:
    chosen = parser(arguments).parse_args(arguments)
    try:
        if chosen.tasks == "status":
            return _status(chosen)
        if chosen.directory is not None:
            raise UsageError("batch.surplus", word=chosen.directory)
        if chosen.engine != "ray" and (chosen.address or chosen.task_cpus or chosen.task_memory):
            raise UsageError("batch.ray_only")
        if chosen.out is None:
            raise UsageError("batch.out_missing")
        return _batch(chosen)
    except BatchError as error:
        raise UsageError(error.phrase) from None


def parser(arguments: list[str]) -> Parser:
    made = parser_for("batch", arguments)
    say = made.say
    made.arguments.add_argument("tasks", metavar="TASKS.jsonl", help=say("batch.help.tasks"))
    status = say("batch.help.status")
    made.arguments.add_argument("directory", nargs="?", type=Path, metavar="DIR", help=status)
    add = made.options.add_argument
    modes = ", ".join(OPERATING_MODES)
    add("--out", type=Path, metavar="DIR", help=say("batch.help.out"))
    add("--engine", choices=("local", "ray"), default="local", help=say("batch.help.engine"))
    add("--jobs", type=positive, default=0, metavar="N", help=say("batch.help.jobs"))
    add("--address", default="", metavar="A", help=say("batch.help.address"))
    add("--task-cpus", type=_cpus, default=0.0, metavar="N", help=say("batch.help.task_cpus"))
    add("--task-memory", type=_bytes, default=0, metavar="SIZE", help=say("batch.help.task_memory"))
    add("--resume", action="store_true", help=say("batch.help.resume"))
    add("--retry", choices=("failed",), help=say("batch.help.retry"))
    add("--matrix", nargs="+", action="extend", default=[], metavar="NAME=A,B", help=say("batch.help.matrix"))
    add("--budget", type=_usd, metavar="USD", help=say("batch.help.budget"))
    add("--rpm", action="append", default=[], metavar="N", help=say("batch.help.rpm"))
    add("--time", type=_seconds, metavar="TIME", help=say("batch.help.time"))
    add("--timeout", type=_seconds, default=_TASK_SECONDS, metavar="TIME", help=say("batch.help.timeout"))
    add("--mode", default="auto-edit", metavar="MODE", help=say("cli.help.mode", modes=modes))
    add("--model", default="", metavar="NAME", help=say("cli.help.model"))
    add("--permissions", choices=PRESETS, default="", metavar="PRESET", help=", ".join(PRESETS))
    add("--max-steps", type=positive, default=0, metavar="N", help=say("cli.help.max_steps"))
    return made


def _usd(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e9:
        raise ValueError
    return value


def _cpus(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1024:
        raise ValueError
    return value


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d{1,9})([KMGT]?)", text.upper().removesuffix("B"))
    if not found or not int(found[1]):
        raise ValueError
    return int(found[1]) << (10 * "KMGT".find(found[2]) + 10 if found[2] else 0)


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)([smhd]?)", text)
    if not found or not float(found[1]):
        raise ValueError
    return float(found[1]) * _UNITS[found[2]]


# status


def _status(chosen: argparse.Namespace) -> int:
    directory = chosen.directory or chosen.out
    if directory is None:
        raise UsageError("batch.status_missing")
    status = read_status(directory)
    options = options_from(chosen)
    texts = read_settings(options).texts
    show("\n".join(status_lines(status, directory, texts)))
    return Exit.ANSWERED


# a batch


def _batch(chosen: argparse.Namespace) -> int:
    options, settings = _settings(chosen)
    provider = provider_of(options, settings)
    rpm = _rates(chosen.rpm)
    with closing(TaskFile(chosen.tasks_path, read_matrix(chosen.matrix), options.environ)) as tasks:
        if not provider.model:
            provider = _with_model_named(provider)
            chosen.model = provider.model
            options = replace(options, model=chosen.model)
        _refuse_rates_of_nobody(rpm, options, tasks.models)
        counted = {name or provider.model for name in tasks.counted}
        if chosen.budget is not None:
            counted |= {provider.model, *tasks.models}
        _refuse_unpriced(options, settings.loaded.config, counted)
        with closing(OutputDirectory(chosen.out)) as out:
            if (out.path / "results.jsonl").stat().st_size and not (chosen.resume or chosen.retry):
                raise UsageError("batch.has_results", directory=chosen.out)
            todo = plan(tasks, out, retry_failed=bool(chosen.retry))
            limits = Limits(rpm, chosen.budget, todo.spent, todo.dearest, clock=time.monotonic)
            batch = token_hex(8)  # of this run alone: whatever else a machine of the cluster has to do
            engine = _engine(chosen, batch, limits, _secrets(tasks, options, settings))
            return _drive(chosen, tasks, todo, out, engine, settings, batch)


def _engine(chosen: argparse.Namespace, batch: str, limits: Limits, secrets: Secrets) -> BatchEngine:
    if chosen.engine == "ray":
        cpus, memory = chosen.task_cpus or 1.0, chosen.task_memory or 1 << 30
        address = chosen.address or "auto"
        return RayEngine(batch, address, chosen.jobs, limits, secrets, cpus=cpus, memory=memory)

    return LocalEngine(batch, chosen.jobs or os.cpu_count() or 1, limits, secrets)


def _settings(chosen: argparse.Namespace) -> tuple[Options, Settings]:
    chosen.tasks_path = Path(chosen.tasks)
    if chosen.mode not in OPERATING_MODES and not chosen.mode.startswith("/"):
        raise UsageError("cli.no_mode", name=chosen.mode, modes=", ".join(OPERATING_MODES))
    options = replace(options_from(chosen), model=chosen.model, preset=chosen.permissions)
    return options, read_settings(options)


def _with_model_named(provider: Provider) -> Provider:
    """Asked once, not by every task; where the server does not say, each task tells why."""

    async def ask() -> Provider:
        async with asyncio.timeout(_REACH_SECONDS):
            return await with_model_named(provider)

    with suppress(ModelError, TimeoutError):
        return asyncio.run(ask())
    return provider


def _refuse_unpriced(options: Options, config: Config, models: set[str]) -> None:
    """A budget that cannot count is none."""
    missing = set()
    for model in models:
        one = replace(options, model=model)
        base_url = provider_of(one, read_settings(one)).base_url
        asked = {config.routing.fast, config.routing.strong} - {""} if model == "auto" else {model}
        missing |= {name for name in asked if price_of(config.budget.prices, name, base_url) is None}
    if missing:
        raise UsageError("batch.no_price", models=", ".join(name or "(default)" for name in sorted(missing)))


def _rates(words: list[str]) -> dict[str, int]:
    """`60`, or `openai=60`."""
    rates = {}
    for word in words:
        provider, _, number = word.rpartition("=")
        if not number.isascii() or not number.isdigit() or not int(number):
            raise UsageError("batch.rate", word=word)
        rates[provider] = int(number)
    return rates


def _refuse_rates_of_nobody(rates: Mapping[str, int], options: Options, models: set[str]) -> None:
    """A misspelt name would limit nothing."""
    named = set(rates) - {""}
    if not named:
        return
    each = [replace(options, model=model) for model in ("", *models)]
    names = {provider_of(one, read_settings(one)).name for one in each}
    if unknown := sorted(named - names):
        raise UsageError("batch.rate_of_nobody", name=unknown[0], names=", ".join(sorted(names)))


def _secrets(tasks: TaskFile, options: Options, settings: Settings) -> Secrets:
    names = {"CODER_BASE_URL", "CODER_API_KEY", "CODER_MODEL"}
    for known in KNOWN:
        names |= {known.key_variable, known.base_variable, known.model_variable}
    environ: Mapping[str, str] = options.environ
    files, config = files_of(environ, settings.home, settings.loaded.of_person)
    return Secrets(
        provider={name: environ[name] for name in sorted(names) if name in environ},
        named={name: environ[name] for name in tasks.variables if name in environ},
        config=config,
        files=files,
    )


def _drive(
    chosen: argparse.Namespace,
    tasks: TaskFile,
    todo: Plan,
    out: OutputDirectory,
    engine: BatchEngine,
    settings: Settings,
    batch: str,
) -> int:
    display = Display(out.path, settings.texts)
    shared = Shared(
        batch=batch,
        mode=chosen.mode,
        model=chosen.model,
        preset=chosen.permissions,
        max_steps=chosen.max_steps,
        timeout_s=chosen.timeout,
        hidden=[
            *([os.path.realpath(chosen.tasks_path)] if chosen.tasks_path.is_file() else []),
            *([os.path.realpath(out.path)] if out.has_results_alone else []),
        ],
    )
    driver = Driver(tasks, todo, out, engine, shared, show=display.show, seconds=chosen.time)
    kept = {number: signal.getsignal(number) for number in heard(STOP_OR_INTERRUPT)}
    for number in kept:
        obey = driver.interrupt if number == signal.SIGINT else driver.cancel
        signal.signal(number, lambda *_, obey=obey: obey())
    try:
        progress = driver.run()
    except OSError as error:
        raise CoderError("batch.unwritten", directory=out.path, why=error.strerror) from None
    finally:
        engine.close()
        for number, handler in kept.items():
            signal.signal(number, handler)

    write_page(out.path, lambda record, task: html_file(record, task, task, settings.texts))
    display.finish(progress)
    return _exit_status(progress)


def _exit_status(progress: Progress) -> int:
    if progress.stopped in ("interrupted", "cancelled"):
        return Exit.CANCELLED
    return Exit.ANSWERED if progress.succeeded == progress.total else Exit.FAILED
