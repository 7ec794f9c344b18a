"""A client that others wrote, `acpx` of npm, drives a whole session of `coder acp`."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

from kit import ScriptedServer
from kit.calls import bash, call
from kit.driving import Project, processes
from kit.npm import npm_program

SCRIPT = [
    {"calls": [call("read", path="a.txt")]},
    {"calls": [call("edit", path="a.txt", old_string="two", new_string="zwei")]},
    {"text": "It says zwei now."},
    {"calls": [bash("touch made.txt")]},
    {"text": "Then not."},
]


@pytest.mark.thorough
def test_acpx_drives_a_whole_session(project: Project) -> None:
    acpx = npm_program("acpx")
    project.write("a.txt", "one\ntwo\n")
    project.configure(workflow={"auto_verify_after_edit": False})

    def run(*args: str, statuses: tuple[int, ...] = (0,)) -> str:
        """Each is a process: the session's own goes on behind them, or is loaded again."""
        done = subprocess.run(
            [*acpx, "--agent", f"{sys.executable} -m coder acp", *args],
            cwd=project.cwd, env=environ, stdin=subprocess.DEVNULL,
            capture_output=True, encoding="utf-8", timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode in statuses, (args, done.stdout, done.stderr)
        return done.stdout

    with ScriptedServer(SCRIPT) as server:
        environ = project.environ(server.url)
        try:
            run("sessions", "new")
            said = run("--approve-all", "prompt", "say it in German")
            assert "diff" in said
            assert "It says zwei now." in said
            assert "[done] end_turn" in said
            said = run("--deny-all", "prompt", "make a file", statuses=(0, 5))  # by its version
            assert "Then not." in said
            assert "mode set: plan" in run("set-mode", "plan")
            assert "mode: plan" in run("prompt", "/status")
            assert "mode=plan" in run("set", "mode", "plan")
        finally:
            run("sessions", "close")
    assert (project.cwd / "a.txt").read_text(encoding="utf-8") == "one\nzwei\n"
    assert not (project.cwd / "made.txt").exists()
    assert [turn["content"] for turn in project.of_type("turn_start")] == ["say it in German", "make a file"]
    answers = [entry["meta"].get("answer") for entry in project.of_type("approval")]
    assert [answer for answer in answers if answer] == ["yes", "no"]
    assert project.events()[-1]["type"] == "session_end"
    assert _working_in(project.cwd) == []


def _working_in(directory: Path) -> list[int]:
    found = []
    for pid in processes():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/cwd").readlink() == directory:
                found.append(pid)
    return found
