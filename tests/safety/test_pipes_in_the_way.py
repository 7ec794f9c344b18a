"""A pipe, a socket or a link in the place of a project's file stalls nothing."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

import pytest

from coder.ui.terminal.input.menu import FileIndex
from kit import ScriptedServer
from kit.driving import Project, drive

NAMES = (
    *("AGENTS.md", ".ignore", ".rgignore", ".coder/memory.md", ".coder/modes/m.md", ".coder/prompts/p.md"),
    *(".coder/skills/s/SKILL.md", ".codex/modes/m.md", "CLAUDE.md", ".editorconfig"),
)


def put(path: Path, kind: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with (
            contextlib.chdir(path.parent),
            socket.socket(socket.AF_UNIX) as one,
        ):  # its whole path is too long
            one.bind(path.name)
    else:
        path.symlink_to("/dev/zero")


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["pipe", "socket", "link"])
@pytest.mark.parametrize("where", [".gitignore", "sub/.gitignore"])
def test_a_gitignore_that_is_no_file_hides_and_stalls_nothing(
    project: Project, kind: str, where: str
) -> None:
    project.write("sub/found.txt", "needle\n")
    put(project.cwd / where, kind)
    calls = [("grep", {"pattern": "needle"}), ("glob", {"pattern": "**/*.txt"}), ("list", {"path": "sub"})]
    script = [{"calls": [{"name": name, "arguments": args}]} for name, args in calls]
    with ScriptedServer([*script, {"text": "done"}]) as server:
        drive(project, server.url, ["go"])
    results = project.of_type("observation")
    assert len(results) == 3
    assert all("found.txt" in event["content"] for event in results)
    assert not any("time" in event["content"] for event in results)


def test_the_files_to_choose_from_are_listed_past_a_pipe(project: Project) -> None:
    project.write("sub/found.txt", "x\n")
    os.mkfifo(project.cwd / "sub" / ".gitignore")
    index = FileIndex(project.cwd, project.environ(), lambda: None)
    assert "sub/found.txt" in list(index._paths())


@pytest.mark.parametrize("kind", ["pipe", "socket", "link"])
def test_a_turn_in_a_project_of_pipes_ends(project: Project, kind: str) -> None:
    for name in NAMES:
        put(project.cwd / name, kind)
    looks = [
        ("skill", {"action": "list"}),
        ("skill", {"action": "load", "name": "s"}),
        ("read", {"path": "AGENTS.md"}),
    ]
    script = [{"calls": [{"name": name, "arguments": args}]} for name, args in looks]
    with ScriptedServer([*script, {"text": "done"}]) as server:
        done = project.coder("--once", "go", url=server.url, timeout=60)
    assert done.returncode == 0
    assert done.stdout.strip() == "done"
    assert project.coder("modes", timeout=60).returncode == 0


@pytest.mark.parametrize("kind", ["pipe", "socket", "link"])
def test_settings_that_are_no_file_are_told(project: Project, kind: str) -> None:
    put(project.cwd / ".coder" / "config.json", kind)
    done = project.coder("sessions", timeout=60)
    assert done.returncode == 2
    assert "config.json" in done.stderr
