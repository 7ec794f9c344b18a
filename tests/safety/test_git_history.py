"""Looking at git's history runs nothing that a submodule names, on every backend and without any."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest
from box import available, level_of
from test_sandbox_engine import git

from coder.protocol.events import ApprovalRequested
from coder.protocol.ops import ApprovalReply
from kit import ScriptedServer
from kit.calls import bash
from kit.driving import Driver, Project, of

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
LINES = [
    "git reflog -p --submodule=diff",
    "git stash show -p --submodule=diff",
    "git stash list -p --submodule=diff",
    "git log -p --submodule=diff",
    "git notes --ref=x show --submodule=diff main",
]


@pytest.fixture
def canary(project: Project) -> Path:
    """Touched by the program that a submodule's settings name."""
    git(project.cwd, "init", "-q")
    inside = project.cwd / "module"
    inside.mkdir()
    git(inside, "init", "-q")
    for text in ("one\n", "two\n"):
        project.write("module/a", text)
        git(inside, "add", "a")
        git(inside, "commit", "-qm", text)
        git(project.cwd, "-c", "advice.addEmbeddedRepo=false", "add", "module")
        git(project.cwd, "commit", "-qm", text)
    git(inside, "checkout", "-q", "HEAD~1")
    git(project.cwd, "stash", "-q")
    told = project.cwd / "canary"
    project.write("evil", f"#!/bin/sh\ntouch {told}\n").chmod(0o755)
    git(inside, "config", "diff.external", str(project.cwd / "evil"))
    return told


@pytest.mark.parametrize("backend", [*available(), "none"])
def test_no_program_of_a_submodule_runs_unasked(project: Project, canary: Path, backend: str) -> None:
    async def scenario(url: str) -> Driver:
        driver = Driver(project, url, can_ask=True)
        driver.engine.agent.sandbox.level = level_of(backend)
        driver.start()
        await driver.send("go", lambda asked: ApprovalReply(asked.approval_id, "no"))
        await driver.close()
        return driver

    with ScriptedServer([*({"calls": [bash(line)]} for line in LINES), {"text": "done"}]) as server:
        driver = asyncio.run(scenario(server.url))
    assert [asked.subject for asked in of(driver.seen, ApprovalRequested)] == LINES
    assert not canary.exists()
    subprocess.run(LINES[0].split(), cwd=project.cwd, capture_output=True, check=False)
    assert canary.exists(), "git runs nothing here: this tests nothing"
