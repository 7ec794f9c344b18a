"""Measurements of the whole process: start-up, steps, a long answer."""

from __future__ import annotations

import os
import statistics
import time
from itertools import pairwise

from place import Installed, Server, Workspace

STEPS = 100
LONG_ANSWER = 200_000


class Times:
    """Milliseconds of several runs. The minimum says what the work costs, the median what a person waits."""

    def __init__(self, values: list[float]) -> None:
        self.median = statistics.median(values)
        self.minimum = min(values)

    def __str__(self) -> str:
        return f"{self.median:.1f} ({self.minimum:.1f})"

    def over(self, base: Times) -> str:
        return f"{self.median / base.median:.1f} × ({self.minimum / base.minimum:.1f} ×)"


class Run:
    """One process to its end: when it was started, how long it took, the CPU time it used."""

    def __init__(self, argv: list[str], workspace: Workspace) -> None:
        nothing = os.open(os.devnull, os.O_RDWR)
        actions = [(os.POSIX_SPAWN_DUP2, nothing, number) for number in range(3)]
        before = os.getcwd()  # noqa: PTH109 - chdir has no counterpart in pathlib either
        os.chdir(workspace.cwd)
        self.begun = time.monotonic_ns()
        pid = os.posix_spawn(argv[0], argv, workspace.environment, file_actions=actions)
        _, status, usage = os.wait4(pid, 0)
        self.wall_ms = (time.monotonic_ns() - self.begun) / 1e6
        os.chdir(before)
        os.close(nothing)
        self.cpu_ms = (usage.ru_utime + usage.ru_stime) * 1000
        self.rss_mb = usage.ru_maxrss / 1024
        self.status = os.waitstatus_to_exitcode(status)
        assert self.status == 0, argv


def starts(installed: Installed, server: Server, workspace: Workspace, runs: int) -> dict[str, Times]:
    """Interleaved, so that a busy moment of the machine falls on all of them alike."""
    found: dict[str, list[float]] = {"python": [], "version": [], "first": [], "exit": [], "once": []}
    once = [installed.coder, "--once", "hi"]
    Run(once, workspace)  # the first run of all makes directories and reads cold files
    for _ in range(runs):
        found["python"].append(Run([installed.python, "-c", "pass"], workspace).wall_ms)
        found["version"].append(Run([installed.coder, "--version"], workspace).wall_ms)
        server.script()
        run = Run(once, workspace)
        (entry,) = server.log()
        found["once"].append(run.wall_ms)
        found["first"].append((entry["first"] - run.begun) / 1e6)
        found["exit"].append(run.wall_ms - (entry["done"] - run.begun) / 1e6)
    return {name: Times(values) for name, values in found.items()}


def gaps(installed: Installed, server: Server, workspace: Workspace, runs: int) -> dict[str, Times]:
    """From the last byte of an answer to the first of the next request, with running `true` in between."""
    found: dict[str, list[float]] = {"all": [], "head": [], "tail": []}
    argv = [installed.coder, "--mode", "yolo", "--max-steps", str(STEPS + 1), "--once", "go"]
    for _ in range(runs):
        server.script(steps=STEPS)
        Run(argv, workspace)
        log = server.log()
        assert len(log) == STEPS + 1
        between = [(b["first"] - a["done"]) / 1e6 for a, b in pairwise(log)][1:]
        found["all"] += between
        found["head"] += between[:10]
        found["tail"] += between[-10:]
    return {name: Times(values) for name, values in found.items()}


def long_answer(installed: Installed, server: Server, workspace: Workspace, runs: int) -> dict[str, Times]:
    """CPU time of 200 KB in 12,500 deltas, over that of a short answer."""
    found: dict[str, list[float]] = {"short": [], "long": []}
    for _ in range(runs):
        for name, size in (("short", 20), ("long", LONG_ANSWER)):
            server.script(text_bytes=size)
            found[name].append(Run([installed.coder, "--once", "hi"], workspace).cpu_ms)
    extra = [long - short for short, long in zip(found["short"], found["long"], strict=True)]
    return {**{name: Times(values) for name, values in found.items()}, "extra": Times(extra)}
