"""MCP servers as a session uses them: offered, judged, called, recorded, undone; a real server each time."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from coder.protocol.events import ApprovalRequested, CommandDone, Notice, ToolCallChanged, TurnEnded
from coder.protocol.ops import ApprovalReply, Cancel, UserInput
from kit import ScriptedServer
from kit.calls import call
from kit.driving import Driver, Project, left_running, of, play

SERVER = str(Path(__file__).parent.parent / "kit" / "tool_server.py")
ALLOWED = {"permission": {"tools": {"mcp__*": "allow"}}}


def configured(project: Project, *names: str, more: dict[str, Any] | None = None, **sections: Any) -> Path:
    """The plain server under these names; the file in which it keeps what it was asked."""
    log = project.cwd / "server.log"
    entry = {
        "command": sys.executable,
        "args": [SERVER, str(project.cwd)],  # the directory, to find the process by
        "env": {"TOOL_SERVER_LOG": str(log)},
        **(more or {}),
    }
    project.configure(mcp={"servers": dict.fromkeys(names or ("plain",), entry)}, **sections)
    return log


def played(project: Project, script: list[Any], *inputs: str, **options: Any) -> Driver:
    """A session after which no server runs."""
    driver = play(project, script, inputs or ("go",), **options)
    assert left_running(str(project.cwd)) == []
    return driver


def test_a_tool_is_offered_called_and_recorded(project: Project) -> None:
    configured(project, **ALLOWED)
    driver = played(project, [{"calls": [call("mcp__plain__echo", text="hello")]}, {"text": "done"}])
    offered = {tool["function"]["name"]: tool["function"] for tool in driver.chats[0]["tools"]}
    assert offered["mcp__plain__echo"]["parameters"]["required"] == ["text"]
    assert offered["mcp__plain__echo"]["description"] == "[MCP server plain] The tool echo."
    assert driver.chats[1]["messages"][-1]["content"] == "hello"
    (seen,) = project.of_type("observation")
    assert (seen["meta"]["tool"], seen["meta"]["ok"]) == ("mcp__plain__echo", True)
    assert seen["meta"]["server"] == "plain"
    assert {tool["function"]["name"] for tool in project.snapshot()["tools"]} == set(offered)


def test_what_a_server_says_of_its_tools_is_told_once(project: Project) -> None:
    words = "Always echo twice."
    env = {"TOOL_SERVER_INSTRUCTIONS": words}
    configured(project, more={"env": env})
    driver = played(project, [{"text": "a"}, {"text": "b"}], "one", "two")
    assert str(driver.chats[-1]["messages"]).count(words) == 1
    assert words in str(driver.chats[0]["messages"])


@pytest.mark.parametrize(
    ("options", "sections", "decision"),
    [
        ({"preset": "strict"}, {}, "deny"),
        ({"preset": "balanced", "can_ask": True}, {}, "ask"),
        ({"preset": "auto-edit", "can_ask": True}, {}, "ask"),
        ({"preset": "yolo"}, {}, "allow"),
        ({"mode": "yolo", "can_ask": True}, {}, "ask"),
        ({"mode": "auto-edit", "can_ask": True}, {}, "ask"),
        ({"preset": "yolo", "mode": "plan"}, {}, "deny"),
        ({"mode": "plan"}, ALLOWED, "deny"),
        ({"preset": "yolo"}, {"permission": {"tools": {"mcp__plain__*": "deny"}}}, "deny"),
        (
            {"preset": "yolo"},
            {"permission": {"tools": {"mcp__*": "allow", "mcp__plain__e*": "deny"}}},
            "deny",
        ),
        ({}, {"permission": {"tools": {"mcp__*": "deny", "mcp__plain__echo": "allow"}}}, "allow"),
        ({}, {}, "deny"),  # nobody to ask
    ],
)
def test_the_policy_rules_over_servers(
    project: Project, options: dict[str, Any], sections: dict[str, Any], decision: str
) -> None:
    log = configured(project, **sections)
    asked: list[ApprovalRequested] = []

    async def scenario(url: str) -> None:
        driver = Driver(project, url, **options)
        driver.start()

        def answer(request: ApprovalRequested) -> ApprovalReply:
            asked.append(request)
            return ApprovalReply(request.approval_id, "yes")

        await driver.send("go", answer)
        await driver.close()

    with ScriptedServer([{"calls": [call("mcp__plain__echo", text="hi")]}, {"text": "ok"}]) as server:
        asyncio.run(scenario(server.url))
    called = log.exists() and "call echo" in log.read_text(encoding="utf-8")
    assert called == (decision != "deny")
    assert bool(asked) == (decision == "ask")
    if asked:
        assert not asked[0].can_always
        assert "plain › echo" in str(asked[0].subject)
        assert '"text": "hi"' in str(asked[0].subject)
    (seen,) = project.of_type("observation")
    # In plan mode the server was never started, so there is no tool to deny.
    assert seen["meta"]["denied"] == (decision == "deny" and options.get("mode") != "plan")


@pytest.mark.parametrize(
    ("tools", "runs"),
    [
        ({"mcp__my.服务__*": "deny"}, False),
        ({"mcp__my.服务__echo": "deny", "mcp__*": "allow"}, False),
        ({"mcp__my.服务__echo": "allow", "mcp__*": "deny"}, True),
        ({"mcp__my.服务__*": "ask"}, False),  # nobody is there
        ({"mcp__my.服务__*": "allow", "mcp__*": "deny"}, False),
        ({"mcp__my_____echo_10eb8d": "allow", "mcp__my.*": "deny"}, False),
    ],
)
def test_rules_hold_under_a_servers_own_name(project: Project, tools: dict[str, str], runs: bool) -> None:
    """The model has to call it otherwise: providers do not take such letters."""
    log = configured(project, "my.服务", permission={"preset": "yolo", "tools": tools})

    def echo(request: dict[str, Any]) -> dict[str, Any]:
        names = [tool["function"]["name"] for tool in request["tools"]]
        (name,) = [name for name in names if name.startswith("mcp__") and "echo" in name]
        return {"calls": [{"name": name, "arguments": {"text": "hi"}}]}

    driver = played(project, [echo, {"text": "ok"}], "go", "/mcp")
    assert ("call echo" in log.read_text(encoding="utf-8")) == runs
    assert "  echo (mcp__my" in of(driver.seen, CommandDone)[-1].text


def test_a_rule_does_not_cover_a_tool_that_the_server_redefines(project: Project) -> None:
    log = project.cwd / "server.log"
    env = {"TOOL_SERVER_LOG": str(log), "TOOL_SERVER_REDEFINES": "1"}
    configured(project, more={"env": env}, **ALLOWED)
    asked: list[ApprovalRequested] = []

    def answer(request: ApprovalRequested) -> ApprovalReply:
        asked.append(request)
        return ApprovalReply(request.approval_id, "yes" if len(asked) > 1 else "no")

    async def scenario(url: str) -> list[int]:
        driver = Driver(project, url, can_ask=True)
        driver.start()
        asked_after = []
        for text in ("as first offered", "/mcp restart plain", "redefined", "again", "approved as it is"):
            await driver.send(text, answer)
            asked_after.append(len(asked))
        await driver.close()
        return asked_after

    turn = [{"calls": [call("mcp__plain__echo", text="hi")]}, {"text": "ok"}]
    with ScriptedServer(turn * 4) as server:
        assert asyncio.run(scenario(server.url)) == [0, 0, 1, 2, 2]
    assert "has changed this tool's definition" in str(asked[0].reasons[0])
    assert not asked[0].can_always
    assert log.read_text(encoding="utf-8").count("call echo") == 3


def test_a_server_whose_name_could_be_anothers_is_refused(project: Project) -> None:
    configured(project, "a__b", "a_", "a", **ALLOWED)
    done = project.coder("mcp")
    for name in ("a__b", "a_"):
        assert f"MCP server {name}: rename it, without `__`" in done.stdout
        added = project.coder("mcp", "add", name, "--", "true")
        assert (added.returncode, "rename it" in added.stderr) == (2, True)
    assert "a: ready" in done.stdout


def test_no_server_runs_in_plan_mode(project: Project) -> None:
    log = configured(project)
    played(project, [{"text": "ok"}], mode="plan")
    assert not log.exists()


def test_switching_to_plan_ends_them_and_back_starts_them(project: Project) -> None:
    log = configured(project, **ALLOWED)

    async def scenario(url: str) -> None:
        driver = Driver(project, url)
        driver.start()
        await driver.send("one")
        assert left_running(str(project.cwd))
        await driver.send("/plan")
        assert not left_running(str(project.cwd))
        await driver.send("two")
        await driver.send("/default")
        await driver.send("three")
        await driver.close()

    script = [
        {"text": "ok"},
        {"calls": [call("mcp__plain__echo", text="x")]},
        {"text": "ok"},
        {"calls": [call("mcp__plain__echo", text="x")]},
        {"text": "ok"},
    ]
    with ScriptedServer(script) as server:
        asyncio.run(scenario(server.url))
        tools = [[tool["function"]["name"] for tool in chat["tools"]] for chat in server.chats]
    assert log.read_text(encoding="utf-8").split("\n") == ["start", "start", "call echo", ""]
    assert [event["meta"]["denied"] for event in project.of_type("observation")] == [True, False]
    assert tools[0] == tools[1] == tools[-1]  # a changed list would void the provider's prompt cache
    assert left_running(str(project.cwd)) == []


def test_undo_takes_back_what_a_servers_tool_did(project: Project) -> None:
    project.write("kept.txt", "before\n")
    configured(project, **ALLOWED)
    line = "echo after > kept.txt; echo new > made.txt"
    script = [{"calls": [call("mcp__plain__shell", line=line)]}, {"text": "ok"}]
    played(project, script, "go", "/undo")
    assert (project.cwd / "kept.txt").read_text(encoding="utf-8") == "before\n"
    assert not (project.cwd / "made.txt").exists()


def test_secrets_stay_out_of_what_comes_back_and_of_what_it_is_given(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = "ordinary-looking-words"
    configured(project, more={"env": {"SERVICE_TOKEN": "${SERVICE}"}}, **ALLOWED)
    script = [{"calls": [call("mcp__plain__environment")]}, {"text": "ok"}]

    real = project.environ
    key = "sk-provider-0123456789abcdef"
    given = {"SERVICE": token, "CODER_API_KEY": key, "OTHER": f"x{key}"}
    monkeypatch.setattr(project, "environ", lambda url="", **more: real(url, **given, **more))
    driver = played(project, script)
    text = driver.chats[1]["messages"][-1]["content"]
    assert "SERVICE_TOKEN=[" in text
    for secret in (token, key):
        assert secret not in str(driver.chats)
        assert secret not in str(project.events())
    assert "OTHER" not in text


def test_secrets_stay_out_of_what_a_server_says_of_its_tools(project: Project) -> None:
    token = "ordinary-looking-words"
    told = {"TOOL_SERVER_TOKEN": token, "TOOL_SERVER_ABOUT": f"for {token}", "TOOL_SERVER_TOOL": token}
    configured(project, more={"env": told})
    driver = played(project, [{"text": "ok"}])
    offered = {tool["function"]["name"]: tool["function"] for tool in driver.chats[0]["tools"]}
    assert offered["mcp__plain__echo"]["description"].startswith("[MCP server plain] The tool echo. for [")
    assert not any(token in name for name in offered)
    assert token not in str(driver.chats)
    assert token not in str(project.snapshot())


def test_a_failure_of_the_tool_is_the_models_to_know(project: Project) -> None:
    configured(project, **ALLOWED)
    script = [{"calls": [call("mcp__plain__fail")]}, {"text": "ok"}]
    driver = played(project, script)
    assert driver.chats[1]["messages"][-1]["content"] == "error: it did not work"
    assert of(driver.seen, TurnEnded)[0].status == "ok"


def test_a_long_answer_is_cut_and_kept_where_read_finds_it(project: Project) -> None:
    configured(project, **ALLOWED)

    def page(request: dict[str, Any]) -> dict[str, Any]:
        path = request["messages"][-1]["content"].rpartition("more of it is in ")[2].rstrip("]")
        return {"calls": [{"name": "read", "arguments": {"path": path, "offset": 9_000, "limit": 2}}]}

    driver = played(project, [{"calls": [call("mcp__plain__big", characters=200_000)]}, page, {"text": "ok"}])
    first = driver.chats[1]["messages"][-1]["content"]
    assert len(first) < 40_000
    assert first.startswith("line 0\n")
    assert "characters left out" in first
    assert "line 8999" in driver.chats[2]["messages"][-1]["content"]


def test_a_server_that_ends_is_started_again_for_the_next_call(project: Project) -> None:
    log = configured(project, **ALLOWED)
    script = [
        {"calls": [call("mcp__plain__die")]},
        {"calls": [call("mcp__plain__echo", text="back")]},
        {"text": "ok"},
    ]
    driver = played(project, script)
    told = driver.chats[1]["messages"][-1]["content"]
    assert told.startswith("error: ")
    assert "plain" in told
    assert "about to end" in told
    assert driver.chats[2]["messages"][-1]["content"] == "back"
    assert log.read_text(encoding="utf-8").count("start") == 2


def test_one_that_does_not_come_up_is_named_and_the_rest_works(project: Project) -> None:
    configured(project, "plain", **ALLOWED)
    settings = {"plain": {"command": sys.executable, "args": [SERVER]}, "gone": {"command": "no-such-thing"}}
    project.configure(mcp={"servers": settings}, **ALLOWED)
    script = [{"calls": [call("mcp__plain__echo", text="hi")]}, {"text": "ok"}, {"text": "again"}]
    driver = played(project, script, "one", "two")
    said = [notice.text for notice in of(driver.seen, Notice) if "no-such-thing" in notice.text]
    assert said == ["Tools are missing, see /mcp: MCP server gone: the program no-such-thing was not found."]
    assert driver.chats[1]["messages"][-1]["content"] == "hi"


def test_cancel_stops_a_call_and_the_session_goes_on(project: Project) -> None:
    configured(project, **ALLOWED)

    async def scenario(url: str) -> Driver:
        driver = Driver(project, url)
        driver.start()

        def stop(event: Any) -> None:
            if isinstance(event, ToolCallChanged) and event.state == "executing":
                driver.engine.submit(Cancel())

        driver.engine.submit(UserInput("go"))
        await driver.until_idle(watch=stop)
        await driver.send("on")
        await driver.close()
        return driver

    script = [{"calls": [call("mcp__plain__sleep", seconds=60)]}, {"text": "fine"}]
    with ScriptedServer(script) as server:
        driver = asyncio.run(scenario(server.url))
    first, second = of(driver.seen, TurnEnded)
    assert (first.status, second.status) == ("cancelled", "ok")
    assert left_running(str(project.cwd)) == []


def test_a_subagent_has_the_tools_and_leaves_the_servers_running(project: Project) -> None:
    log = configured(project, permission={"preset": "yolo"})

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        chore = any(m["role"] == "user" and m["content"].startswith("chore") for m in request["messages"])
        if request["messages"][-1]["role"] == "tool":
            return {"text": "done"}
        task = {"name": "task", "arguments": {"agent": "general", "objective": "chore"}}
        return {"calls": [call("mcp__plain__echo", text="from below") if chore else task]}

    played(project, [answer] * 8, "one", "two")
    assert log.read_text(encoding="utf-8").split("\n") == ["start", "call echo", "call echo", ""]


def test_only_named_tools_are_offered(project: Project) -> None:
    configured(project, more={"tools": ["ec*", "fail"]})
    driver = played(project, [{"text": "ok"}])
    names = [tool["function"]["name"] for tool in driver.chats[0]["tools"]]
    assert [name for name in names if name.startswith("mcp__")] == ["mcp__plain__echo", "mcp__plain__fail"]


def test_mcp_command_shows_and_restarts(project: Project) -> None:
    log = configured(project)
    inputs = ["go", "/mcp", "/mcp restart plain", "/mcp restart x", "/mcp what", "/status"]
    driver = played(project, [{"text": "ok"}], *inputs)
    shown, again, missing, wrong, status = of(driver.seen, CommandDone)
    assert "MCP servers: plain ready\n" in status.text
    assert shown.text.startswith("plain: ready · 7 tools · plain 1\n  echo")
    assert shown.data["servers"][0]["state"] == "ready"
    assert again.text.startswith("plain was started again.")
    assert log.read_text(encoding="utf-8") == "start\nstart\n"
    assert not missing.ok
    assert "there are: plain" in missing.text
    assert not wrong.ok


def test_a_project_starts_no_server_before_it_is_trusted(project: Project) -> None:
    marker = project.cwd / "started"
    settings = f'{{"mcp": {{"servers": {{"evil": {{"command": "touch", "args": ["{marker}"]}}}}}}}}'
    project.write(".coder/config.json", settings)
    driver = played(project, [{"text": "ok"}])
    assert not marker.exists()
    assert any("mcp.servers.evil" in notice.text for notice in of(driver.seen, Notice))


def test_the_sandbox_of_several_servers_is_said_once(project: Project) -> None:
    configured(project, "a", "b", "c")
    driver = played(project, [{"text": "ok"}])
    assert len([notice for notice in of(driver.seen, Notice) if "sandbox" in notice.text]) == 1


@pytest.mark.thorough
def test_many_tools_are_found_on_demand(project: Project) -> None:
    names = [f"s{at}" for at in range(7)]  # of 7 tools each
    log = configured(
        project, *names, permission={"tools": {"mcp__s3__echo": "allow", "mcp__s3__fail": "deny"}}
    )
    found: list[Any] = []

    def after_search(request: dict[str, Any]) -> dict[str, Any]:
        found.append(request["messages"][-1]["content"])
        calls = [
            {"name": "mcp_call", "arguments": {"tool": "mcp__s3__echo", "arguments": {"text": "hi"}}},
            {"name": "mcp_call", "arguments": {"tool": "mcp__s3__fail", "arguments": {}}},
            {"name": "mcp_call", "arguments": {"tool": "mcp__s4__echo", "arguments": {"text": "unasked"}}},
            {"name": "mcp_call", "arguments": {"tool": "bash", "arguments": {"command": "touch made"}}},
            {"name": "mcp_find", "arguments": {}},
        ]
        return {"calls": calls}

    search = {"calls": [{"name": "mcp_find", "arguments": {"query": "s3 echo"}}]}
    driver = played(project, [search, after_search, {"text": "ok"}, {"text": "ok"}], "go", "again")
    offered = [tool["function"]["name"] for tool in driver.chats[0]["tools"]]
    assert [name for name in offered if "mcp" in name] == ["mcp_find", "mcp_call"]
    assert found[0].startswith('{"name":"mcp__s3__echo"')
    assert '"required":["text"]' in found[0]
    ran, refused, unasked, no_tool, every = [seen["content"] for seen in project.of_type("observation")][1:]
    assert ran == "hi"
    assert "denies mcp__s3__fail" in refused
    assert "needs a person's approval" in unasked
    assert "there is no tool 'bash'" in no_tool
    assert len(every.splitlines()) == 49
    assert log.read_text(encoding="utf-8").count("call ") == 1
    action = project.of_type("action")[1]["meta"]
    assert (action["tool"], action["input"]) == ("mcp__s3__echo", {"text": "hi"})
    assert len({json.dumps(chat["tools"]) for chat in driver.chats}) == 1


@pytest.mark.thorough
def test_tools_that_once_were_many_stay_undeclared(project: Project) -> None:
    """Else every later request would miss the provider's cache."""
    names = [f"s{at}" for at in range(6)]
    env = {"TOOL_SERVER_LOG": str(project.cwd / "server.log"), "TOOL_SERVER_SHRINKS": "6"}
    configured(project, *names, more={"env": env})
    script = [{"text": "ok"}, {"text": "ok"}]
    driver = played(project, script, "go", "/mcp restart s1", "again")
    assert "s1: ready · 1 tool " in of(driver.seen, CommandDone)[0].text
    assert len({json.dumps(chat["tools"]) for chat in driver.chats}) == 1
