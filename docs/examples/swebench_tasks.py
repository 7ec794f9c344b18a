"""SWE-bench-style instances to tasks of `coder batch`.

    python swebench_tasks.py instances.jsonl [--repos DIR] > tasks.jsonl

An instance has `instance_id`, `repo` (`owner/name`), `base_commit`, `problem_statement`, `test_patch` and
`FAIL_TO_PASS` (a list, or a list as JSON text). With `--repos`, repositories are clones in DIR, named
`owner__name`; otherwise they are cloned from GitHub. The hidden tests are in `check` alone: the model works
on a clone that does not have them.
"""

from __future__ import annotations

import argparse
import base64
import json
import shlex
from pathlib import Path
from typing import Any

PROMPT = """\
Fix the following issue in this repository. Change the sources, not the tests.

{problem}"""


def task_of(instance: dict[str, Any], repos: Path | None, setup: str) -> dict[str, Any]:
    """One line of the task file."""
    name = str(instance["repo"])
    tests = instance["FAIL_TO_PASS"]
    if isinstance(tests, str):
        tests = json.loads(tests)
    patch = base64.b64encode(str(instance["test_patch"]).encode("utf-8")).decode("ascii")
    named = " ".join(shlex.quote(test) for test in tests)
    task = {
        "id": instance["instance_id"],
        "prompt": PROMPT.format(problem=instance["problem_statement"]),
        "repo": str(repos / name.replace("/", "__")) if repos else f"https://github.com/{name}.git",
        "ref": instance["base_commit"],
        "check": f"printf %s {patch} | base64 -d | git apply - && python3 -m pytest -q {named}",
        "mode": "yolo",
    }
    return {**task, "setup": setup} if setup else task


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("instances", type=Path)
    parser.add_argument("--repos", type=Path)
    parser.add_argument("--setup", default="", help="a command before every task")
    chosen = parser.parse_args()
    with chosen.instances.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                print(json.dumps(task_of(json.loads(line), chosen.repos, chosen.setup)))


if __name__ == "__main__":
    main()
