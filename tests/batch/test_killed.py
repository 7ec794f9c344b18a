"""Supervisors killed at awkward moments: their directory and whatever they started goes with them."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from batch import test_faults
from batch.batch_kit import Batch, make_repository, model, runs, wait_for, writes
from batch.test_faults import nursery_of, parent_of
from coder.addons.batch.batch_directory import Root, batch_root, remove_unused
from coder.addons.batch.fork_server import LABEL, ForkServer
from kit.driving import Project, left_running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")

SUPERVISOR = """\
import sys
from coder.addons.batch.fork_server import ForkServer
server = ForkServer("b")
kept = server.spawn() if sys.argv[1] == "task" else None
print(server.group, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of the batch `b`."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return batch_root("b")


def supervisor(word: str) -> tuple[subprocess.Popen[str], int]:
    """A process that has a fork server, and that fork server."""
    process = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, word], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def tasks_of(fork_server: int) -> list[int]:
    found = left_running(LABEL.format(pid=parent_of(fork_server)))
    return [pid for pid in found if parent_of(pid) == fork_server]


def is_alive(pid: int) -> bool:
    """No zombie: init reaps an orphan when it comes to it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_the_directory_is_there_as_long_as_any_task_process_is(directory: Path) -> None:
    """Two supervisors on one machine, as Ray's workers are, killed at once. One's fork server has nothing to
    wait for; the other's task goes on for a while, and would make directories anew that were removed."""
    idle, its_nursery = supervisor("nothing")
    busy, fork_server = supervisor("task")
    wait_for(lambda: tasks_of(fork_server))
    (task,) = tasks_of(fork_server)
    os.kill(task, signal.SIGSTOP)  # it does not end by itself when its supervisor does
    kill(busy)
    kill(idle)
    wait_for(lambda: not is_alive(its_nursery))
    existed = directory.exists()
    assert existed or not is_alive(task)
    wait_for(lambda: not is_alive(fork_server))
    assert not is_alive(task)
    assert list(directory.parent.iterdir()) == []


def test_a_supervisor_killed_before_its_first_task_leaves_nothing(directory: Path) -> None:
    process, fork_server = supervisor("nothing")
    assert directory.is_dir()
    kill(process)
    wait_for(lambda: not is_alive(fork_server))
    assert list(directory.parent.iterdir()) == []


def test_a_nursery_that_was_killed_is_started_again(directory: Path) -> None:
    fork_server = ForkServer("b")
    try:
        first = fork_server.group
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: fork_server.group != first)
        fork_server.spawn().end(10)
        assert directory.is_dir()
    finally:
        fork_server.close()
    assert list(directory.parent.iterdir()) == []


def test_what_every_process_of_a_batch_left_when_it_was_killed_goes_with_the_next(directory: Path) -> None:
    other = batch_root("other")
    other.mkdir()
    (other / "file").touch()
    cut_off = other.with_name("batch-other.gone-1")
    cut_off.mkdir()
    used = Root("used")
    mine = Root("b")
    assert sorted(path.name for path in directory.parent.iterdir()) == ["batch-b", "batch-used"]
    used.leave()
    mine.leave()
    assert list(directory.parent.iterdir()) == []


def test_a_directory_that_was_made_anew_meanwhile_is_not_removed(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between our opening the lock and locking it, its owner leaves and another comes."""
    first, made = Root("b"), list[Root]()
    kept = os.open

    def slow_open(path: Any, *rest: Any, **more: Any) -> int:
        descriptor = kept(path, *rest, **more)
        if str(path).endswith("alive.lock") and not made:
            monkeypatch.setattr(os, "open", kept)
            first.leave()
            made.append(Root("b"))
        return descriptor

    monkeypatch.setattr(os, "open", slow_open)
    remove_unused(directory)
    assert directory.is_dir()
    made[0].leave()
    assert not directory.exists()


def test_a_driver_killed_while_git_clones_takes_git_along(project: Project) -> None:
    batch = Batch(project, [{"id": "one", "prompt": "x", "repo": "ssh://host.invalid/x.git"}])
    sleep = f"sleep {time.monotonic_ns()}"  # a word by which its process is found
    driver = batch.start("http://127.0.0.1:9/v1", env={"GIT_SSH_COMMAND": f"{sleep} #"})
    wait_for(lambda: left_running(sleep.split()[1]))
    driver.kill()
    driver.communicate()
    wait_for(lambda: not left_running(sleep.split()[1]))
    wait_for(lambda: not batch.processes())
    assert list((batch.temp / f"coder-{os.getuid()}").iterdir()) == []


@pytest.mark.thorough
def test_a_batch_that_goes_on_takes_files_as_they_are_although_the_killed_one_still_ends(
    project: Project,
) -> None:
    """Some process of it, here this one, keeps the mirror that was made for it."""
    make_repository(project.cwd)
    batch = Batch(project, [{"id": "one", "prompt": "x", "cwd": ".", "check": "cat a.txt"}])
    with model(lambda _request: {"text": "never " * 1000, "delay": 60}) as server:
        driver = batch.start(server.url)
        wait_for(lambda: server.chats)
        (killed,) = (batch.temp / f"coder-{os.getuid()}").glob("batch-*")
        with (killed / "alive.lock").open() as claim:
            fcntl.flock(claim, fcntl.LOCK_SH)
            kill(driver)
            project.write("a.txt", "two\n")
            with model(writes()) as other:
                batch.start(other.url, "--resume").communicate(timeout=60)
    assert batch.by_id()["one"]["check"]["output"] == "two"
    wait_for(lambda: not batch.processes())
    remove_unused(killed)
    batch.nothing_left()


@pytest.mark.parametrize("killed", [("nursery",), ("nursery", "driver")])
def test_daemons_go_although_the_nursery_was_killed(project: Project, killed: tuple[str, ...]) -> None:
    """Without a sandbox: with the attempt, or with the next batch where the driver was killed as well."""
    make_repository(project.cwd)
    project.configure(sandbox={"mode": "off"})
    batch = Batch(project, [{"id": "one", "prompt": "x", "cwd": ".", "mode": "yolo"}])
    word = str(time.monotonic_ns())
    with model(runs(f"(setsid setsid sleep {word} &); sleep 600")) as server:
        driver = batch.start(server.url)
        wait_for(lambda: left_running(word))
        first = left_running(word)
        pids = {"driver": driver.pid, "nursery": nursery_of(batch)}
        assert test_faults.kill([pids[name] for name in killed]) == len(killed)
        if "driver" in killed:
            driver.communicate()
            with model(writes()) as other:
                batch.run(other.url, "--resume")
        wait_for(lambda: not any(map(is_alive, first)))
        kill(driver)
    wait_for(lambda: not batch.processes())
    wait_for(lambda: not left_running(word))
