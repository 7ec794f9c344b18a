"""What stands between the start of coder and its first request, against an older source tree.

python bench/start.py OLD_SRC      alternates between both, prints the ratios and writes bench/START.md
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from place import Installed, Server, Workspace, compiled
from processes import Run

REPORT = Path(__file__).with_name("START.md")
ROUNDS = 40
# Leaves when the connection to the provider is made, and tells how many modules of ours there are by then.
COUNT = """
import os, sys
def hook(name, args):
    if name == "socket.connect":
        print(sum(m == "coder" or m.startswith("coder.") for m in sys.modules), flush=True)
        os._exit(0)
sys.addaudithook(hook)
sys.argv = ["coder", "--once", "hi"]
from coder.cli import main
main()
"""
RUN = "from coder.cli import main; main()"
# What no version of coder can do without.
FLOOR = "import argparse, asyncio, pathlib, msgspec, os; os._exit(0)"


def modules(python: str, workspace: Workspace) -> int:
    line = [python, "-c", COUNT]
    done = subprocess.run(line, cwd=workspace.cwd, env=workspace.environment, capture_output=True, check=True)
    return int(done.stdout)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="coder-bench-") as directory, Server() as server:
        trees = {
            "before": compiled(sys.argv[1], Path(directory, "old")),
            "now": compiled(str(Path(__file__).parents[1] / "src"), Path(directory, "new")),
        }
        workspaces = {}
        for name, tree in trees.items():
            (place := Path(directory, f"at-{name}")).mkdir()
            workspaces[name] = Workspace(place, server.url)
            workspaces[name].environment["PYTHONPATH"] = str(tree)
            workspaces[name].environment.pop("PYTHONDONTWRITEBYTECODE", None)
        python = Installed(Path(directory)).python  # with what coder needs, and nothing else
        counted = {name: modules(python, workspace) for name, workspace in workspaces.items()}
        walls: dict[str, list[float]] = {name: [] for name in trees}
        cpus: dict[str, list[float]] = {name: [] for name in trees}
        floors = []
        for _ in range(ROUNDS):
            floors.append(Run([python, "-c", FLOOR], workspaces["now"]).wall_ms)
            for name, workspace in workspaces.items():
                server.script()
                run = Run([python, "-c", RUN, "--once", "hi"], workspace)
                (entry,) = server.log()
                walls[name].append((entry["first"] - run.begun) / 1e6)
                cpus[name].append(run.cpu_ms)
    rows: list[tuple[str, float, float]] = [
        ("modules of ours at the first request", counted["before"], counted["now"])
    ]
    floor = statistics.median(floors)
    rows += [
        (what, round(statistics.median(found["before"]), 1), round(statistics.median(found["now"]), 1))
        for what, found in (("ms to the first request", walls), ("ms of CPU time, the whole run", cpus))
    ]
    rows.insert(2, ("of which above the floor", round(rows[1][1] - floor, 1), round(rows[1][2] - floor, 1)))
    text = (
        "# From the start to the first request\n\n"
        f"`coder --once hi`, {os.cpu_count()} cores, Python {platform.python_version()}, compiled. "
        f"Written by `python bench/start.py OLD_SRC`: medians of {ROUNDS}, both trees in turn. "
        f"The floor, {floor:.1f} ms: an interpreter that imports argparse, asyncio, pathlib and msgspec.\n\n"
        "| what | before | now | ratio |\n| --- | --- | --- | --- |\n"
    )
    text += "".join(f"| {what} | {old} | {new} | {new / old:.2f} |\n" for what, old, new in rows)
    REPORT.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
