"""`./dev live`: the table of what a model on this machine finishes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from kit.driving import Project
from kit.local_model import FakeLibrary, gguf

BENCH = Path(__file__).parents[2] / "bench" / "live.py"
ACTIONS = [
    {"do": "edit", "path": "config.py", "old": "PORT = 8080\n", "new": "PORT = 9000\n"},
    {"do": "done", "answer": "PORT is 9000."},
    {"do": "edit", "path": "config.py", "old": "DEBUG = True\n", "new": "DEBUG = 1\n"},
    {"do": "done", "answer": "DEBUG is 1."},
]


def test_the_table_tells_single_files_and_what_was_held_out(project: Project, tmp_path: Path) -> None:
    library = FakeLibrary(tmp_path / "library", [{"text": json.dumps(action)} for action in ACTIONS])
    model = gguf(tmp_path / "qwen-1.5b.gguf")
    words = ["--gguf", str(model), "--only", "guided", "--task", "change-port", "--task", "held-debug"]
    done = subprocess.run(
        [sys.executable, str(BENCH), *words],
        cwd=project.cwd,
        env=project.environ(**library.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "| guided | 1/2 | 1/2 | 0/1 |" in done.stdout
    assert "| change-port | edit | yes," in done.stdout
    assert "| held-debug (held out) | edit | no," in done.stdout
