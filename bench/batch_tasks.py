"""`coder batch` against a bare loop of `coder --once`, with two at a time (`./dev bench batch`).

Both do the same work: one task that writes a file, in a clone of its own, against the scripted model. The
loop is given clones that exist already; the batch makes its own, and patches, rows and the page besides. They
take turns, and CPU time counts, because a busy machine changes the clock's from run to run; both are printed.
Run with `.dev/ray/bin/python` (`./dev ray` makes it), the Ray engine is measured beside the local one.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from itertools import repeat
from pathlib import Path
from statistics import median
from typing import Any

from coder.addons.batch.fork_server import LABEL
from coder.models.scripted import ScriptedServer

ROUNDS = 3
TASKS = max(1, (int(sys.argv[1]) if len(sys.argv) > 1 else 60) // ROUNDS)  # of a round
LINES = 10_000
JOBS = 2


def answer(request: dict[str, Any]) -> dict[str, Any]:
    if request["messages"][-1]["role"] == "tool":
        return {"text": "done"}
    return {"calls": [{"name": "write", "arguments": {"path": "new.txt", "content": "new\n"}}]}


def git(directory: Path, *words: str) -> None:
    identity = ["-c", "user.name=b", "-c", "user.email=b@b"]
    subprocess.run(["git", "-C", str(directory), *identity, *words], check=True, capture_output=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as name, ScriptedServer(repeat(answer)) as server:
        root = Path(name)
        project = root / "project"
        project.mkdir()
        (project / "a.txt").write_text("one\n", encoding="utf-8")
        git(project, "init", "-q")
        git(project, "add", ".")
        git(project, "commit", "-q", "-m", "one")
        environ = {
            "HOME": name,
            "PATH": os.environ["PATH"],
            "CODER_BASE_URL": server.url,
            "CODER_MODEL": "scripted",
            "TMPDIR": name,
        }
        measure_tasks(root, project, environ)
        measure_lines(root, project, environ)
        if find_spec("ray") is not None:
            measure_ray(root, project, environ)


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure_tasks(root: Path, project: Path, environ: dict[str, str]) -> None:
    sizes: list[int] = []
    costs, ratios = [], []
    for number in range(ROUNDS):
        clones = [root / f"clone-{number}-{one}" for one in range(TASKS)]
        for clone in clones:
            subprocess.run(["git", "clone", "-q", str(project), str(clone)], check=True)
        loop = timed("a loop of coder --once, two at a time", partial(run_loop, clones, environ))
        ours = timed(
            "coder batch --jobs 2", partial(run_batch, root, project, environ, f"out-{number}", sizes)
        )
        costs.append(1000 * (ours[1] - loop[1]) / TASKS)
        ratios.append(ours[0] / loop[0])
    each = ", ".join(f"{cost:.0f}" for cost in costs)
    print(f"CPU of the batch over the loop's: {median(costs):.0f} ms a task (rounds: {each})")
    print(f"time of the batch: {median(ratios):.2f} of the loop's (median of {ROUNDS} rounds)")
    if sizes:
        print(f"memory of a running task (PSS): median {median(sizes) / 1024:.1f} MB")


def timed(what: str, run: Callable[[], None]) -> tuple[float, float]:
    """Seconds on the clock, and of the processors."""
    before, begun = cpu(), time.monotonic()
    run()
    wall, used = time.monotonic() - begun, cpu() - before
    print(f"{what}: {TASKS / wall:.2f} tasks/s, {1000 * used / TASKS:.0f} ms of CPU a task")
    return wall, used


def run_loop(clones: list[Path], environ: dict[str, str]) -> None:
    def once(clone: Path) -> None:
        line = [sys.executable, "-m", "coder", "--mode", "auto-edit", "--once", "write the file"]
        subprocess.run(
            line, cwd=clone, env=environ, stdin=subprocess.DEVNULL, capture_output=True, check=True
        )

    with ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(once, clones))


def batch(
    root: Path, project: Path, environ: dict[str, str], count: int, out: str, *more: str
) -> subprocess.Popen[bytes]:
    tasks = root / f"{out}.jsonl"
    with tasks.open("w", encoding="utf-8") as file:
        for number in range(count):
            line = {"id": f"t{number}", "prompt": "write the file", "cwd": str(project)}
            file.write(json.dumps(line) + "\n")
    words = ["batch", str(tasks), "--out", str(root / out), "--jobs", str(JOBS), *more]
    return subprocess.Popen(
        [sys.executable, "-m", "coder", *words],
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )


def run_batch(root: Path, project: Path, environ: dict[str, str], out: str, sizes: list[int]) -> None:
    process = batch(root, project, environ, TASKS, out)
    looking = threading.Thread(target=look, args=(process, sizes), daemon=True)
    looking.start()
    process.wait()
    looking.join()


def look(process: subprocess.Popen[bytes], sizes: list[int]) -> None:
    """Proportional set sizes of task processes, ten times a second."""
    label = LABEL.format(pid=process.pid).encode()
    while process.poll() is None:
        for directory in Path("/proc").glob("[0-9]*"):
            try:
                if label not in (directory / "cmdline").read_bytes():
                    continue
                parent = int((directory / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
                if parent != process.pid:  # the fork server's children: the tasks
                    rollup = (directory / "smaps_rollup").read_text(encoding="utf-8")
                    sizes.append(int(rollup.partition("Pss:")[2].split()[0]))
            except (OSError, ValueError):
                continue
        time.sleep(0.1)


def measure_lines(root: Path, project: Path, environ: dict[str, str]) -> None:
    begun = time.monotonic()
    process = batch(root, project, environ, LINES, "many")
    written = time.monotonic() - begun
    while (
        not (root / "many" / "attempts.jsonl").exists() or not (root / "many/attempts.jsonl").stat().st_size
    ):
        time.sleep(0.005)
    print(f"{LINES} lines, start to first attempt: {time.monotonic() - begun - written:.2f} s")
    process.terminate()
    process.wait()


def measure_ray(root: Path, project: Path, environ: dict[str, str]) -> None:
    """On a cluster of one node with two cores, from the first attempt's start on."""
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        cluster.add_node(num_cpus=JOBS, object_store_memory=80 << 20, include_dashboard=False)
        for out, more in (("near", []), ("far", ["--engine", "ray", "--address", cluster.address])):
            began = time.monotonic()
            process = batch(root, project, environ, TASKS, out, *more)
            attempts = root / out / "attempts.jsonl"
            while not (attempts.exists() and attempts.stat().st_size):
                time.sleep(0.01)
            started = time.monotonic()
            process.wait()
            took = time.monotonic() - started
            print(f"{out}: first attempt after {started - began:.1f} s, then {TASKS / took:.2f} tasks/s")
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
