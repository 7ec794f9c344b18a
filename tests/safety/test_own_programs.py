"""Programs that coder starts for itself get no secrets, and cannot be replaced by others."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from coder.policy.programs.git_environment import driver_names
from kit import ScriptedServer
from kit.driving import Project

KEY = "zq7Kk3vXw9PLmn42TTyaQ8"
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def stand_in(directory: Path, told: Path) -> Path:
    """A `git` that records its environment and then execs git."""
    directory.mkdir()
    program = directory / "git"
    program.write_text(f'#!/bin/sh\nenv >> {told}\nexec {shutil.which("git")} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return directory


def test_git_is_handed_no_key_of_the_provider_s(project: Project, tmp_path: Path) -> None:
    told = tmp_path / "told"
    directory = stand_in(tmp_path / "bin", told)
    (project.cwd / ".git").mkdir()
    line = {"calls": [{"name": "bash", "arguments": {"command": "git status"}}]}
    given = {"PATH": f"{directory}:{os.environ['PATH']}", "CODER_API_KEY": KEY, "COPY": f"x{KEY}"}
    with ScriptedServer([line, {"text": "ok"}]) as server:
        project.coder("--once", "go", url=server.url, env=given)
    text = told.read_text(encoding="utf-8")
    assert "GIT_OPTIONAL_LOCKS=0" in text
    assert KEY not in text


def test_git_is_none_that_somebody_else_may_exchange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "told"
    directory = stand_in(tmp_path / "shared", told)
    directory.chmod(0o777)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    (tmp_path / "project").mkdir()
    assert driver_names(tmp_path / "project", tmp_path / "project", into=False) == frozenset()
    assert not told.exists()
