"""However coder ends, its background jobs end with it, on every backend of the sandbox."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from box import available

from kit import ScriptedServer
from kit.driving import Project, left_running

SECONDS = 60
RUNGS = [*available(), "none", "off"]
# A session on a given backend, up to its answer; then it waits for somebody to end it.
SESSION = """
import asyncio, sys
from pathlib import Path
sys.path[:0] = [sys.argv[3], sys.argv[4]]
from box import level_of
from kit.driving import Driver, Project

class Here(Project):
    def __init__(self, root):
        self.cwd, self.home = root / "project", root / "home"

async def main():
    driver = Driver(Here(Path(sys.argv[1])), sys.argv[2], mode="yolo")
    if sys.argv[5] != "off":
        driver.engine.agent.sandbox.level = level_of(sys.argv[5])
        driver.engine.agent.sandbox.confirmed = True
    driver.start()
    await driver.send("go")
    print("answered", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def started(command: str) -> list[Any]:
    call = {"name": "bash", "arguments": {"command": command, "background": True}}
    return [{"calls": [call]}, {"text": "done"}]


@pytest.mark.thorough
@pytest.mark.parametrize("backend", RUNGS)
def test_killed_outright(project: Project, backend: str) -> None:
    """Also what has left the job's process group, and its session."""
    word = f"302{RUNGS.index(backend)}.{os.getpid()}"
    line = f"sleep {word} & (setsid sleep {word} &) ; trap '' TERM HUP INT; sleep {word}; sleep {word}"
    if backend == "off":
        project.configure(sandbox={"mode": "off"})
    tests = Path(__file__).parent
    with ScriptedServer(started(line)) as server:
        child = subprocess.Popen(
            [
                sys.executable,
                "-c",
                SESSION,
                str(project.cwd.parent),
                server.url,
                str(tests),
                str(tests.parent),
                backend,
            ],
            stdout=subprocess.PIPE,
        )
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"answered\n"
            wait_until(lambda: len(left_running(word)) >= 3)
        finally:
            child.send_signal(signal.SIGKILL)
            child.communicate()
    wait_until(lambda: left_running(word) == [])
    end = [json.loads(text) for text in project.logs()[0].read_text().splitlines()][-1]
    assert end["type"] == "turn_end"  # it was killed: nothing was tidied up


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_told_to_end(project: Project, number: signal.Signals) -> None:
    """While the model is being asked after the job was started."""
    word = f"303{int(number)}.{os.getpid()}"
    begun, over = threading.Event(), threading.Event()

    def hang(_request: Any) -> dict[str, Any]:
        begun.set()
        over.wait(SECONDS)
        return {"text": "too late"}

    with ScriptedServer([started(f"sleep {word}")[0], hang]) as server:
        child = project.started("--mode", "yolo", "--once", "go", url=server.url)
        try:
            wait_until(lambda: begun.is_set() and bool(left_running(word)))
            child.send_signal(number)
            _, told = child.communicate(timeout=SECONDS)
        finally:
            over.set()
            child.kill()
            child.wait()
    assert child.returncode == 130
    assert f"Ended with the session: job 1 (sleep {word})." in told.decode()
    assert left_running(word) == []


def test_resumed_after_a_kill_the_session_says_that_they_are_gone(project: Project) -> None:
    word = f"3040.{os.getpid()}"
    over = threading.Event()
    with ScriptedServer([started(f"sleep {word}")[0], lambda _request: over.wait(SECONDS)]) as server:
        child = project.started("--mode", "yolo", "--once", "go", url=server.url)
        wait_until(lambda: bool(project.logs()) and "job_id" in project.logs()[0].read_text())
        child.kill()
        child.communicate()
        over.set()
    wait_until(lambda: left_running(word) == [])
    (log,) = project.logs()
    with ScriptedServer([{"text": "ok"}, {"text": "ok"}]) as server:
        done = project.coder("--resume", log.stem, "--once", "next", url=server.url)
        again = project.coder("--resume", log.stem, "--once", "and", url=server.url)
        first, second = (chat["messages"][-1]["content"] for chat in server.chats)
    assert f"ended with the earlier process: 1 (sleep {word})" in done.stderr
    assert f"1 (sleep {word})" in first
    assert "earlier process" not in second + again.stderr


LAUNCHER = """
import os, sys, time
from coder.policy.sandbox import launch

supervise = launch._supervise
def late(child, apart=False):  # the command runs before its supervisor comes to wait for it
    while not os.path.exists("killed"):
        time.sleep(0.01)
    return supervise(child, apart)
launch._supervise = late
empty = dict.fromkeys(("hidden", "emptied", "readable", "writable", "devices", "guarded"), [])
blank = dict.fromkeys(("temp", "path", "fresh"), "")
spec = {**empty, **blank, "filter": b"", "shut_in": False, "cwd": ".", "environment": {}, "in_temp": {}}
launch.run(spec, ["sh", "-c", sys.argv[1]])
"""


def test_told_to_end_before_it_could_listen(tmp_path: Path) -> None:
    """A launcher whose signal comes between its fork and its handlers."""
    word = f"3029.{os.getpid()}"
    line = f"sleep {word} & sleep {word}"
    child = subprocess.Popen([sys.executable, "-c", LAUNCHER, line], cwd=tmp_path)
    try:
        wait_until(lambda: len(left_running(word)) == 2)
        child.terminate()
        (tmp_path / "killed").touch()
        child.wait(SECONDS)
        wait_until(lambda: left_running(word) == [])
    finally:
        child.kill()
        child.wait()
        for pid in left_running(word):
            os.kill(pid, signal.SIGKILL)
