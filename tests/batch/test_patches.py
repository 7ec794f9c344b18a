"""What a task starts from is what the person has, and its patch is what the task did, no more and no less."""

from __future__ import annotations

import os
from pathlib import Path
from shutil import which
from typing import Any

from batch.batch_kit import Batch, commit, git, make_repository, model, runs, writes
from kit.driving import Project

TASK: dict[str, Any] = {"id": "one", "prompt": "write the file", "cwd": "."}


def test_tracked_files_that_gitignore_names_are_in_the_clone(project: Project) -> None:
    make_repository(project.cwd, {"dist/kept.js": "k\n", "dist/gone.js": "g\n"})
    (project.cwd / ".gitignore").write_text("dist/\n", encoding="utf-8")
    commit(project.cwd, "ignore")
    (project.cwd / "dist" / "kept.js").write_text("now\n", encoding="utf-8")
    (project.cwd / "dist" / "gone.js").unlink()
    (project.cwd / "dist" / "never.js").write_text("n\n", encoding="utf-8")
    batch = Batch(project, [{**TASK, "check": "ls dist; cat dist/kept.js"}])
    with model(writes()) as server:
        batch.run(server.url)
    assert batch.rows()[0]["check"]["output"] == "kept.js\nnow"


def test_a_nested_repository_without_commits_is_left_out_and_said_so(project: Project) -> None:
    make_repository(project.cwd)
    for name in ("fresh", "other [1]"):
        (project.cwd / name).mkdir()
        git(project.cwd / name, "init", "-q")
        (project.cwd / name / "f").write_text("x\n", encoding="utf-8")
    batch = Batch(project, [{**TASK, "check": "test ! -e fresh && test ! -e 'other [1]'"}])
    with model(writes()) as server:
        done = batch.run(server.url)
    assert batch.rows()[0]["check"]["status"] == "passed"
    for name in ("fresh", "other [1]"):
        assert name in batch.rows()[0]["note"]
        assert name in done.stdout


def test_a_repository_that_the_task_made_is_in_its_patch(project: Project) -> None:
    """As files: git itself would have an entry without contents, or none."""
    make_repository(project.cwd)
    identity = "-c user.name=a -c user.email=b"
    line = (
        f"mkdir -p lib/in && cd lib && git init -q && echo x > f && git add f && git {identity} commit -qm x"
        f" && cd in && git init -q && echo z > z && git add z && git {identity} commit -qm z"
        " && cd ../.. && mkdir 'not yet' && cd 'not yet' && git init -q && echo y > g && touch ../last"
    )
    batch = Batch(project, [{**TASK, "mode": "yolo"}])
    with model(runs(line)) as server:
        batch.run(server.url)
    assert batch.rows()[0]["status"] == "ok"
    patch = batch.file_of("one", "patch.diff")
    assert patched(patch) == {"lib/f", "lib/in/z", "not yet/g", "last"}
    assert batch.rows()[0]["note"] == ""


def test_edits_in_a_repository_that_was_there_are_named(project: Project) -> None:
    """A submodule: its files are no part of the patch of the project."""
    make_repository(project.cwd)
    line = "git clone -q . sub && touch other"
    batch = Batch(project, [{**TASK, "mode": "yolo", "setup": line}])
    with model(runs("echo more >> sub/a.txt")) as server:
        batch.run(server.url)
    assert "sub" in batch.rows()[0]["note"]
    assert batch.rows()[0]["files"] == 0


def test_files_in_folders_without_permissions_are_in_the_patch(project: Project) -> None:
    make_repository(project.cwd)
    batch = Batch(project, [{**TASK, "mode": "yolo"}])
    with model(runs("mkdir -p shut/in; echo x > shut/in/f; chmod 000 shut/in shut")) as server:
        batch.run(server.url)
    assert patched(batch.file_of("one", "patch.diff")) == {"shut/in/f"}


def test_a_task_that_does_nothing_has_no_patch(project: Project) -> None:
    """Also of files that git would write in another way than they were committed."""
    make_repository(project.cwd, {"a.txt": "one\r\ntwo\r\n"})
    (project.cwd / ".gitattributes").write_text("*.txt text\n", encoding="utf-8")
    git(project.cwd, "add", ".gitattributes")
    git(project.cwd, "commit", "-q", "-m", "attributes")
    batch = Batch(project, [{**TASK, "cwd": "", "repo": "."}])
    with model(lambda _: {"text": "x"}) as server:
        batch.run(server.url)
    assert batch.rows()[0]["files"] == 0


def test_a_timeout_while_the_patch_of_the_meantime_is_made_has_a_row(
    project: Project, tmp_path: Path
) -> None:
    make_repository(project.cwd)
    git_that_waits = tmp_path / "bin" / "git"
    git_that_waits.parent.mkdir()
    real = which("git")
    lock = 'touch "$GIT_DIR/index.lock"'
    git_that_waits.write_text(
        f'#!/bin/sh\ncase "$*" in *--ignore-errors*) {lock}; exec sleep 1000;; esac\nexec {real} "$@"\n',
        encoding="utf-8",
    )
    git_that_waits.chmod(0o755)
    batch = Batch(project, [{**TASK, "cwd": "", "repo": ".", "timeout_s": 2}])
    with model(writes()) as server:
        batch.run(server.url, env={"PATH": f"{git_that_waits.parent}:{os.environ['PATH']}"})
    assert [row["status"] for row in batch.rows()] == ["timeout"]
    assert patched(batch.file_of("one", "patch.diff")) == {"new.txt"}


def patched(patch: str) -> set[str]:
    return {line.rpartition(" b/")[2] for line in patch.splitlines() if line.startswith("diff --git ")}
