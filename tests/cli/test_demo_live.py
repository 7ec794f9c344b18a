"""`coder demo --live`: the tour's task, done by a model on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from coder.config.models import FILE
from kit.driving import Project
from kit.local_model import FakeLibrary, gguf

FIX = {
    "do": "edit",
    "path": "basket.py",
    "old": "    for price in prices[1:]:\n",
    "new": "    for price in prices:\n",
}
SCRIPT = [{"text": json.dumps(action)} for action in (FIX, {"do": "done", "answer": "All prices are added."})]


def test_the_task_is_done_and_checked(project: Project, tmp_path: Path) -> None:
    library = FakeLibrary(tmp_path / "library", SCRIPT)
    gguf(project.home / ".coder" / "models" / FILE)
    done = subprocess.run(
        [sys.executable, "-m", "coder", "demo", "--live"],
        cwd=project.cwd,
        env=project.environ(**library.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "A tour with a real model, Qwen2.5-Coder-1.5B-Instruct" in done.stderr
    assert "verify: python3 -m unittest passed" in done.stderr
    assert done.stdout.strip() == "All prices are added."
    assert "test_sums_all_prices" in json.dumps(library.requests[0]["body"]), "the failing test is seen first"


def test_without_a_model_it_says_how_to_get_one(project: Project) -> None:
    done = project.coder("demo", "--live")
    assert done.returncode == 2
    assert "local` fetches one (1117 MB, once)" in done.stderr
