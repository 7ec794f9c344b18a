"""`coder tune` with a real model on this machine: which tasks it finishes in which dialect. Writes LIVE.md.

    ./dev live [--only WAY]… [--task NAME]… [--gguf FILE] [--seconds N] [--peer PYTHON] [--write]

The model is the one that `coder local` fetches, or a GGUF file. Nothing else should run: a task is given up
after `--seconds`, and on a busy machine that is what is measured. `--peer`: the interpreter of an environment
that has mini-swe-agent, which is given the same tasks, server, time and checks.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coder.cli.tuning.run import fault_of, laid_out, surroundings
from coder.cli.tuning.tasks import HELD_OUT, TASKS, Task
from coder.config.load import home_directory
from coder.config.models import FETCHED, gguf_of
from coder.model.local.server import LocalServer

PAGE = Path(__file__).with_name("LIVE.md")
# The peer has no sandbox of its own: it may write below one directory only.
_CONFINED = 'set -e; mount --make-rprivate /; mount --bind "$0" "$0"; mount -o remount,bind,ro /; exec "$@"'


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--task", action="append", default=[])
    parser.add_argument("--gguf", default="")
    parser.add_argument("--seconds", type=int, default=180)
    parser.add_argument("--peer", default="", metavar="PYTHON")
    parser.add_argument("--write", action="store_true", help="replace bench/LIVE.md")
    chosen = parser.parse_args()
    model = f"local:{Path(chosen.gguf).absolute()}" if chosen.gguf else "local"
    words = ["tune", "--model", model, "--json", "--seconds", str(chosen.seconds)]
    words += [word for name in chosen.only for word in ("--only", name)]
    words += [word for name in chosen.task for word in ("--task", name)]
    done = subprocess.run(
        [sys.executable, "-m", "coder", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False
    )
    if not done.stdout:
        return done.returncode
    ways = json.loads(done.stdout)["ways"]
    if chosen.peer:
        tasks = [task for task in TASKS if not chosen.task or task.name in chosen.task]
        ways.append(asyncio.run(_peer(chosen.peer, Path(chosen.gguf or _fetched()), tasks, chosen.seconds)))
    page = "\n".join(_page(ways, chosen.seconds))
    print(page)
    if chosen.write:
        PAGE.write_text(page + "\n", encoding="utf-8")
    return 0


def _fetched() -> Path:
    return gguf_of(FETCHED, home_directory(os.environ))


async def _peer(python: str, gguf: Path, tasks: Sequence[Task], seconds: int) -> dict[str, Any]:
    """mini-swe-agent on the same server, with the checks of `coder tune`."""
    server = LocalServer(gguf)
    outcomes: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="coder-peer-") as top:
        async for _ in server.ready(str(gguf)):
            pass
        child = _confined(python, top, [f"{server.url}/v1", server.key, gguf.stem])
        try:
            _heard(child)
            tempfile.tempdir = top
            for task in tasks:
                outcomes.append(await _tried(child, task, seconds))
                print("mini-swe-agent", json.dumps(outcomes[-1]), file=sys.stderr, flush=True)
        finally:
            tempfile.tempdir = None
            child.kill()
            child.communicate()  # closes its pipes
            await server.end()
    sums = {name: sum(one[name] for one in outcomes) for name in ("steps", "tokens", "seconds")}
    return {"variant": "mini-swe-agent", "outcomes": outcomes, **sums}


def _confined(python: str, top: str, words: list[str]) -> subprocess.Popen[str]:
    unshare = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"]
    home = Path(top) / "home"
    home.mkdir()
    script = Path(__file__).with_name("mini_peer.py")
    return subprocess.Popen(
        [*unshare, "sh", "-c", _CONFINED, top, python, str(script), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "HOME": str(home), "TMPDIR": str(home), "MSWEA_GLOBAL_CONFIG_DIR": str(home)},
    )


async def _tried(child: subprocess.Popen[str], task: Task, seconds: int) -> dict[str, Any]:
    with laid_out(task) as directory:
        environ, _ = surroundings(task, directory.parent)
        assert child.stdin is not None
        began = time.monotonic()
        print(
            json.dumps({"ask": task.ask, "directory": str(directory), "seconds": seconds}),
            file=child.stdin,
            flush=True,
        )
        got = _heard(child)
        took = time.monotonic() - began
        try:
            why = await fault_of(task, directory, got["answer"], environ)
        except OSError as error:  # it removed a file that must stay
            why = str(error)
    return {
        "task": task.name,
        "done": not why,
        "steps": got["steps"],
        "tokens": got["tokens"],
        "seconds": took,
        "why": why,
    }


def _heard(child: subprocess.Popen[str]) -> dict[str, Any]:
    """Its next line of JSON; what else it prints is not for us."""
    assert child.stdout is not None
    for line in child.stdout:
        if line.startswith("{"):
            return dict(json.loads(line))
    raise SystemExit(f"the peer ended with status {child.wait()}")


def _page(ways: list[dict[str, Any]], seconds: int) -> list[str]:
    by_name = {task.name: task for task in TASKS}
    rows = ["| way | all | single-file | of these held out | steps | tokens | seconds |"]
    rows.append("| --- | --- | --- | --- | --- | --- | --- |")
    for way in ways:
        tried = [(by_name[one["task"]], one["done"]) for one in way["outcomes"]]
        single = [(task, done) for task, done in tried if task.single_file]
        cells = [_share(tried), _share(single), _share([one for one in single if one[0].name in HELD_OUT])]
        cells += [str(way["steps"]), str(way["tokens"]), f"{way['seconds']:.0f}"]
        rows.append(f"| {way['variant']} | {' | '.join(cells)} |")
    matrix = ["| task | kind | " + " | ".join(way["variant"] for way in ways) + " |"]
    matrix.append("| --- | --- |" + " --- |" * len(ways))
    outcomes = [{one["task"]: one for one in way["outcomes"]} for way in ways]
    for name in dict.fromkeys(name for one in outcomes for name in one):
        task = by_name[name]
        cells = [_cell(one.get(name)) for one in outcomes]
        shown = task.name + (" (held out)" if task.name in HELD_OUT else "")
        matrix.append(f"| {shown} | {task.kind} | {' | '.join(cells)} |")
    machine = f"{os.cpu_count()} cores ({platform.machine()}), {seconds} s a task at most"
    return ["# A real model on this machine", "", machine + ".", "", *rows, "", *matrix]


def _share(tried: list[tuple[Task, bool]]) -> str:
    return f"{sum(done for _, done in tried)}/{len(tried)}"


def _cell(outcome: dict[str, Any] | None) -> str:
    if outcome is None:
        return "-"
    return f"{'yes' if outcome['done'] else 'no'}, {outcome['seconds']:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
