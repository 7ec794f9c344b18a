"""What undo adds to a command in a workspace of 50,000 files.

python bench/shell_undo.py [FILES]      prints the figures and writes bench/UNDO.md
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from coder.history.undo.journal import UndoJournal
from coder.history.undo.shell_changes import ShellUndo

REPORT = Path(__file__).with_name("UNDO.md")
HEAD = """# What undo adds to a command

A workspace of {count:,} files; {cores} cores, Python {python}. Written by `./dev bench undo`: what is done
before and after a command that is not known to be read-only, the median of seven.

| what | ms |
| --- | --- |
"""


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    with tempfile.TemporaryDirectory() as directory:
        rows = [f"| {what} | {figure:.1f} |\n" for what, figure in measured(Path(directory), count)]
    head = HEAD.format(count=count, cores=os.cpu_count(), python=platform.python_version())
    REPORT.write_text(head + "".join(rows), encoding="utf-8")
    print(head + "".join(rows))


def measured(directory: Path, count: int) -> Iterator[tuple[str, float]]:
    root = directory / "ws"
    for number in range(count):
        path = root / f"d{number // 2500}" / f"e{number // 50}" / f"file{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{number}\n" * 100, encoding="utf-8")
    (root / ".gitignore").write_text("*.pyc\nbuild/\n/dist\n", encoding="utf-8")
    journal = UndoJournal(directory / "undo")
    journal.begin_turn(1)
    for name in ("never seen before", "seen by an earlier process"):
        undo = ShellUndo(root, directory / "home", journal)
        yield f"the first command, in a workspace {name}", timed(undo.before)
        undo.not_run()
        for changed in (0, 1, 100):
            yield f"a further one that changes {changed} files", added(undo, root, changed)
        undo.close()


def added(undo: ShellUndo, root: Path, changed: int) -> float:
    """What `before` and `after` take together."""
    samples = []
    for run in range(7):
        before = timed(undo.before)
        for number in range(changed):
            path = root / "d0" / f"e{number // 50}" / f"file{number}.py"
            path.write_text(f"changed {run} {time.time_ns()}\n", encoding="utf-8")
        samples.append(before + timed(undo.after))
    return statistics.median(samples)


if __name__ == "__main__":
    main()
