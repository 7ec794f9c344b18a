"""What a command that is known to be read-only costs in the sandbox, against an older source tree.

python bench/read_only.py OLD_SRC      alternates between both, prints the ratio and writes bench/READ_ONLY.md
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

REPORT = Path(__file__).with_name("READ_ONLY.md")
RUNS, ROUNDS = 12, 8
# Before, such a line ran in the sandbox of writing commands; now it runs in that of `plan`.
MEASURED = """
import asyncio, statistics, sys, tempfile, time
from pathlib import Path
from coder.policy.sandbox.ladder import Sandbox, SandboxLevel, probe
from coder.process.run import run_process
rung, plan, runs = sys.argv[1], sys.argv[2] == "plan", int(sys.argv[3])
async def one(sandbox, root):
    begun = time.perf_counter()
    line = sandbox.wrap(["/bin/bash", "-c", "ls | head -1"])
    done = await run_process(line, cwd=root, environment=sandbox.environment, timeout_ms=9999,
        keep_bytes=999, spill_to=root / "spill", spill_limit=0, on_output=lambda text: None)
    assert done.exit_code == 0, done.stderr
    return (time.perf_counter() - begun) * 1000
with tempfile.TemporaryDirectory() as folder:
    root = Path(folder, "ws"); root.mkdir(); (root / "a").touch(); home = Path(folder, "home")
    level = probe(home) if rung == "bwrap" else SandboxLevel("landlock")
    sandbox = Sandbox(level, root, home, plan=plan, environment={"PATH": "/usr/bin:/bin", "HOME": folder})
    asyncio.run(one(sandbox, root))
    print(statistics.median(asyncio.run(one(sandbox, root)) for _ in range(runs)))
"""


def measured(source: str, rung: str, kind: str) -> float:
    line = [sys.executable, "-c", MEASURED, rung, kind, str(RUNS)]
    env = {**os.environ, "PYTHONPATH": source}
    return float(subprocess.run(line, env=env, capture_output=True, check=True, encoding="utf-8").stdout)


def main() -> None:
    old, new = sys.argv[1], str(Path(__file__).parents[1] / "src")
    rows = ""
    for rung in ("bwrap", "landlock"):
        ways = {"before": (old, "writing"), "now": (new, "plan"), "writing": (new, "writing")}
        rounds = [[measured(source, rung, kind) for source, kind in ways.values()] for _ in range(ROUNDS)]
        before, now, writing = (statistics.median(figures) for figures in zip(*rounds, strict=True))
        rows += f"| {rung} | {before:.1f} | {now:.1f} | {now / before:.2f} | {writing:.1f} |\n"
    text = (
        "# A read-only command in the sandbox\n\n"
        f"`ls | head -1`, from line to end; {os.cpu_count()} cores, Python {platform.python_version()}. "
        f"Written by `python bench/read_only.py OLD_SRC`: medians of {ROUNDS} × {RUNS} in one run, in ms.\n\n"
        "| rung | before the second lock | with it | ratio | a writing command now |\n"
        "| --- | --- | --- | --- | --- |\n"
    )
    REPORT.write_text(text + rows, encoding="utf-8")
    print(text + rows)


if __name__ == "__main__":
    main()
