"""An editor's sessions and what is around them: others, no provider, trust, servers, subagents, questions."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import acp
import pytest
from acp_kit import Editor, converse, editor

from kit.calls import call
from kit.driving import Project


def test_two_sessions_at_once(project: Project) -> None:
    other = project.cwd.parent / "other"
    other.mkdir()
    (other / "AGENTS.md").write_text("You are in the other folder.", encoding="utf-8")
    both = [0]

    def slow(request: dict[str, Any]) -> dict[str, Any]:
        both[0] += 1
        where = "other" if "other folder" in json.dumps(request["messages"]) else "first"
        return {"text": f"{where} " * 30, "chunk": 4, "delay": 0.002}

    async def scenario(ed: Editor) -> None:
        one, two = await ed.new(), await ed.new(cwd=str(other))
        assert one != two
        await asyncio.gather(ed.prompt(one, "go"), ed.prompt(two, "go"))
        assert ed.client.text(session=one) == "first " * 30
        assert ed.client.text(session=two) == "other " * 30
        order = [s for s, u in ed.client.updates if u["sessionUpdate"] == "agent_message_chunk"]
        assert order != sorted(order), "one after the other"
        assert order != sorted(order, reverse=True), "one after the other"

    converse(project, [slow, slow], scenario)
    assert len(list((other / ".coder" / "history").iterdir())) == 1


def test_nobody_to_answer_is_said_with_what_to_set(project: Project) -> None:
    async def scenario(ed: Editor) -> None:
        assert ed.hello.auth_methods is not None
        (method,) = ed.hello.auth_methods
        assert "CODER_API_KEY" in (method.description or "")
        with pytest.raises(acp.RequestError, match="CODER_API_KEY") as caught:
            await ed.new()
        assert caught.value.code == -32000
        with pytest.raises(acp.RequestError, match="CODER_BASE_URL"):
            await ed.agent.authenticate(method_id=method.id)
        project.configure(provider={"base_url": "http://127.0.0.1:9/v1", "model": "m"})
        await ed.agent.authenticate(method_id=method.id)  # it is there now, without a restart
        assert await ed.new()

    async def run() -> None:
        async with editor(project, "") as ed:
            await scenario(ed)

    asyncio.run(run())


def test_settings_that_the_project_grants_itself_are_named(project: Project) -> None:
    project.write(".coder/config.json", '{"permission": {"preset": "yolo"}}')

    async def scenario(ed: Editor) -> None:
        await ed.new()
        await ed.client.until(lambda: "permission.preset" in ed.client.text())

    converse(project, [], scenario)


def test_in_chinese(project: Project) -> None:
    async def scenario(ed: Editor) -> None:
        opened = await ed.opened()
        assert opened.config_options is not None
        assert [o.name for o in opened.config_options] == ["运行模式", "模型"]
        with pytest.raises(acp.RequestError, match="不是绝对路径"):
            await ed.new(cwd="relative")

    converse(project, [], scenario, None, "--lang", "zh")


def test_mcp_servers_of_the_editor(project: Project) -> None:
    """They are used; of one that cannot be understood it is said, and the session goes on."""
    program = str(Path(__file__).parents[2] / "kit" / "tool_server.py")
    given = {"name": "plain", "command": sys.executable, "args": [program], "env": []}
    odd = {"name": "odd", "type": "acp", "serverId": "x"}

    async def scenario(ed: Editor) -> None:
        raw = {"cwd": str(project.cwd), "mcpServers": [given, odd]}
        session = (await ed.agent._conn.send_request("session/new", raw))["sessionId"]
        await ed.client.until(lambda: "MCP server odd cannot be used" in ed.client.text())
        await ed.prompt(session, "go")
        (asked,) = ed.client.asked
        assert "always" not in asked["options"]
        assert "heard" in str(ed.client.call()["content"])

    script = [{"calls": [call("mcp__plain__echo", text="heard")]}, {"text": "done"}]
    server = converse(project, script, scenario)
    assert "mcp__plain__echo" in [tool["function"]["name"] for tool in server.chats[0]["tools"]]


@pytest.mark.thorough
def test_prompts_of_a_server_are_commands(project: Project) -> None:
    """With description and arguments, once the server runs."""
    program = str(Path(__file__).parents[2] / "kit" / "mcp_sdk_server.py")
    project.configure(mcp={"servers": {"sdk": {"command": sys.executable, "args": [program, "stdio"]}}})
    project.write(".coder/modes/hold.md", "---\nkind: instant\nvariables: [what]\n---\nHold {{what}}.\n")
    weigh = {"name": "sdk:weigh", "description": "Weigh a thing.", "input": {"hint": "<thing> [scale]"}}
    hold = {"name": "hold", "description": "hold", "input": {"hint": "[what]"}}

    async def scenario(ed: Editor) -> None:
        session = await ed.new()
        told = ed.client.of
        await ed.client.until(
            lambda: any(weigh in u["availableCommands"] for u in told("available_commands_update"))
        )
        assert hold in told("available_commands_update")[-1]["availableCommands"]
        await ed.prompt(session, "/sdk:weigh gold")

    server = converse(project, [{"text": "done"}], scenario)
    assert "Weigh gold in grams." in str(server.chats[0]["messages"])


def test_a_subagent_asks_and_shows_what_it_does(project: Project) -> None:
    script = [
        {"calls": [call("task", agent="general", objective="write it")]},
        {"calls": [call("write", path="made.txt", content="by a subagent\n")]},
        {"text": "written"},
        {"text": "done"},
    ]

    async def scenario(ed: Editor) -> None:
        await ed.prompt(await ed.new(), "go")
        task, write = ed.client.asked
        assert task["call"]["kind"] == "think"
        assert write["call"]["content"][0]["newText"] == "by a subagent\n"
        calls = ed.client.calls()
        assert calls[write["call"]["toolCallId"]]["status"] == "completed"
        assert calls[task["call"]["toolCallId"]]["status"] == "completed"
        assert ed.client.text().endswith("done")

    converse(project, script, scenario)
    assert (project.cwd / "made.txt").exists()


@pytest.mark.thorough
@pytest.mark.parametrize("answer", ["allow", "reject"])
def test_a_question_about_the_turn(project: Project, answer: str) -> None:
    """The loop guard asks whether to go on; that is no tool call, but is asked like one."""
    again = {"calls": [call("list", path=".")]}

    async def scenario(ed: Editor) -> None:
        session = await ed.new()
        if answer == "reject":
            with pytest.raises(acp.RequestError, match="circles"):
                await ed.prompt(session, "go")
        else:
            assert (await ed.prompt(session, "go")).stop_reason == "end_turn"
        asked = ed.client.asked[0]
        assert "circles" in asked["call"]["title"]
        assert set(asked["options"]) == {"allow", "always", "reject"}
        shown = ed.client.calls()[asked["call"]["toolCallId"]]
        assert shown["status"] == ("completed" if answer == "allow" else "failed")

    def script() -> Any:
        while True:
            yield lambda request: {"text": "fine"} if asked_twice(request) else again

    def asked_twice(request: dict[str, Any]) -> bool:
        return answer == "allow" and sum(m["role"] == "tool" for m in request["messages"]) > 11

    converse(project, script(), scenario, lambda asked: answer)


def test_verification_is_shown_as_a_command(project: Project) -> None:
    project.write("gradlew", "#!/bin/sh\necho all is well\n").chmod(0o755)

    async def scenario(ed: Editor) -> None:
        await ed.prompt(await ed.new(), "go")
        _, verify = ed.client.calls().values()
        assert verify["title"] == "verify: `./gradlew test`"
        assert (verify["kind"], verify["status"]) == ("execute", "completed")
        assert verify["content"][0]["content"]["text"] == "```\nall is well\n```"

    script = [{"calls": [call("write", path="made.java", content="x\n")]}, {"text": "done"}]
    converse(project, script, scenario, None, "--mode", "yolo")
