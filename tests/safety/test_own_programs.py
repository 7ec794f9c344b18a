"""Programs that coder starts for itself get no secrets, and cannot be replaced by others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from batch.batch_kit import BACKENDS, Backend, Batch, make_repository, model, use_backend, wait_for, writes
from coder.base.process.git import driver_names
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


def program(directory: Path, name: str, text: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return directory


@pytest.mark.parametrize("chosen", ["", "mine", "./bin/theirs", "theirs:mine"])
def test_the_browser_is_the_person_s_and_gets_no_key(project: Project, chosen: str) -> None:
    """With a directory of the project first on PATH, which has browsers of every name."""
    ran, shown = project.home / "ran", project.home / "shown"
    names = ("xdg-open", "gio", "x-www-browser", "www-browser", "firefox", "lynx", "w3m", "theirs")
    for name in names:
        program(project.cwd / "bin", name, f"touch {ran}")
    mine = project.home / "bin"
    for name in ("xdg-open", "mine"):
        program(mine, name, f'env > {shown}.new; echo "$1" >> {shown}.new; mv {shown}.new {shown}')
    path = f"{project.cwd / 'bin'}:bin:{mine}:{os.environ['PATH']}"
    given = {"PATH": path, "DISPLAY": ":9", "OPENAI_API_KEY": KEY, "COPY": KEY, "XDG_SEAT_TOKEN": KEY}
    environ = project.environ(**given, **({"BROWSER": chosen} if chosen else {}))
    ours, theirs = os.openpty()
    viewer = subprocess.Popen(
        [sys.executable, "-m", "coder", "view"],
        cwd=project.cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: shown.exists() or ran.exists())
    finally:
        viewer.terminate()
        viewer.wait(10)
        os.close(ours)
        os.close(theirs)
    assert not ran.exists()
    text = shown.read_text(encoding="utf-8")
    assert "http://127.0.0.1:" in text
    assert "DISPLAY=:9" in text
    assert KEY not in text


@pytest.mark.parametrize("source", ["cwd", "repo"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_batch_runs_no_git_of_the_project_s(project: Project, source: str, backend: Backend) -> None:
    use_backend(project, backend)
    make_repository(project.cwd)
    ran = project.home / "ran"
    real = shutil.which("git")
    program(project.cwd / "bin", "git", f'touch {ran}; exec {real} "$@"')
    told = project.home / "told"
    mine = stand_in(project.home / "bin", told)
    batch = Batch(project, [{"id": "one", "prompt": "write", source: str(project.cwd)}])
    path = f"{project.cwd / 'bin'}:bin:{mine}:{os.environ['PATH']}"
    with model(writes()) as server:
        done = batch.run(server.url, env={"PATH": path, "CODER_API_KEY": KEY, "COPY": KEY})
    assert done.returncode == 0, batch.rows()
    assert not ran.exists()
    assert KEY not in told.read_text(encoding="utf-8")
    assert batch.rows()[0]["files"] == 1
