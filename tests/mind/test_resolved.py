"""A call under another name is judged, asked about, recorded and undone as the tool that it means."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
from world_of_tools import Named

from coder.protocol.events import ApprovalRequested, ToolCallChanged
from coder.protocol.ops import ApprovalReply
from coder.tools.calls.resolve import AmbiguousCall, resolve_call
from coder.tools.tool import Tool
from kit import ScriptedServer
from kit.driving import Driver, Project, of, play

CHANGING: list[tuple[str, dict[str, Any]]] = [
    ("create_file", {"filename": "made.txt", "contents": "x\n"}),
    ("str_replace_editor", {"command": "create", "path": "made.txt", "file_text": "x\n"}),
    ("str_replace_editor", {"command": "insert", "path": "kept.txt", "insert_line": 0, "new_str": "x"}),
    ("search_replace", {"file": "kept.txt", "search": "kept", "replace": "lost"}),
    ("applypatch", {"input": "*** Begin Patch\n*** Delete File: kept.txt\n*** End Patch"}),
    (
        "bash",
        {"command": "apply_patch <<'EOF'\n*** Begin Patch\n*** Delete File: kept.txt\n*** End Patch\nEOF"},
    ),
    ("shell", {"command": ["rm", "kept.txt"]}),
    ("run_shell_command", {"command": "touch made.txt", "description": "harmless"}),
    ("delete_file", {"path": "kept.txt"}),
    ("move_file", {"source": "kept.txt", "destination": "made.txt"}),
    ("functions.write", {"arguments": {"path": "made.txt", "content": "x\n"}}),
    ("remember", {"memory": "x"}),
]


def played(project: Project, name: str, arguments: Any, **options: Any) -> Driver:
    call = {"name": name, "arguments": arguments}
    return play(project, [{"calls": [call]}, {"text": "done"}], **options)


@pytest.mark.parametrize(("name", "arguments"), CHANGING, ids=[name for name, _ in CHANGING])
def test_no_name_leads_around_the_policy(project: Project, name: str, arguments: dict[str, Any]) -> None:
    project.write("kept.txt", "kept\n")
    played(project, name, arguments, mode="plan", preset="yolo")
    (observation,) = project.of_type("observation")
    held = not observation["meta"]["ok"] and observation["meta"]["tool"] == "bash"  # by the sandbox
    assert observation["meta"]["denied"] or held, observation
    assert (project.cwd / "kept.txt").read_text(encoding="utf-8") == "kept\n"
    assert not (project.cwd / "made.txt").exists()


def test_settings_name_the_tool_not_the_call(project: Project) -> None:
    project.configure(permission={"tools": {"read": "deny"}})
    project.write("kept.txt", "kept\n")
    played(project, "cat", {"file": "kept.txt"}, preset="yolo", mode="yolo")
    (observation,) = project.of_type("observation")
    assert observation["meta"]["denied"]
    assert observation["meta"]["tool"] == "read"


def test_the_person_is_asked_about_what_will_run_and_can_undo_it(project: Project) -> None:
    project.write("kept.txt", "kept\n")
    call = {"name": "search_replace", "arguments": {"file": "kept.txt", "search": "kept", "replace": "lost"}}
    asked: list[ApprovalRequested] = []

    def agree(event: ApprovalRequested) -> ApprovalReply:
        asked.append(event)
        return ApprovalReply(event.approval_id, "yes")

    async def run(url: str) -> Driver:
        driver = Driver(project, url, can_ask=True)
        driver.start()
        await driver.send("go", agree)
        changed = (project.cwd / "kept.txt").read_text(encoding="utf-8")
        await driver.send("/undo", agree)
        await driver.close()
        assert changed == "lost\n"
        return driver

    with ScriptedServer([{"calls": [call]}, {"text": "done"}]) as server:
        driver = asyncio.run(run(server.url))
        sent = server.chats[1]["messages"]
    assert [(event.tool, "+lost" in str(event.subject)) for event in asked] == [("edit", True)]
    assert {event.tool for event in of(driver.seen, ToolCallChanged)} == {"edit"}
    assert (project.cwd / "kept.txt").read_text(encoding="utf-8") == "kept\n"
    # The provider gets back what its model said, with an answer under that name.
    assert sent[-2]["tool_calls"][0]["function"]["name"] == "search_replace"
    (action,) = project.of_type("action")
    assert action["meta"]["tool"] == "edit"
    assert action["meta"]["input"] == {"path": "kept.txt", "old_string": "kept", "new_string": "lost"}
    assert action["meta"]["sent"] == {"tool": call["name"], "input": call["arguments"]}


def test_a_call_that_fits_is_recorded_once(project: Project) -> None:
    project.write("kept.txt", "kept\n")
    played(project, "read", {"path": "kept.txt"})
    (action,) = project.of_type("action")
    assert "sent" not in action["meta"]


@pytest.mark.parametrize(("name", "loaded"), [("list", False), ("ls", True)])
def test_nothing_is_loaded_for_calls_that_fit(project: Project, name: str, loaded: bool) -> None:
    with ScriptedServer([{"calls": [{"name": name, "arguments": {}}]}, {"text": "done"}]) as server:
        done = project.coder("--once", "go", url=server.url, env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert done.returncode == 0
    assert ("coder.tools.calls.resolve" in done.stderr) is loaded


def tools(*names: str) -> dict[str, Tool]:
    return {name: cast(Tool, Named(name)) for name in names}


def test_a_servers_tool_by_its_last_name() -> None:
    offered = tools("read", "grep", "mcp__docs__lookup", "mcp__docs__search")
    tool, args = resolve_call("lookup", {"input": {"arguments": {"a": 1}}}, offered, Path("/"))
    assert tool.spec.name == "mcp__docs__lookup"
    assert args == {"input": {"arguments": {"a": 1}}}  # whatever it is sent is the server's to understand
    with pytest.raises(AmbiguousCall, match="do you mean grep or mcp__docs__search"):
        resolve_call("search", {"query": "x"}, offered, Path("/"))


def test_what_is_not_offered_is_not_reached_by_another_name() -> None:
    with pytest.raises(AmbiguousCall, match="there is no tool 'write_file' here; the tools are read, grep"):
        resolve_call("write_file", {"path": "a", "content": "b"}, tools("read", "grep"), Path("/"))
