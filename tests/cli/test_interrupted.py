"""Ctrl+C while Python still imports: status 130, and nobody sees a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kit import ScriptedServer
from kit.driving import Project

# Runs the command as its entry point does, and sends SIGINT at the import of that number; else says how
# many imports there were.
PROBE = """
import os, signal, sys
at, file, count = int(sys.argv[1]), sys.argv[2], 0

def hook(name, args):
    global count
    if name == "import":
        count += 1
        if count == at:
            os.kill(os.getpid(), signal.SIGINT)

leave = os._exit

def tell_and_leave(status):
    with open(file, "w") as out:
        out.write(str(count))
    leave(status)

os._exit = tell_and_leave
sys.argv = ["coder", *sys.argv[3:]]
import coder.cli
sys.addaudithook(hook)
coder.cli.main()
tell_and_leave(0)
"""
POINTS = 12


def interrupted(
    project: Project, at: int, *args: str, url: str
) -> tuple[subprocess.CompletedProcess[str], int]:
    """How it ended, and how many imports there were."""
    file = Path(project.home, "imports")
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(at), str(file), *args],
        cwd=project.cwd,
        env=project.environ(url),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    return done, int(file.read_text(encoding="utf-8"))


@pytest.mark.thorough
@pytest.mark.parametrize("args", [("--once", "x"), (), ("doctor",)], ids=["once", "bare", "subcommand"])
def test_an_interrupt_at_any_import_ends_with_130_and_no_traceback(
    project: Project, args: tuple[str, ...]
) -> None:
    with ScriptedServer([{"text": "hello"}] * (POINTS + 2)) as server:
        interrupted(project, 0, *args, url=server.url)  # fills the caches
        _, imports = interrupted(project, 0, *args, url=server.url)
        for at in range(1, imports, imports // POINTS + 1):
            done, _ = interrupted(project, at, *args, url=server.url)
            assert "Traceback" not in done.stderr, (at, imports)
            assert "Exception ignored" not in done.stderr, (at, imports)
            # What reads the answer is imported when it comes: an interrupt may be too late by then.
            answered = done.returncode == 0 and done.stdout == "hello\n"
            assert answered or done.returncode == 130, (at, imports, done.stderr)


def test_an_interrupt_that_is_ignored_stays_so(project: Project) -> None:
    """As in a background job of a shell."""
    done = subprocess.run(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-c", PROBE, "5", "imports", "schema"],
        cwd=project.cwd,
        env=project.environ(""),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
