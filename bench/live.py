"""`coder tune` with a real model on this machine: which tasks it finishes in which dialect. Writes LIVE.md.

    ./dev live [--only WAY]… [--task NAME]… [--gguf FILE] [--seconds N] [--write]

The model is the one that `coder local` fetches, or a GGUF file. Nothing else should run: a task is given up
after `--seconds`, and on a busy machine that is what is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from coder.cli.tuning.tasks import HELD_OUT, TASKS, Task

PAGE = Path(__file__).with_name("LIVE.md")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--task", action="append", default=[])
    parser.add_argument("--gguf", default="")
    parser.add_argument("--seconds", type=int, default=180)
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
    page = "\n".join(_page(ways, chosen.seconds))
    print(page)
    if chosen.write:
        PAGE.write_text(page + "\n", encoding="utf-8")
    return 0


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
    for at, one in enumerate(ways[0]["outcomes"]):
        task = by_name[one["task"]]
        cells = [_cell(way["outcomes"][at]) for way in ways]
        name = task.name + (" (held out)" if task.name in HELD_OUT else "")
        matrix.append(f"| {name} | {task.kind} | {' | '.join(cells)} |")
    machine = f"{os.cpu_count()} cores ({platform.machine()}), {seconds} s a task at most"
    return ["# A real model on this machine", "", machine + ".", "", *rows, "", *matrix]


def _share(tried: list[tuple[Task, bool]]) -> str:
    return f"{sum(done for _, done in tried)}/{len(tried)}"


def _cell(outcome: dict[str, Any]) -> str:
    return f"{'yes' if outcome['done'] else 'no'}, {outcome['seconds']:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
