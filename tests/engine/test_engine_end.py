"""What an engine has started, and when that ends: with the mode, with the engine, whatever else fails."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from coder.protocol.events import Content, Failed, Notice, ToolCallChanged
from coder.protocol.history import HistoryEvent
from coder.protocol.ops import SetOperatingMode, UserInput
from kit import ScriptedServer
from kit.driving import Driver, Project, left_running, of
from kit.mcp_client import until

SERVER = str(Path(__file__).parent.parent / "kit" / "tool_server.py")


def configured(project: Project) -> None:
    """One server, whose process is found by the project's directory."""
    entry = {"command": sys.executable, "args": [SERVER, str(project.cwd)]}
    project.configure(mcp={"servers": {"plain": entry}}, permission={"tools": {"mcp__*": "allow"}})


def running(project: Project) -> bool:
    return bool(left_running(str(project.cwd)))


def test_the_plan_mode_of_an_op_ends_servers_at_once_and_another_starts_them(project: Project) -> None:
    configured(project)

    async def scenario(url: str) -> None:
        driver = Driver(project, url)
        driver.start()
        await driver.send("one")
        assert running(project)
        driver.engine.submit(SetOperatingMode("plan"))
        await until(lambda: not running(project))
        driver.engine.submit(SetOperatingMode("default"))
        await until(lambda: running(project))
        await driver.close()
        assert not running(project)

    with ScriptedServer([{"text": "ok"}]) as server:
        asyncio.run(scenario(server.url))


def test_a_call_that_is_under_way_is_not_cut_off_by_plan_mode(project: Project) -> None:
    configured(project)

    async def scenario(url: str) -> None:
        driver = Driver(project, url)

        def watch(event: Any) -> None:
            if isinstance(event, ToolCallChanged) and event.state == "executing":
                driver.engine.submit(SetOperatingMode("plan"))

        driver.start()
        driver.engine.submit(UserInput("go"))
        await driver.until_idle(watch=watch)
        assert [event.state for event in of(driver.seen, ToolCallChanged)][-1] == "success"
        await until(lambda: not running(project))
        await driver.close()

    call = {"name": "mcp__plain__sleep", "arguments": {"seconds": 0.3}}
    with ScriptedServer([{"calls": [call]}, {"text": "ok"}]) as server:
        asyncio.run(scenario(server.url))


class BadSink:
    """A program's own, which fails when it is closed."""

    def append(self, event: HistoryEvent) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None:
        raise ValueError("no")


def test_servers_end_also_where_closing_something_else_fails(project: Project) -> None:
    configured(project)

    async def scenario(url: str) -> None:
        driver = Driver(project, url, sinks=[BadSink()])
        driver.start()
        await driver.send("one")
        assert running(project)
        await driver.close()
        assert not running(project)
        assert not of(driver.seen, Failed)
        assert "BadSink" in str(of(driver.seen, Notice)[-1].text)

    with ScriptedServer([{"text": "ok"}]) as server:
        asyncio.run(scenario(server.url))


def test_no_server_starts_once_the_engine_is_closed(project: Project) -> None:
    """Where somebody looks at a prompt they start a moment later: they may have left by then."""
    configured(project)

    async def scenario(url: str) -> None:
        driver = Driver(project, url, session_kind="interactive")
        driver.start()
        servers = driver.engine.agent.mcp
        assert servers is not None
        await driver.close()
        servers.start()  # as the clock would
        assert servers.starting == []

    with ScriptedServer([]) as server:
        asyncio.run(scenario(server.url))


def test_what_waits_when_it_is_closed_is_not_begun(project: Project) -> None:
    async def scenario(url: str) -> None:
        driver = Driver(project, url)
        driver.start()
        for text in ("go", "!touch late", "more"):
            driver.engine.submit(UserInput(text))
        async for event in driver.engine.events():
            if isinstance(event, Content):
                break
        await driver.close()

    with ScriptedServer([{"text": "word " * 500, "delay": 0.02}, {"text": "late"}]) as server:
        asyncio.run(scenario(server.url))
        assert len(server.chats) == 1
    assert not (project.cwd / "late").exists()
    assert [event["type"] for event in project.events()][-2:] == ["turn_end", "session_end"]
