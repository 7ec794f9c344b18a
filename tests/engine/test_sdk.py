"""The package as an SDK (seed 004): sessions, turns, sinks, one-turn wrapper."""

from __future__ import annotations

import asyncio
import json
import xml.etree.ElementTree as ET
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import coder
from coder.models.model import Chunk, Completed, ModelRequest, TextDelta
from coder.protocol.events import ApprovalRequested
from coder.protocol.history import HistoryEvent
from kit import ScriptedServer
from kit.driving import Project


def options(project: Project, url: str, **more: Any) -> dict[str, Any]:
    return {"cwd": project.cwd, "environ": project.environ(url), **more}


def test_the_public_names_are_there() -> None:
    for name in coder.__all__:
        assert getattr(coder, name)


def test_a_session_remembers_its_turns(project: Project) -> None:
    async def scenario(url: str) -> list[coder.TurnResult]:
        session = coder.create_agent_session(**options(project, url))
        results = [await session.run_turn("one"), await session.run_turn("two")]
        await session.close()
        return results

    project.write("a.txt", "text\n")
    script = [
        {"calls": [{"name": "read", "arguments": {"path": "a.txt"}}]},
        {"text": "first"},
        {"text": "second"},
    ]
    with ScriptedServer(script) as server:
        first, second = asyncio.run(scenario(server.url))
        assert [m["content"] for m in server.chats[2]["messages"] if m["role"] == "assistant"][-1] == "first"
    assert (first.final_text, first.status, second.final_text) == ("first", "ok", "second")
    assert [len(s.actions) for s in first.steps] == [1, 0]
    assert "text" in first.steps[0].observations[0]
    assert first.token_usage.total > 0
    assert [e["type"] for e in project.events()][-1] == "session_end"


def test_run_agent_is_one_turn(project: Project) -> None:
    with ScriptedServer([{"text": "42"}]) as server:
        result = asyncio.run(coder.run_agent("what?", **options(project, server.url)))
    assert result.final_text == "42"
    assert result.session_id == project.events()[0]["session_id"]


def test_sinks_are_pluggable(project: Project, tmp_path: Path) -> None:
    class Kept:
        def __init__(self) -> None:
            self.events: list[HistoryEvent] = []

        def append(self, event: HistoryEvent) -> None:
            self.events.append(event)

        def flush(self) -> None: ...

        def close(self) -> None: ...

    kept = Kept()
    xml = coder.LegacyXmlSink(tmp_path / "history.xml")
    with ScriptedServer([{"text": "a < b & \x01 ]]>"}]) as server:
        asyncio.run(coder.run_agent("hi", **options(project, server.url, history_sinks=[kept, xml])))
    assert [e.type for e in kept.events] == [e["type"] for e in project.events()]
    root = ET.parse(tmp_path / "history.xml").getroot()  # noqa: S314 - reads what this test wrote
    final = next(e for e in root if e.get("type") == "final")
    assert final.text == "a < b &  ]]>"


def test_approvals_go_to_the_caller(project: Project) -> None:
    asked: list[ApprovalRequested] = []

    def approve(event: ApprovalRequested) -> bool:
        asked.append(event)
        return len(asked) == 1

    calls = [{"name": "write", "arguments": {"path": n, "content": "x"}} for n in ("yes", "no")]
    with ScriptedServer([{"calls": calls}, {"text": "ok"}]) as server:
        asyncio.run(coder.run_agent("go", **options(project, server.url, approve=approve)))
    assert [(project.cwd / n).exists() for n in ("yes", "no")] == [True, False]


def test_a_model_of_one_s_own(project: Project) -> None:
    class Parrot:
        async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
            yield TextDelta(request.messages[-1].content.split("\n")[0])
            yield Completed("stop")

        async def close(self) -> None: ...

    result = asyncio.run(coder.run_agent("polly", **options(project, "", model=Parrot())))
    assert result.final_text == "polly"


def test_a_result_says_what_was_verified(project: Project) -> None:
    project.write("gradlew", "#!/bin/sh\ntrue\n").chmod(0o755)
    write = {"name": "write", "arguments": {"path": "app.py", "content": "x = 1\n"}}
    with ScriptedServer([{"calls": [write]}, {"text": "done"}]) as server:
        result = asyncio.run(coder.run_agent("set x", **options(project, server.url, mode="auto-edit")))
    assert (result.verification.status, result.verification.command) == ("passed", "./gradlew test")
    assert result.verification.changed_since == []


def test_a_cancelled_turn_says_so(project: Project) -> None:
    async def scenario(url: str) -> coder.TurnResult:
        async with coder.create_agent_session(**options(project, url, mode="yolo")) as session:
            asyncio.get_running_loop().call_later(0.3, session.cancel)
            return await session.run_turn("sleep")

    script = [{"calls": [{"name": "bash", "arguments": {"command": "sleep 60"}}]}]
    with ScriptedServer(script) as server:
        assert asyncio.run(scenario(server.url)).status == "cancelled"


def test_the_react_dialect_records_the_same_events(project: Project) -> None:
    """The engine above the dialect does not know which is in use."""
    project.configure(provider={"dialect": "react-xml"})
    project.write("a.txt", "hello\n")
    script = [
        {"text": '<thought>look</thought><action tool="read">{"path": "a.txt"}</action>'},
        {"text": "<thought>ok</thought><final>It says hello.</final>"},
    ]
    with ScriptedServer(script) as server:
        result = asyncio.run(coder.run_agent("what?", **options(project, server.url)))
        second = server.chats[1]
    assert result.final_text == "It says hello."
    assert "tools" not in second
    assert "<observation" in second["messages"][-1]["content"]
    assert "hello" in second["messages"][-1]["content"]
    kinds = [e["type"] for e in project.events()]
    assert kinds[1:7] == ["turn_start", "assistant", "action", "observation", "assistant", "final"]
    assert project.of_type("action")[0]["meta"]["input"] == {"path": "a.txt"}
    assert json.loads(json.dumps(project.snapshot()))["messages"][2]["tool_calls"]
