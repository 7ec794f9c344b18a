"""`coder batch` past this machine: stub attempts on a simulated cluster of many nodes.

The driver, its files, the hub and Ray are the real ones; an attempt alone is a stub, which streams a record,
a patch and an answer and runs nothing. What is looked at is what could grow with the number of tasks: the
memory of driver and hub, and the time for a result, on the clock and of the processors (which others on the
machine change less). `./dev bench cluster [TASKS] [--nodes N]`; `--without-ray` leaves the hub and Ray out,
which shows the driver alone; `--out DIR` keeps what is done there, for the next run of the same line to go on
with, and `--seconds N` ends this one.

So that Ray itself takes less: twice as many tasks are in flight as there are cores, its metrics are off, and
it is asked for one worker at a time (it would ask all nodes again and again for the tasks that wait).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from coder.addons.batch.attempt import Take
from coder.addons.batch.batch_page import write_page
from coder.addons.batch.channel import Answered, Ask, Done, Grew
from coder.addons.batch.cluster import RayEngine
from coder.addons.batch.driver import BatchEngine, Driver, plan
from coder.addons.batch.inbox import Began, Ended, Inbox, News
from coder.addons.batch.limits import Limits
from coder.addons.batch.mirror import Bundle
from coder.addons.batch.results import OutputDirectory, Progress, Row
from coder.addons.batch.task import Job, Outcome, Secrets, Settings
from coder.addons.batch.task_file import TaskFile

_CHEAPER = {
    "RAY_enable_metrics_collection": "0",
    "RAY_max_pending_lease_requests_per_scheduling_category": "1",
}
_ENTRY = json.dumps({"type": "assistant", "content": "x" * 300}).encode() + b"\n"


def stub(
    job: Job,
    _secrets: Secrets,
    take: Take,
    _stopping: Callable[[], bool],
    _bundle: Callable[[], Bundle] | None,
) -> None:
    """Two messages to the hub, as a task of one step has."""
    take([Grew("record.jsonl", _ENTRY * 4), Ask(1, "stub", 0.001)])
    outcome = Outcome("ok", cost=0.001, steps=1, model="stub", tokens={"prompt": 900, "total": 1000})
    take(
        [
            Answered(1, "stub", 0.001, 900, 100),
            Grew("patch.diff", b"+x\n" * 50, whole=True),
            Grew("answer.md", b"done", whole=True),
            Done(outcome),
        ]
    )


def resident(pid: int) -> float:
    """MB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def cpu_times(hub: int) -> dict[str, float]:
    """Seconds of the driver (this process), the hub, and all else of Ray's, which this process started."""
    times: defaultdict[str, float] = defaultdict(float)
    parents, used = {}, {}
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (directory / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            parents[int(directory.name)] = int(fields[1])
            used[int(directory.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    for pid, seconds in used.items():
        above = pid
        while above not in (os.getpid(), 0):
            above = parents.get(above, 0)
        if above and pid != os.getpid():
            times["hub" if pid == hub else "Ray"] += seconds
    times["driver"] = used[os.getpid()]
    return times


def hub_process() -> int:
    """By the title that Ray gives the process of an actor."""
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if (directory / "cmdline").read_bytes().startswith(b"ray::Hub"):
                return int(directory.name)
        except OSError:
            continue
    raise LookupError("no process of the hub")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("tasks", type=int, nargs="?", default=100_000)
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--cpus", type=int, default=1, help="logical cores of a node")
    parser.add_argument("--seconds", type=float, default=None)
    parser.add_argument("--without-ray", action="store_true")
    parser.add_argument("--out", type=Path, default=None)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="b") as name:
        root = chosen.out or Path(name)
        root.mkdir(parents=True, exist_ok=True)
        if chosen.without_ray:
            measure(root, "", chosen)
            return
        os.environ.update(_CHEAPER)
        from ray.cluster_utils import Cluster

        cluster = Cluster()
        try:
            add_node(cluster, num_cpus=0, include_dashboard=False)
            for _ in range(chosen.nodes):
                add_node(cluster, num_cpus=chosen.cpus)
            measure(root, cluster.address, chosen)
        finally:
            cluster.shutdown()


def add_node(cluster: Any, **settings: Any) -> None:
    """Again where it fails: Ray gives a node 30 s to start, which a busy machine may need."""
    for last in (False, False, True):
        try:
            cluster.add_node(object_store_memory=80 << 20, **settings)
        except Exception as error:
            print(f"a node did not start: {error}")
            if last:
                raise
        else:
            return


def measure(root: Path, address: str, chosen: argparse.Namespace) -> None:
    file = root / "tasks.jsonl"  # the same in every run
    with file.open("w", encoding="utf-8") as lines:
        for number in range(chosen.tasks):
            task = {"id": f"t{number}", "prompt": "x" * 500, "repo": "https://example.com/x.git"}
            lines.write(json.dumps(task) + "\n")
    begun = time.monotonic()
    tasks = TaskFile(file, {}, {})
    out = OutputDirectory(root / "out")
    todo = plan(tasks, out, retry_failed=False)
    took, size = time.monotonic() - begun, resident(os.getpid())
    print(f"{chosen.tasks} lines read in {took:.1f} s, {todo.done} done before; driver {size:.0f} MB")
    limits = Limits(clock=time.monotonic)
    engine: BatchEngine = DriverAlone(limits)
    hub = 0
    if address:
        engine = RayEngine(
            "bench",
            address,
            2 * chosen.nodes * chosen.cpus + 2,
            limits,
            Secrets(),
            memory=1 << 20,
            supervise=stub,
        )
        hub = hub_process()
        print(
            f"{chosen.nodes} nodes of {chosen.cpus}, capacity {engine.capacity}; hub {resident(hub):.0f} MB"
        )
    report = Report(chosen.tasks, todo.done, hub, out.path / "results.jsonl")
    driver = Driver(tasks, todo, out, engine, Settings("bench"), show=report.show, seconds=chosen.seconds)
    try:
        driver.run()
        report.line()
    finally:
        engine.close()
        out.close()
    begun, before = time.monotonic(), resident(os.getpid())
    write_page(out.path)
    size = (out.path / "index.html").stat().st_size >> 20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"index.html: {size} MB in {time.monotonic() - begun:.1f} s; peak {peak:.0f} MB (was {before:.0f})")


class DriverAlone:
    """A `BatchEngine` whose attempts are over at once, in this process."""

    capacity = 64

    def __init__(self, limits: Limits) -> None:
        self._inbox = Inbox(limits)

    def start(self, job: Job) -> None:
        self._inbox.put(News(job.key, job.attempt, Began()))
        stub(job, Secrets(), partial(self._inbox.take, job.key, job.attempt), self.exhausted, None)
        self._inbox.put(News(job.key, job.attempt, Ended()))

    def news(self, _seconds: float) -> list[News]:
        return self._inbox.drain()

    def exhausted(self) -> bool:
        return False

    def stop(self) -> None:
        pass

    def close(self) -> None:
        pass


class Report:
    """A line for every tenth of the tasks."""

    def __init__(self, total: int, done: int, hub: int, results: Path) -> None:
        self._total, self._hub, self._results = total, hub, results
        self._begun = self._at = time.monotonic()
        self._done = self._told = done
        self._cpu = cpu_times(hub)

    def show(self, _progress: Progress, rows: list[Row]) -> None:
        self._done += len(rows)
        if self._done * 10 // self._total > self._told * 10 // self._total:
            self.line()

    def line(self) -> None:
        now, cpu = time.monotonic(), cpu_times(self._hub)
        if not (count := self._done - self._told):
            return
        used = ", ".join(f"{name} {1000 * (cpu[name] - self._cpu[name]) / count:.2f}" for name in sorted(cpu))
        hub = f"hub {resident(self._hub):.0f} MB, " if self._hub else ""
        each = 1000 * (now - self._at) / count
        print(
            f"{self._done:>7} done, {now - self._begun:>6.0f} s: {each:.2f} ms a result "
            f"(CPU: {used}), driver {resident(os.getpid()):.0f} MB, {hub}"
            f"results.jsonl {self._results.stat().st_size >> 20} MB",
            flush=True,
        )
        self._at, self._told, self._cpu = now, self._done, cpu


if __name__ == "__main__":
    main()
