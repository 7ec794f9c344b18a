"""The adapter of docs/examples: an instance becomes a task whose verdict is that of the hidden tests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from batch.batch_kit import Batch, Chat, called, commit, git, make_repository, model, runs
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


LOOK = """\
git cat-file --batch-all-objects --batch-check='object %(objectname)'
git log --all --format='log %H'; git reflog --format='reflog %H'
git for-each-ref --format='ref %(refname) %(objectname)'; git remote -v
cat .git/FETCH_HEAD .git/ORIG_HEAD .git/packed-refs
for d in $(cat .git/objects/info/alternates) {mirrors} {source}; do
    find "$d" -name '*.idx' | while read f; do git show-index < "$f"; done
    find "$d" -type f | sed 's,/,,g'
done
grep -r . {others} {tasks} {results}
"""

# As a large repository's packs: longer than git is waited for before the attempt looks whether to stop.
SLOW = """\
#!/bin/sh
test "$1" = pack-objects && sleep 1
exec {git} "$@"
"""


@pytest.mark.parametrize("order", [(1, 2, 3, 0), (3, 2, 1, 0)])
def test_a_clone_that_ends_at_its_commit_leads_to_nothing_later(
    project: Project, order: tuple[int, ...]
) -> None:
    """Whatever other tasks of the repository need: an earlier commit first, or a later one."""
    source = make_repository(project.cwd / "source", {"a.txt": "0\n"})
    ids = [git(source, "rev-parse", "HEAD")]
    git(source, "tag", "-a", "-m", "tag", "release-0")
    for number in (1, 2, 3):
        (source / "a.txt").write_text(f"{number}\n", encoding="utf-8")
        ids.append(commit(source, str(number)))
        git(source, "tag", "-a", "-m", f"tag of {number}", f"release-{number}")
    later = [git(source, "rev-parse", f"{one}:a.txt") for one in ids]
    git(source, "branch", "beside", ids[2])
    git(source, "gc", "-q")
    seen: dict[str, str] = {}
    batch = Batch(
        project,
        [
            {"id": f"t{n}", "prompt": f"task {n}", "repo": "source", "ref": ids[n], "until_ref": True,
             "mode": "yolo", "check": "git describe --tags; cat a.txt; git rev-list --count HEAD"}
            for n in order
        ],
    )  # fmt: skip
    script = LOOK.format(
        mirrors=f"{batch.temp}/coder-*/batch-*/repos",
        source=source / ".git",
        others=f"{batch.temp}/coder-*/batch-*/tasks/*/work",
        tasks=batch.file,
        results=batch.out,
    )

    def answer(request: Chat) -> object:
        said = [message["content"] for message in request["messages"] if message["role"] == "tool"]
        task = next(f"t{n}" for n in range(4) if f"task {n}" in json.dumps(request["messages"]))
        if called(request, "bash"):
            seen[task] = said[-1]
        return runs(script)(request)

    slow = project.home / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text(SLOW.format(git=shutil.which("git")), encoding="utf-8")
    slow.chmod(0o755)
    with model(answer) as server:
        path = f"{slow.parent}:{os.environ['PATH']}"
        done = batch.run(server.url, "--jobs", "1", env={"PATH": path})
    assert done.returncode == 0, batch.rows()
    for n in range(4):
        text = seen[f"t{n}"]
        assert f"object {later[n]}" in text
        assert f"log {ids[n]}" in text
        for beyond in range(n + 1, 4):
            assert ids[beyond] not in text
            assert later[beyond] not in text
            assert f"release-{beyond}" not in text
        assert "beside" not in text
        assert f"task {(n + 1) % 4}" not in text
        assert batch.by_id()[f"t{n}"]["check"]["output"] == f"release-{n}\n{n}\n{n + 1}"
