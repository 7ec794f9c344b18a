"""The adapter of docs/examples: an instance becomes a task whose verdict is that of the hidden tests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from batch.batch_kit import Batch, git, make_repository, model, runs
from kit.driving import Project

ADAPTER = Path(__file__).parents[2] / "docs" / "examples" / "swebench_tasks.py"
TEST_PATCH = """\
diff --git a/test_sum.py b/test_sum.py
new file mode 100644
--- /dev/null
+++ b/test_sum.py
@@ -0,0 +1,7 @@
+from total import total
+
+def test_total():
+    assert total([1, 2]) == 3
+
+def test_empty():
+    assert total([]) == 0
"""


@pytest.mark.skipif(
    sys.executable.startswith(("/tmp/", "/var/tmp/")),
    reason="the interpreter lies in a temporary directory, which the sandbox replaces",
)
def test_instances_become_tasks_and_hidden_tests_the_verdict(project: Project) -> None:
    repository = make_repository(
        project.cwd / "repos" / "team__app", {"total.py": "def total(n):\n    return 0\n"}
    )
    instance = {
        "instance_id": "team__app-1",
        "repo": "team/app",
        "base_commit": git(repository, "rev-parse", "HEAD"),
        "problem_statement": "total() always returns 0.",
        "test_patch": TEST_PATCH,
        "FAIL_TO_PASS": json.dumps(["test_sum.py::test_total"]),
        "PASS_TO_PASS": ["test_sum.py::test_empty"],
    }
    file = project.write("instances.jsonl", json.dumps(instance) + "\n")
    repos = str(project.cwd / "repos")
    made = subprocess.run(
        [sys.executable, str(ADAPTER), str(file), "--repos", repos, "--python", sys.executable],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    (line,) = made.stdout.splitlines()
    batch = Batch(project, [line])
    git(repository, "branch", "the-fix")
    script = "git branch --all; sed -i 's/return 0/return sum(n)/' total.py; echo mine > test_sum.py"
    with model(runs(script)) as server:
        done = batch.run(server.url)
        asked = json.dumps(server.chats)
    row = batch.by_id()["team__app-1"]
    assert (done.returncode, row["check"]["status"]) == (0, "passed"), row["check"]
    assert "2 passed" in row["check"]["output"]
    assert "total() always returns 0." in asked
    assert "test_empty" not in asked  # the model never saw them
    assert "the-fix" not in asked
    assert "test_empty" not in batch.file_of("team__app-1", "patch.diff")
