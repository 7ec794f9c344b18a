"""Cancel at any moment: what was done stays done, nothing is left running, no call is left unanswered."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from pathlib import Path
from typing import Any

import pytest

from coder.history.log import read_log
from coder.history.replay import replay
from coder.protocol.events import AnyEvent, Content, Thought, ToolCallChanged, ToolOutput, TurnEnded
from coder.protocol.ops import Cancel
from kit import ScriptedServer
from kit.calls import bash
from kit.driving import Driver, Project, left_running, of, processes

SCRIPT = [
    {"reasoning": "let me think about it", "text": "I will write and run", "chunk": 4, "delay": 0.003},
    {"text": "after the cancel"},
]


def cancel_when(project: Project, script: list[Any], when: Any, delay: float = 0.0) -> Driver:
    """Cancel at the first event for which `when` is true, then check that the session goes on."""

    async def scenario(url: str) -> Driver:
        driver = Driver(project, url, mode="yolo")
        driver.start()
        fired = False

        def watch(event: AnyEvent) -> None:
            nonlocal fired
            if not fired and when(event):
                fired = True
                asyncio.get_running_loop().call_later(delay, driver.engine.submit, Cancel())

        from coder.protocol.ops import UserInput

        driver.engine.submit(UserInput("go"))
        await driver.until_idle(watch=watch)
        await driver.send("again")
        await driver.close()
        return driver

    with ScriptedServer([*script, {"text": "after the cancel"}]) as server:
        return asyncio.run(scenario(server.url))


def assert_whole(project: Project) -> None:
    """Every call has one answer, in the record and in the conversation it gives back."""
    state = replay(read_log(project.logs()[0]))
    assert state.unanswered == []
    asked = [c.id for m in state.messages for c in m.tool_calls]
    told = [m.tool_call_id for m in state.messages if m.role == "tool"]
    assert asked == told


@pytest.mark.parametrize("kind", [Thought, Content])
def test_while_the_model_speaks(project: Project, kind: type[Any]) -> None:
    driver = cancel_when(project, SCRIPT[:1], lambda e: isinstance(e, kind))
    first, second = of(driver.seen, TurnEnded)
    assert (first.status, second.status) == ("cancelled", "ok")
    assert first.error == "Cancelled: the model's answer was stopped."
    assert_whole(project)
    if kind is Content:  # what was shown is in the record
        shown = "".join(e.text for e in of(driver.seen, Content)).removesuffix("after the cancel")
        partial = project.of_type("assistant")[0]
        assert partial["content"] == shown
        assert partial["meta"]["partial"] is True


@pytest.mark.thorough
def test_while_a_command_runs_and_its_children_with_it(project: Project) -> None:
    command = "echo started; sleep 3001.5 & sleep 3001.5"
    begun = time.monotonic()
    driver = cancel_when(project, [{"calls": [bash(command)]}], lambda e: isinstance(e, ToolOutput), 0.1)
    assert time.monotonic() - begun < 60
    assert of(driver.seen, TurnEnded)[0].status == "cancelled"
    assert_whole(project)
    assert of(driver.seen, TurnEnded)[0].error.startswith("Cancelled: bash echo started")
    assert left_running("3001.5") == []
    states = [e.state for e in of(driver.seen, ToolCallChanged)]
    assert states[:3] == ["scheduled", "executing", "cancelled"]


def test_side_effects_that_happened_stay(project: Project) -> None:
    calls = [
        {"name": "write", "arguments": {"path": "kept.txt", "content": "kept\n"}},
        bash("sleep 300"),
        {"name": "write", "arguments": {"path": "never.txt", "content": "never\n"}},
    ]

    def running(event: AnyEvent) -> bool:
        return isinstance(event, ToolCallChanged) and (event.tool, event.state) == ("bash", "executing")

    cancel_when(project, [{"calls": calls}], running, 0.05)
    assert (project.cwd / "kept.txt").exists()
    assert not (project.cwd / "never.txt").exists()
    contents = [e["content"] for e in project.of_type("observation")]
    assert not contents[0].startswith("error")
    assert all("cancelled" in text for text in contents[1:])
    assert_whole(project)


def test_while_a_retry_is_waited_for_no_further_request_is_made(project: Project) -> None:
    async def scenario(url: str) -> Driver:
        driver = Driver(project, url)
        driver.start()
        from coder.protocol.events import Notice
        from coder.protocol.ops import UserInput

        driver.engine.submit(UserInput("go"))

        def watch(event: AnyEvent) -> None:
            if isinstance(event, Notice):
                driver.engine.submit(Cancel())

        await driver.until_idle(watch=watch)
        await driver.close()
        return driver

    busy = {"status": 503, "headers": {"Retry-After": "30"}}
    with ScriptedServer([busy, {"text": "never"}]) as server:
        driver = asyncio.run(scenario(server.url))
        assert len(server.chats) == 1
    assert of(driver.seen, TurnEnded)[0].status == "cancelled"


@pytest.mark.parametrize("milliseconds", [0, 1, 3, 6, 10, 15, 25, 40, 60, 90])
def test_at_any_time_at_all(project: Project, milliseconds: int) -> None:
    project.write("a.txt", "text\n")
    script = [
        {
            "text": "working",
            "delay": 0.002,
            "calls": [
                {"name": "read", "arguments": {"path": "a.txt"}},
                {"name": "grep", "arguments": {"pattern": "text"}},
                bash("sleep 0.03; echo one >> log"),
                {"name": "write", "arguments": {"path": "b.txt", "content": "b\n"}},
                bash("sleep 0.03; echo two >> log"),
            ],
        },
        {"text": "and done", "delay": 0.002},
    ]
    driver = cancel_when(project, script, lambda _event: True, milliseconds / 1000)
    # a cancel that comes before the input was taken up leaves no turn at all
    assert [e.status for e in of(driver.seen, TurnEnded)][-1] == "ok"
    assert_whole(project)


def children() -> set[int]:
    """Processes of this one, those that have ended and were not waited for among them."""
    found = set()
    for pid in processes():
        with contextlib.suppress(OSError):  # it has ended meanwhile
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
            if int(stat.rpartition(")")[2].split()[1]) == os.getpid():
                found.add(pid)
    return found


def test_no_process_is_left_behind(project: Project) -> None:
    """Not by a normal end either: what a command started in the background ends with it."""
    calls = [bash("sleep 3002.5 >/dev/null 2>&1 &"), bash("(sleep 3002.5 &) ; echo x")]
    before = children()
    cancel_when(project, [{"calls": calls}, {"text": "x"}], lambda _event: False)
    assert left_running("3002.5") == []
    assert children() - before == set()
