"""What undo adds to a command in a workspace of 50,000 files. Prints milliseconds.

python bench/shell_undo.py [FILES]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from coder.record.shell_undo import ShellUndo
from coder.record.undo import UndoJournal


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    with tempfile.TemporaryDirectory() as folder:
        root, home = Path(folder, "ws"), Path(folder, "home")
        for number in range(count):
            path = root / f"d{number // 2500}" / f"e{number // 50}" / f"file{number}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{number}\n" * 100, encoding="utf-8")
        (root / ".gitignore").write_text("*.pyc\nbuild/\n/dist\n", encoding="utf-8")
        journal = UndoJournal(Path(folder, "undo"))
        journal.begin_turn(1)
        for name in ("never seen before", "seen by an earlier process"):
            undo = ShellUndo(root, home, journal)
            print(f"first look, {name}: {timed(undo.before):9.1f} ms")
            undo.not_run()
            for changed in (0, 1, 100):
                print(
                    f"  a command that changes {changed:3} files: {_added(undo, root, changed):9.2f} ms added"
                )
            undo.close()


def _added(undo: ShellUndo, root: Path, changed: int) -> float:
    """The median of what `before` and `after` take together."""
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
