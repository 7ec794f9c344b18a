"""What a command leaves behind when it has ended: no process, and nothing that git would run."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from box import NOBODY, Box, available, users

from kit.driving import left_running

RUNGS = available()
PLACES = [(backend, user) for backend in RUNGS for user in users()]
# Each process forks its successor and ends at once: who looks at a list of processes comes too late.
FORKING = """
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(int count, char **words) {
    time_t until = time(0) + 9;
    for (int n = 0; n < 100; n++)
        if (fork() == 0) {
            setsid();
            while (time(0) < until) {
                pid_t next = fork();
                if (next > 0) _exit(0);
            }
            close(open("outlived", O_CREAT | O_WRONLY, 0644));
            _exit(0);
        }
    return 0;
}
"""


@pytest.fixture(params=PLACES, ids=lambda place: "-".join(place))
def box(request: pytest.FixtureRequest) -> Iterator[Box]:
    found = Box(*request.param)
    yield found
    found.close()


@pytest.mark.thorough
@pytest.mark.parametrize("backend", RUNGS)
def test_no_daemon_is_left_of_a_command_that_ran_out_of_time_on_a_busy_machine(backend: str) -> None:
    box = Box(backend)
    mark = f"4{time.time_ns() % 10**9:09d}"
    daemons = f"for i in $(seq 200); do (setsid env -i sleep {mark} &); done"
    busy = f"for i in $(seq 60); do (setsid env -i nice -n 19 sh -c 'while :; do :; done' {mark} &); done"
    # Whoever would end them is slowed down; a namespace's first process cannot help dying.
    slow = "renice -n 19 -p $PPID; chrt -i -p 0 $PPID" if backend == "landlock" else ""
    box.run(f"{slow}\n{daemons}\n{busy}\nsleep {mark}", timeout_ms=3000)
    deadline = time.monotonic() + 10  # what has been killed takes a moment to be gone
    while (left := left_running(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid in left:
        os.kill(int(pid), 9)
    box.close()
    assert left == []


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a compiler")
def test_processes_that_fork_without_end_end_with_their_command() -> None:
    """On every backend; one after the other, so that what would outlive them is waited for once."""
    boxes = [Box(backend) for backend in RUNGS]
    for box in boxes:
        source = box.put("project/forking.c", FORKING)
        subprocess.run(["cc", "-O2", "-o", box.workspace / "forking", source], check=True)
        box.run("./forking", timeout_ms=60_000)
    time.sleep(12 if boxes else 0)
    outlived = [box.backend for box in boxes if (box.workspace / "outlived").exists()]
    for box in boxes:
        box.close()
    assert outlived == []


def put(box: Box, name: str, text: str) -> Path:
    path = box.workspace / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if box.user == "nobody":
        for one in (path, path.parent):
            os.chown(one, NOBODY, NOBODY)
    return path


def test_programs_that_a_hook_starts_are_put_back_with_it(box: Box) -> None:
    """Hooks are often a directory of them (`pre-commit.d`)."""
    inner = put(box, ".git/hooks/pre-commit.d/lint", "good\n")
    box.run(
        "echo evil > .git/hooks/pre-commit.d/lint; mkdir .git/hooks/new.d; echo evil > .git/hooks/new.d/x"
    )
    assert inner.read_text(encoding="utf-8") == "good\n"
    assert not (box.workspace / ".git/hooks/new.d/x").exists()
    box.run("echo evil > .git/hooks/pre-push; rm -rf .git/hooks/pre-commit.d")
    assert inner.read_text(encoding="utf-8") == "good\n"
    assert (box.workspace / ".git/hooks/pre-push").read_text(encoding="utf-8") == "#!/bin/sh\n"


DEEP = """python3 -c "
import os
for _ in range(2500):
    os.mkdir('d')
    os.chdir('d')
open('x', 'w').close()
"
"""


def test_a_hook_below_which_no_walk_reaches_is_put_back(box: Box) -> None:
    box.run(f"echo evil > .git/hooks/pre-push; cd .git/hooks && {DEEP}")
    hooks = box.workspace / ".git/hooks"
    assert [path.name for path in hooks.iterdir()] == ["pre-push"]
    assert (hooks / "pre-push").read_text(encoding="utf-8") == "#!/bin/sh\n"


def test_a_deep_temporary_tree_of_a_read_only_line_is_removed(box: Box) -> None:
    done = box.run(f"echo $TMPDIR; cd $TMPDIR && mkdir 0 && chmod 0 0 && {DEEP} exit 7", plan=True)
    assert done.exit_code == 7
    assert not Path(done.stdout.strip(), "d").exists()  # bubblewrap's is a file system of its own
