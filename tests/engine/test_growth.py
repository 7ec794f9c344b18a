"""A step costs the step, not the session: what is written and opened does not grow with the steps."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from coder.history.store import SessionStore
from coder.protocol.history import HistoryEvent
from kit import ScriptedServer
from kit.driving import Driver, Project

STEPS = 250

_watching: list[list[tuple[str, bool]]] = []  # where opened files are noted while a test wants to know


def _note_open(event: str, args: tuple[Any, ...]) -> None:
    if event == "open" and _watching:
        path, _, flags = args
        if isinstance(path, str | bytes):
            writes = bool((flags or 0) & (os.O_WRONLY | os.O_RDWR))
            _watching[0].append((os.fsdecode(path), writes))


sys.addaudithook(_note_open)  # cannot be taken away again, so it does nothing while nobody watches


class Seen:
    """A history sink that notes what happened on the way to each answer of the model."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.opened: list[tuple[str, bool]] = []
        self.sizes: list[int] = []  # of the log, after each answer
        self.opened_by_step: list[list[tuple[str, bool]]] = []

    def append(self, event: HistoryEvent) -> None:
        if event.type == "assistant":
            self.opened_by_step.append(list(self.opened))
            self.opened.clear()
            self.sizes.append(self.project.logs()[0].stat().st_size)

    def flush(self) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def long_turn(project: Project) -> Seen:
    """One turn of many steps, each reading a file of its own name and length."""
    project.configure(runtime={"max_steps": STEPS + 1, "context_window": 10_000_000, "loop_guard": False})
    for number in range(100, 100 + STEPS):
        project.write(f"files/{number}.txt", f"{number}\n")
    reads = [
        {"name": "read", "id": f"call_{number}", "arguments": {"path": f"files/{number}.txt"}}
        for number in range(100, 100 + STEPS)
    ]
    script: list[dict[str, Any]] = [{"text": "next", "calls": [read]} for read in reads]
    seen = Seen(project)

    async def played(url: str) -> None:
        driver = Driver(project, url, sinks=[seen])
        driver.start()
        _watching.append(seen.opened)
        try:
            await driver.send("go")
        finally:
            _watching.clear()
        await driver.close()

    with ScriptedServer([*script, {"text": "done"}]) as server:
        asyncio.run(played(server.url))
    return seen


@pytest.mark.thorough
def test_bytes_per_step_do_not_grow(long_turn: Seen) -> None:
    growth = [after - before for before, after in zip(long_turn.sizes, long_turn.sizes[1:], strict=False)]
    assert len(growth) >= STEPS - 1
    middle = growth[2:-1]
    # Time stamps are of one length; only the step's number and a duration may take another digit or two.
    assert max(middle) - min(middle) <= 24, (min(middle), max(middle))


@pytest.mark.thorough
def test_no_step_opens_what_earlier_steps_wrote(long_turn: Seen) -> None:
    steps = long_turn.opened_by_step[3:]
    counts = [len(opened) for opened in steps]
    assert max(counts) <= 4, steps[counts.index(max(counts))]
    record = str(long_turn.project.cwd / ".coder")
    touched = {(path, writes) for opened in steps for path, writes in opened if path.startswith(record)}
    assert touched == set()  # the log is open, and neither it nor the snapshot is opened again
    written = [path for opened in steps for path, writes in opened if writes]
    assert written == []


def test_the_snapshot_is_written_once_a_turn(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[int] = []
    write = SessionStore.write_snapshot

    def counted(self: SessionStore, *args: Any) -> None:
        times.append(1)
        write(self, *args)

    monkeypatch.setattr(SessionStore, "write_snapshot", counted)

    async def scenario(url: str) -> None:
        driver = Driver(project, url)
        driver.start()
        for _ in range(3):
            await driver.send("go")
        await driver.close()

    script = [*[{"calls": [{"name": "list", "arguments": {}}]}] * 4, {"text": "done"}] * 3
    with ScriptedServer(script) as server:
        asyncio.run(scenario(server.url))
    assert len(project.of_type("observation")) == 12
    assert len(times) == 3


def test_one_write_an_event(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[bytes] = []
    write = os.write

    def counted(fd: int, data: Any) -> int:
        if bytes(data[:6]) == b'{"ts":':
            lines.append(bytes(data))
        return write(fd, data)

    monkeypatch.setattr(os, "write", counted)

    async def scenario(url: str) -> None:
        driver = Driver(project, url)
        driver.start()
        await driver.send("go")
        await driver.close()

    with ScriptedServer([{"calls": [{"name": "list", "arguments": {}}]}, {"text": "done"}]) as server:
        asyncio.run(scenario(server.url))
    assert b"".join(lines) == log_of(project).read_bytes()
    assert len(lines) == len(project.events())


def log_of(project: Project) -> Path:
    (log,) = project.logs()
    return log
