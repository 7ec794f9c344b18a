"""`coder demo --live`: the tour's task, done by a model on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from coder.cli.demo_script import PROJECT
from coder.config.models import LOCAL_FILE
from kit.driving import Project
from kit.local_model import FakeLibrary, gguf

BASKET = PROJECT["basket.py"]


def live(
    project: Project, tmp_path: Path, *answers: str
) -> tuple[subprocess.CompletedProcess[str], FakeLibrary]:
    library = FakeLibrary(tmp_path / "library", [{"text": answer} for answer in answers])
    gguf(project.home / ".coder" / "models" / LOCAL_FILE)
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
    return done, library


def block(text: str) -> str:
    return f"```python\n{text}```"


@pytest.mark.thorough
def test_the_task_is_done_and_checked(project: Project, tmp_path: Path) -> None:
    function = "def total(prices, discount=0):\n    return sum(prices) * (100 - discount) / 100\n"
    done, library = live(project, tmp_path, block(BASKET), block(function), "All prices are added.")
    assert done.returncode == 0, done.stderr
    assert "A tour with a real model, Qwen2.5-Coder-1.5B-Instruct" in done.stderr
    assert "Mended by the model and verified: `python3 -m unittest` passes now." in done.stderr
    assert done.stdout.strip() == "All prices are added."
    assert "test_sums_all_prices" in json.dumps(library.requests[0]["body"]), "the failing test is seen first"


@pytest.mark.thorough
@pytest.mark.parametrize(
    "answers", [["I cannot do that."], [*[block(BASKET + f"\n\nN = {n}\n") for n in range(6)], "Done."]]
)
def test_a_test_that_still_fails_is_said_to(project: Project, tmp_path: Path, answers: list[str]) -> None:
    """Whether the model changed something or not."""
    done, _ = live(project, tmp_path, *answers)
    assert done.returncode == 5, done.stderr
    assert "Not mended: `python3 -m unittest` has not passed." in done.stderr
    assert "Mended by" not in done.stderr


def test_without_a_model_it_says_how_to_get_one(project: Project) -> None:
    done = project.coder("demo", "--live")
    assert done.returncode == 2
    assert "local` fetches one (1117 MB, once)" in done.stderr
