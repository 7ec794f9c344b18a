"""`coder batch` against a bare loop of `coder --once`, with two at a time (`./dev bench batch`).

Both do the same work: one task that writes a file, in a clone of its own, against the scripted model. The
loop is given clones that exist already; the batch makes its own, and patches, rows and the page besides. CPU
time counts, because a busy machine makes the wall-clock time of two runs incomparable; both are printed. Run
with `.dev/ray/bin/python` (`./dev ray` makes it), the Ray engine is measured beside the local one.
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
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from itertools import repeat
from pathlib import Path
from typing import Any

from coder.batch.nursery import LABEL
from coder.model.scripted import ScriptedServer

TASKS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
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
        measure_loop(root, project, environ)
        measure_batch(root, project, environ)
        measure_lines(root, project, environ)
        if find_spec("ray") is not None:
            measure_ray(root, project, environ)


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def report(what: str, wall: float, used: float, count: int) -> None:
    print(f"{what}: {count / wall:.2f} tasks/s, {1000 * used / count:.0f} ms of CPU a task")


def measure_loop(root: Path, project: Path, environ: dict[str, str]) -> None:
    clones = [root / f"clone-{number}" for number in range(TASKS)]
    for clone in clones:
        subprocess.run(["git", "clone", "-q", str(project), str(clone)], check=True)

    def once(clone: Path) -> None:
        line = [sys.executable, "-m", "coder", "--mode", "auto-edit", "--once", "write the file"]
        subprocess.run(
            line, cwd=clone, env=environ, stdin=subprocess.DEVNULL, capture_output=True, check=True
        )

    before, begun = cpu(), time.monotonic()
    with ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(once, clones))
    report("bare loop of coder --once, two at a time", time.monotonic() - begun, cpu() - before, TASKS)


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


def measure_batch(root: Path, project: Path, environ: dict[str, str]) -> None:
    before, begun = cpu(), time.monotonic()
    process = batch(root, project, environ, TASKS, "out")
    sizes: list[int] = []
    looking = threading.Thread(target=look, args=(process, sizes), daemon=True)
    looking.start()
    process.wait()
    report("coder batch --jobs 2", time.monotonic() - begun, cpu() - before, TASKS)
    looking.join()
    if sizes:
        print(f"memory of a running task (PSS): median {sorted(sizes)[len(sizes) // 2] / 1024:.1f} MB")


def look(process: subprocess.Popen[bytes], sizes: list[int]) -> None:
    """Proportional set sizes of task processes, ten times a second."""
    label = LABEL.format(pid=process.pid).encode()
    while process.poll() is None:
        for directory in Path("/proc").glob("[0-9]*"):
            try:
                if label not in (directory / "cmdline").read_bytes():
                    continue
                parent = int((directory / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
                if parent != process.pid:  # the nursery's children: the tasks
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
