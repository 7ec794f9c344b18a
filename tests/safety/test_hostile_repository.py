"""Unasked git calls run no program that a repository names, on any backend."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from box import available
from test_two_locks import played

from coder.protocol.events import ApprovalRequested, CommandDone
from kit.driving import Project, of

AUTHOR = {f"GIT_{role}_{part}": "a@b" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
LINES = (
    "git status",
    "git log -p",
    "git diff",
    "git diff HEAD~1",
    "cd vendor && git status",
    "git -C vendor log",
)


def git(directory: Path, *words: str) -> None:
    environment = {**os.environ, **AUTHOR, "GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(["git", *words], cwd=directory, check=True, capture_output=True, env=environment)


def armed(root: Path, evil: Path) -> None:
    """A repository whose settings, attributes and hooks all name the program; a bare one below it too."""
    git(root, "init", "-q", "-b", "main", ".")
    (root / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n", encoding="utf-8")
    for text in ("one\n", "two\n"):
        (root / "a").write_text(text, encoding="utf-8")
        git(root, "add", ".")
        git(root, "commit", "-q", "-m", text)
    hooks = root / "hooks"
    hooks.mkdir()
    for name in ("post-index-change", "fsmonitor-watchman", "pre-auto-gc", "reference-transaction"):
        (hooks / name).write_bytes(evil.read_bytes())
        (hooks / name).chmod(0o755)
    git(root, "init", "-q", "--bare", "vendor")
    settings = {
        "core.hooksPath": str(hooks),
        **dict.fromkeys(
            ("core.fsmonitor", "core.pager", "pager.log", "pager.diff", "diff.external"), str(evil)
        ),
        **dict.fromkeys(("filter.evil.clean", "filter.evil.smudge", "filter.evil.process"), str(evil)),
        **dict.fromkeys(("diff.evil.textconv", "diff.evil.command", "gpg.program"), str(evil)),
        **dict.fromkeys(("alias.status", "alias.log", "alias.diff"), f"!{evil}"),
    }
    for directory in (root, root / "vendor"):
        for key, value in settings.items():
            git(directory, "config", key, value)
    git(root / "vendor", "config", "core.bare", "false")
    git(root / "vendor", "config", "core.worktree", str(root))
    (root / "a").write_text("three\n", encoding="utf-8")
    os.utime(root / ".gitattributes", (1, 1))


@pytest.fixture
def marker(project: Project) -> Path:
    """The project is such a repository; the file tells when the program ran."""
    marker, evil = project.cwd / "ran", project.cwd / "evil"
    evil.write_text(f'#!/bin/sh\necho "$0 $*" >> "{marker}"\ncat\n', encoding="utf-8")
    evil.chmod(0o755)
    armed(project.cwd, evil)
    marker.unlink(missing_ok=True)
    return marker


@pytest.mark.parametrize("line", ["/diff", "/diff full"])
def test_the_diff_command_runs_nothing_of_it_where_there_is_no_sandbox(
    project: Project, marker: Path, line: str
) -> None:
    driver = played(project, "none", inputs=(line,))
    assert not marker.exists(), marker.read_text(encoding="utf-8")
    assert "three" in str(of(driver.seen, CommandDone)[-1]) or line == "/diff"


@pytest.mark.thorough
@pytest.mark.parametrize("backend", [*available(), "none"])
def test_nothing_that_a_repository_names_runs(project: Project, marker: Path, backend: str) -> None:
    before = {path: path.read_bytes() for path in (project.cwd / ".git").rglob("*") if path.is_file()}
    driver = played(project, backend, *LINES, answer=lambda _asked: "no")
    assert not marker.exists(), marker.read_text(encoding="utf-8")
    assert {path: path.read_bytes() for path in before} == before
    looked = project.of_type("observation")
    asked = of(driver.seen, ApprovalRequested)
    assert not [e.subject for e in asked if e.subject in LINES[:4]]
    assert "modified:" in looked[0]["content"]
    assert "+two" in looked[1]["content"]
    assert "+three" in looked[2]["content"]
    subprocess.run(
        ["git", "diff"], cwd=project.cwd, capture_output=True, check=False, stdin=subprocess.DEVNULL
    )
    assert marker.exists(), "the settings start nothing: this tests nothing"
