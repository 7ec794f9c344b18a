"""Batches of the real command against a scripted model, and what must not be left of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import repeat
from pathlib import Path
from typing import Any, Literal

import pytest

from coder.addons.batch.fork_server import LABEL
from coder.policy.sandbox.probe import probe
from kit import ScriptedServer
from kit.driving import Project, left_running

Chat = dict[str, Any]
FULL = int(os.environ.get("CODER_BATCH_TASKS", "40"))  # tasks where it is their number that counts

Backend = Literal["bubblewrap", "landlock", "none"]
BACKENDS: list[Backend] = ["bubblewrap", "landlock", "none"]


@cache
def _works(backend: Literal["bubblewrap", "landlock"]) -> bool:
    with tempfile.TemporaryDirectory() as directory:
        return probe(Path(directory), backend=backend).backend != "none"


def use_backend(project: Project, name: Backend) -> None:
    """The sandbox of the batch, by the person's settings."""
    if name == "none":
        project.configure(sandbox={"mode": "off"})
    elif _works(name):
        project.configure(sandbox={"backend": name})
    else:
        pytest.skip(f"this machine has no {name}")


def make_repository(directory: Path, files: Mapping[str, str] | None = None) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in (files or {"a.txt": "one\n"}).items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text, encoding="utf-8")
    git(directory, "init", "-q", "-b", "main")
    commit(directory, "one")
    return directory


def git(directory: Path, *words: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", "-C", str(directory), *identity, *words],
        check=True,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=60,
    )
    return done.stdout.strip()


def commit(directory: Path, message: str) -> str:
    git(directory, "add", "--all")
    git(directory, "commit", "-q", "-m", message)
    return git(directory, "rev-parse", "HEAD")


def state_of(directory: Path) -> dict[str, bytes]:
    """Every file, those of git included."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def called(request: Chat, tool: str) -> bool:
    """Whether the model has called this tool: a result alone may be that of an engine-made todo list."""
    calls = [call for message in request["messages"] for call in message.get("tool_calls") or ()]
    return any(call["function"]["name"] == tool for call in calls)


def writes(name: str = "new.txt", text: str = "new\n") -> Callable[[Chat], Any]:
    """A model that writes one file in its first step and answers in its second."""

    def answer(request: Chat) -> Any:
        if called(request, "write"):
            return {"text": "It is **done**."}
        return {"calls": [{"name": "write", "arguments": {"path": name, "content": text}}]}

    return answer


def runs(command: str) -> Callable[[Chat], Any]:
    """A model that runs one command, then answers."""

    def answer(request: Chat) -> Any:
        if called(request, "bash"):
            return {"text": "ran"}
        return {"calls": [{"name": "bash", "arguments": {"command": command}}]}

    return answer


@contextmanager
def model(answer: Callable[[Chat], Any]) -> Iterator[ScriptedServer]:
    with ScriptedServer(repeat(answer)) as server:
        yield server


class Batch:
    """A task file and its output directory in a project."""

    def __init__(self, project: Project, tasks: Sequence[Mapping[str, Any] | str]) -> None:
        self.project = project
        self.file = project.cwd / "tasks.jsonl"
        self.out = project.home / "out"
        self.temp = project.home / "tmp"
        self.temp.mkdir(exist_ok=True)
        lines = [task if isinstance(task, str) else json.dumps(task) for task in tasks]
        self.file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        self.pids: list[int] = []

    def run(
        self, url: str, *words: str, env: dict[str, str] | None = None, timeout: float = 900
    ) -> subprocess.CompletedProcess[str]:
        """To its end; nothing may be left of it."""
        process = self.start(url, *words, env=env)
        try:
            out, err = process.communicate(timeout=timeout)
        finally:
            process.kill()
        assert "Traceback" not in err, err
        self.nothing_left()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def start(self, url: str, *words: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        environ = self.project.environ(url, TMPDIR=str(self.temp), **(env or {}))
        process = subprocess.Popen(
            [sys.executable, "-m", "coder", "batch", str(self.file), "--out", str(self.out), *words],
            cwd=self.project.cwd,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.pids.append(process.pid)
        return process

    def rows(self) -> list[dict[str, Any]]:
        try:
            text = (self.out / "results.jsonl").read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def by_id(self) -> dict[str, dict[str, Any]]:
        rows = self.rows()
        found = {row["id"]: row for row in rows}
        assert len(found) == len(rows), "a task has more than one result"
        return found

    def file_of(self, task: str, name: str) -> str:
        return (self.out / task / name).read_text(encoding="utf-8")

    def processes(self) -> list[int]:
        """Those of the nurseries and tasks that this batch's drivers started."""
        return [pid for driver in self.pids for pid in left_running(LABEL.format(pid=driver))]

    def nothing_left(self) -> None:
        """No process, no work directory, no lock."""
        wait_for(lambda: not self.processes())
        assert not (self.out / "batch.lock").exists()
        private = self.temp / f"coder-{os.getuid()}"
        left = [path.name for path in private.iterdir()] if private.exists() else []
        assert [name for name in left if name.startswith("batch-")] == []


def wait_for(condition: Callable[[], object], seconds: float = 180) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.02)
