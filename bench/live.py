"""A real model on this machine: which tasks of `coder tune` it finishes in which dialect. Writes LIVE.md.

    ./dev live [--only WAY]… [--task NAME]… [--gguf FILE] [--seconds N] [--results FILE] [--minutes N]
               [--peer PYTHON] [--write]

The model is the one that `coder local` fetches, or a GGUF file. A task is given up after `--seconds` of two
whole cores that the model's server has worked, so that a busy machine makes it slower, not worse. Each
outcome is appended to `--results` and what is there is not run again: with `--minutes` a run is done in
pieces. `--peer`: the interpreter of an environment that has mini-swe-agent, which is given the same
tasks, server, work and checks.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

from coder.addons.local.local_server import LocalServer
from coder.addons.tune.tune_command import VARIANTS, Variant
from coder.addons.tune.tune_run import Named, fault_of, laid_out, run_task, surroundings
from coder.addons.tune.tune_tasks import HELD_OUT, TASKS, Task
from coder.config.load import home_directory
from coder.config.models import LOCAL_MODEL, gguf_of
from coder.models.make import make_model
from coder.texts import Catalog
from work_clock import clock_of, work_of

HERE = Path(__file__).parent
PAGE = HERE / "LIVE.md"
RESULTS = HERE.parent / ".dev" / "live.jsonl"
PEER = "mini-swe-agent"
# The peer has no sandbox of its own: it may write below one directory only.
_CONFINED = 'set -e; mount --make-rprivate /; mount --bind "$0" "$0"; mount -o remount,bind,ro /; exec "$@"'

Outcome = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    names = [PEER, *(variant.name for variant in VARIANTS)]
    parser.add_argument("--only", action="append", default=[], choices=names, metavar="WAY")
    parser.add_argument("--task", action="append", default=[])
    parser.add_argument("--gguf", type=Path, default=gguf_of(LOCAL_MODEL, home_directory(os.environ)))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="then no further task is begun")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--peer", default="", metavar="PYTHON")
    parser.add_argument("--write", action="store_true", help="replace the tables of bench/LIVE.md")
    chosen = parser.parse_args()
    chosen.gguf = chosen.gguf.absolute()
    chosen.results.parent.mkdir(parents=True, exist_ok=True)
    asyncio.run(_run(chosen, time.monotonic() + 60 * chosen.minutes))
    tables = "\n".join(_tables(_outcomes(chosen.results)))
    print(tables)
    if chosen.write:
        told = PAGE.read_text(encoding="utf-8").partition("| way |")[0]
        PAGE.write_text(f"{told}{tables}\n", encoding="utf-8")
    return 0


def _outcomes(results: Path) -> list[Outcome]:
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    return [json.loads(line) for line in lines]


async def _run(chosen: argparse.Namespace, until: float) -> None:
    """What is not among the results yet, one way after the other."""
    tasks = [task for task in TASKS if not chosen.task or task.name in chosen.task]
    variants = [one for one in VARIANTS if not chosen.only or one.name in chosen.only]
    ways: list[tuple[str, Variant | None]] = [(one.name, one) for one in variants]
    if chosen.peer and (not chosen.only or PEER in chosen.only):
        ways.append((PEER, None))
    there = {(one["way"], one["task"]) for one in _outcomes(chosen.results)}
    left = {way: [one for one in tasks if (way, one.name) not in there] for way, _ in ways}
    if not any(left.values()) or time.monotonic() >= until:
        return
    async with _served(chosen.gguf) as server:
        for way, variant in ways:
            if variant is None:
                outcomes = _peer(chosen.peer, server, left[way], chosen.seconds)
            else:
                outcomes = _coder(variant, server, left[way], chosen.seconds)
            async with contextlib.aclosing(outcomes):
                async for outcome in outcomes:
                    line = json.dumps({"way": way, **outcome})
                    with chosen.results.open("a", encoding="utf-8") as file:
                        print(line, file=file)
                    print(line, file=sys.stderr, flush=True)
                    if time.monotonic() >= until:
                        return


@contextlib.asynccontextmanager
async def _served(gguf: Path) -> AsyncIterator[LocalServer]:
    server = LocalServer(gguf)
    async for _ in server.ready(str(gguf)):
        pass
    try:
        yield server
    finally:
        await server.end()


async def _coder(
    variant: Variant, server: LocalServer, tasks: Sequence[Task], seconds: float
) -> AsyncGenerator[Outcome, None]:
    model = make_model(f"{server.url}/v1", server.key, timeout_ms=600_000, dialect=variant.dialect)
    try:
        for task in tasks:
            _idle(server.pid)
            named = Named(model, server.gguf.stem)
            clock = clock_of(server.pid)
            one = await run_task(
                task, named, seconds, Catalog("en"), person={}, tools=variant.tools, clock=clock
            )
            yield _outcome(task, one.why, one.steps, one.usage.total, one.seconds)
    finally:
        await model.close()


def _outcome(task: Task, why: str, steps: int, tokens: int, seconds: float) -> Outcome:
    told = {"task": task.name, "done": not why, "steps": steps, "tokens": tokens}
    return {**told, "seconds": round(seconds, 1), "why": why}


def _idle(pid: int) -> None:
    """The server notices by and by that nobody waits for an answer any more."""
    before = -1.0
    while before != (before := work_of(pid)):
        time.sleep(0.5)


async def _peer(
    python: str, server: LocalServer, tasks: Sequence[Task], seconds: float
) -> AsyncGenerator[Outcome, None]:
    """mini-swe-agent on the same server, with the checks of `coder tune`."""
    if not tasks:
        return
    with tempfile.TemporaryDirectory(prefix="coder-peer-") as top:
        child = _confined(python, top, [f"{server.url}/v1", server.key, server.gguf.stem, str(server.pid)])
        try:
            _heard(child)
            tempfile.tempdir = top
            for task in tasks:
                _idle(server.pid)
                yield await _tried(child, task, seconds)
        finally:
            tempfile.tempdir = None
            child.kill()
            child.communicate()  # closes its pipes


def _confined(python: str, top: str, words: list[str]) -> subprocess.Popen[str]:
    unshare = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"]
    home = Path(top) / "home"
    home.mkdir()
    script = HERE / "mini_peer.py"
    return subprocess.Popen(
        [*unshare, "sh", "-c", _CONFINED, top, python, str(script), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "HOME": str(home), "TMPDIR": str(home), "MSWEA_GLOBAL_CONFIG_DIR": str(home)},
    )


async def _tried(child: subprocess.Popen[str], task: Task, seconds: float) -> Outcome:
    """What counts is how the files are when its work is over, and what it said last.

    The task's directory is inside another that it may write to as well: what it does outside is seen.
    """
    with laid_out(task) as directory:
        environ, _ = surroundings(task, directory.parent, {})
        assert child.stdin is not None
        asked = {"ask": task.ask, "directory": str(directory), "seconds": seconds}
        print(json.dumps(asked), file=child.stdin, flush=True)
        got = await asyncio.to_thread(_heard, child)  # so that Ctrl+C is heard meanwhile
        try:
            why = await fault_of(task, directory, got["answer"], environ)
        except OSError as error:  # it removed a file that must stay
            why = str(error)
    told = _outcome(task, why, got["steps"], got["tokens"], got["seconds"])
    return {**told, "answer": got["answer"], "error": got["error"]}  # for whoever doubts the judgement


def _heard(child: subprocess.Popen[str]) -> dict[str, Any]:
    """Its next line of JSON; what else it prints is not for us."""
    assert child.stdout is not None
    for line in child.stdout:
        if line.startswith("{"):
            return dict(json.loads(line))
    raise SystemExit(f"the peer ended with status {child.wait()}")


def _tables(outcomes: list[Outcome]) -> list[str]:
    by_name = {task.name: task for task in TASKS}
    ways = {way: {one["task"]: one for one in outcomes if one["way"] == way} for way in _ways(outcomes)}
    rows = ["| way | all | single-file | of these held out | steps | tokens | seconds |"]
    rows.append("| --- | --- | --- | --- | --- | --- | --- |")
    for way, own in ways.items():
        tried = [(by_name[name], one["done"]) for name, one in own.items()]
        single = [(task, done) for task, done in tried if task.single_file]
        cells = [_share(tried), _share(single), _share([one for one in single if one[0].name in HELD_OUT])]
        sums = [sum(one[name] for one in own.values()) for name in ("steps", "tokens", "seconds")]
        rows.append(f"| {way} | {' | '.join([*cells, *(f'{one:.0f}' for one in sums)])} |")
    matrix = ["| task | kind | " + " | ".join(ways) + " |", "| --- | --- |" + " --- |" * len(ways)]
    for task in TASKS:
        if any(task.name in own for own in ways.values()):
            cells = [_cell(own.get(task.name)) for own in ways.values()]
            shown = task.name + (" (held out)" if task.name in HELD_OUT else "")
            matrix.append(f"| {shown} | {task.kind} | {' | '.join(cells)} |")
    return [*rows, "", *matrix]


def _ways(outcomes: list[Outcome]) -> Iterator[str]:
    return iter(dict.fromkeys(one["way"] for one in outcomes))


def _share(tried: list[tuple[Task, bool]]) -> str:
    return f"{sum(done for _, done in tried)}/{len(tried)}" if tried else "-"


def _cell(outcome: Outcome | None) -> str:
    if outcome is None:
        return "-"
    return f"{'yes' if outcome['done'] else 'no'}, {outcome['seconds']:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
