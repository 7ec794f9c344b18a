"""Measure an installed wheel of this checkout and write bench/RESULTS.md. About two minutes.

./dev bench [--quick]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from place import CHECKOUT, Installed, Server, Workspace
from processes import STEPS, Times, gaps, long_answer, starts

SIZES = (1_000, 10_000, 20_000)
POINTS = (10, 1_000, 10_000)  # as in record_worker.py, which runs in another environment


def worker(installed: Installed, *args: str) -> dict[str, Any]:
    script = str(Path(__file__).with_name("record_worker.py"))
    done = subprocess.run([installed.python, script, *args], check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]


START = """\
## Start

Milliseconds of wall time: median (minimum).
"""
GAPS = f"""\
## Steps

From the last byte of an answer to the first byte of the next request, in yolo mode, running `true` in
between; {STEPS} steps in one turn. Milliseconds: median (minimum).
"""
LONG = """\
## A long answer

200 KB in 12,500 deltas of 16 characters, `--once` into a pipe. Milliseconds of CPU time: median (minimum).
"""
APPENDING = """\
## Appending

The engine's own session, 10,000 steps: an answer with a call, the call, and its result of 1 KB; older
history is compacted as in any session. The time of step n is the median of 19 around it.
"""
RESUMING = """\
## Taking a session up again

From the log alone, to a conversation that can be sent. RSS is the whole process; the last column is what the
session adds to it.
"""
HEADING = """\
# What coder costs

Written by `./dev bench`: a wheel of the checkout, installed into an environment of its own and compiled; the
model is a script on the loopback in another process, which keeps the time.

Machine: {cores} cores, Linux, {python}. It is shared with other work, so single runs scatter;
what is compared was run in turns. The ratios carry over to other machines, the times do not.
"""


def compared(rows: list[tuple[str, Times]], base: Times) -> list[str]:
    head = ["what", "ms", "against `python -c pass`"]
    return table(head, [[name, str(times), times.over(base)] for name, times in rows])


def process_rows(installed: Installed, directory: Path, quick: bool) -> list[str]:
    with Server() as server:
        workspace = Workspace(directory, server.url)
        start = starts(installed, server, workspace, 7 if quick else 25)
        gap = gaps(installed, server, workspace, 1 if quick else 3)
        long = long_answer(installed, server, workspace, 2 if quick else 5)
    base = start["python"]
    walls = [
        ("`python -c pass`", base),
        ("`coder --version`", start["version"]),
        ("process start → first request on the wire", start["first"]),
        ("end of the answer → end of the process", start["exit"]),
        ("`coder --once`, all of it", start["once"]),
    ]
    named = [("all steps", gap["all"]), ("steps 2–11", gap["head"]), ("the last ten", gap["tail"])]
    cpu = [("a short answer", long["short"]), ("the long one", long["long"])]
    return [
        *(START, *compared(walls, base)),
        *(GAPS, *compared(named, base)),
        *(LONG, *compared([*cpu, ("the difference", long["extra"])], base)),
    ]


def record_rows(installed: Installed, directory: Path) -> list[str]:
    sizes, points = [], []
    for steps in SIZES:
        project = directory / f"steps-{steps}"
        project.mkdir()
        written = worker(installed, "append", str(project), str(steps))
        found = [worker(installed, "resume", str(project), written["session"]) for _ in range(3)]
        took = Times([one["ms"] for one in found])
        rss, base = found[0]["rss_mb"], found[0]["base_rss_mb"]
        mb = written["bytes"] / 1e6
        row = [f"{steps:,}", f"{mb:.1f}", str(took), f"{took.median / mb:.1f}"]
        sizes.append([*row, f"{rss:.0f}", f"{rss - base:.0f} ({(rss - base) / mb:.1f} × the log)"])
        if steps == max(POINTS):
            points = [[f"{n:,}", f"{us:.0f}", f"{size:,}"] for n, us, size in written["points"]]
    head = ["steps", "log, MB", "ms", "ms per MB", "peak RSS, MB", "of it the session, MB"]
    appended = table(["step n", "µs to append it", "bytes it adds"], points)
    return [APPENDING, *appended, RESUMING, *table(head, sizes)]


def main() -> None:
    quick = "--quick" in sys.argv[1:]
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="coder-bench-") as name:
        directory = Path(name)
        installed = Installed(directory)
        lines = [HEADING.format(cores=os.cpu_count(), python=installed.python_version())]
        lines += process_rows(installed, directory, quick)
        lines += record_rows(installed, directory)
    text = "\n".join(lines).rstrip("\n") + "\n"
    print(text)
    print(f"({time.monotonic() - begun:.0f} s)")
    if not quick:
        (CHECKOUT / "bench" / "RESULTS.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
