"""SWE-bench-style instances to tasks of `coder batch`.

    python swebench_tasks.py instances.jsonl [--repos DIR] [--setup COMMAND] [--python PROGRAM] > tasks.jsonl

An instance has `instance_id`, `repo` (`owner/name`), `base_commit`, `problem_statement`, `test_patch`,
`FAIL_TO_PASS` and perhaps `PASS_TO_PASS` (lists, or lists as JSON text); tests of both must pass. With
`--repos`, repositories are clones in DIR, named `owner__name`; otherwise they are cloned from GitHub. The
hidden tests are in `check` alone: the model works on a clone that does not have them, and that ends at the
base commit, so that the fix is not in it (docs/batch.md says how far that goes). What it did to the tests'
files is undone before the check.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import shlex
from pathlib import Path
from typing import Any

PROMPT = """\
Fix the following issue in this repository. Change the sources, not the tests.

{problem}"""


def tests_of(instance: dict[str, Any], field: str) -> list[str]:
    tests = instance.get(field) or []
    return list(json.loads(tests) if isinstance(tests, str) else tests)


def task_of(instance: dict[str, Any], repos: Path | None, setup: str, python: str) -> dict[str, Any]:
    """One line of the task file."""
    name = str(instance["repo"])
    tests = [*tests_of(instance, "FAIL_TO_PASS"), *tests_of(instance, "PASS_TO_PASS")]
    patch = base64.b64encode(str(instance["test_patch"]).encode("utf-8")).decode("ascii")
    named = " ".join(shlex.quote(test) for test in tests)
    base = instance["base_commit"]
    apply = f"printf %s {patch} | base64 -d | git apply -"
    return {
        "id": instance["instance_id"],
        "prompt": PROMPT.format(problem=instance["problem_statement"]),
        "repo": str(repos.absolute() / name.replace("/", "__"))
        if repos
        else f"https://github.com/{name}.git",
        "ref": base,
        "until_ref": True,
        "setup": setup,
        "check": f"{restored(str(instance['test_patch']), base)}; {apply} && {python} -m pytest -q {named}",
        "mode": "yolo",
    }


def restored(patch: str, base: str) -> str:
    """The files of a patch as they are in `base`: those that are not there are removed."""
    before = re.findall(r"^--- a/(.+?)\t?$", patch, re.MULTILINE)
    after = re.findall(r"^\+\+\+ b/(.+?)\t?$", patch, re.MULTILINE)
    lines = [f"rm -rf -- {shlex.join(dict.fromkeys([*before, *after]))}"]
    if before:
        lines.append(f"git checkout -q {shlex.quote(str(base))} -- {shlex.join(dict.fromkeys(before))}")
    return "; ".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("instances", type=Path, help="a file of instances, one JSON object a line")
    parser.add_argument("--repos", type=Path, help="the folder of clones, owner__name each")
    parser.add_argument("--setup", default="", help="a command before every task")
    parser.add_argument(
        "--python", default="python3", help="which runs the tests, e.g. one that --setup made"
    )
    chosen = parser.parse_args()
    with chosen.instances.open(encoding="utf-8") as lines:
        instances = [json.loads(line) for line in lines if line.strip()]
    # The oldest first: clones that end at a commit borrow what earlier ones have.
    for instance in sorted(instances, key=lambda one: str(one.get("created_at", ""))):
        print(json.dumps(task_of(instance, chosen.repos, chosen.setup, chosen.python)))


if __name__ == "__main__":
    main()
