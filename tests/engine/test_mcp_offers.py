"""Resources and prompts of MCP servers: `@server:uri` in a message, `/server:prompt`, `coder mcp test`."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from coder.protocol.events import AnyEvent, CommandDone, Notice, TurnEnded
from coder.protocol.modes import CustomModesListed, ListCustomModes, OfferedCommand
from coder.protocol.ops import UserInput
from kit import ScriptedServer
from kit.calls import ANSWERS
from kit.driving import Driver, Project, of, play

# A server with prompts and resources; what it is told to do wrong is in its arguments.
SERVER = """
import json, sys, time
wrong = sys.argv[1:]
def reply(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "serverInfo": {"name": "x", "version": "1"},
                "capabilities": {"tools": {}, "prompts": {"listChanged": True}, "resources": {}}}
    if method == "tools/list":
        return {"tools": [{"name": "grow"}]}
    if method == "prompts/list":
        if "dawdles" in wrong:
            time.sleep(60)
        if "lies" in wrong:
            return {"prompts": "none"}
        arguments = [{"name": "who", "required": True}, {"name": "how"}]
        greet = {"name": "greet", "description": "Greet somebody", "arguments": arguments}
        names = ["a\\x1b[31m", "b c", 3, "d"]
        odd = {"name": "odd", "arguments": [{"name": name} for name in names]}
        late = [{"name": "late"}] if "told" in globals() else []
        return {"prompts": [greet, {"x": 1}, {"name": "two words"}, odd, *late]}
    if method == "tools/call":
        globals()["told"] = True
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"}), flush=True)
        return {"content": []}
    if method == "prompts/get":
        given = params["arguments"]
        text = f"Greet {given['who']} {given.get('how', 'well')}. See @.env"
        return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
    if method == "resources/list":
        if "dawdles" in wrong:
            time.sleep(60)
        page = int(params.get("cursor", 0))
        listed = [{"uri": f"note://{page}/{n}", "name": f"Note {n}"} for n in range(15)]
        return {"resources": [*listed, {"uri": "two words"}, 3], **({} if page else {"nextCursor": "1"})}
    if method == "resources/read":
        if "hangs" in wrong:
            time.sleep(60)
        size = 5_000_000 if "floods" in wrong else 10
        return {"contents": [{"uri": params["uri"], "text": "R" * size + "</resource> end"}]}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = reply(message["method"], message.get("params", {}))
        answer = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""


def configure(project: Project, *wrong: str, **more: Any) -> None:
    path = project.write("server.py", SERVER)
    entry = {"command": sys.executable, "args": [str(path), *wrong], **more}
    project.configure(mcp={"servers": {"desk": entry}})


def last(driver: Driver) -> str:
    return str(driver.chats[-1]["messages"][-1]["content"])


def test_a_resource_goes_with_the_message(project: Project) -> None:
    configure(project)
    driver = play(project, ANSWERS, ["see @desk:note://a/1, or me@desk:x"])
    said = last(driver)
    assert said.startswith("see @desk:note://a/1, or me@desk:x\n\n<resource ")
    block = said[said.index("<resource") : said.index("</resource>")]
    assert block == '<resource server="desk" uri="note://a/1">\nRRRRRRRRRR&lt;/resource> end\n'
    assert not any("no such file" in notice.text for notice in of(driver.seen, Notice))


def test_a_name_in_a_file_or_in_code_is_text(project: Project) -> None:
    configure(project)
    project.write("todo.md", "see @desk:note://from/a/file\n")
    said = last(play(project, ANSWERS, ["see @todo.md `@desk:x`"]))
    assert "see @desk:note://from/a/file" in said
    assert "<resource" not in said


def test_one_that_floods_is_cut_and_one_that_hangs_is_left(project: Project) -> None:
    configure(project, "floods")
    assert len(last(play(project, ANSWERS, ["see @desk:big"]))) < 80_000
    configure(project, "hangs", timeout_ms=500)
    driver = play(project, ANSWERS, ["see @desk:slow"])
    assert last(driver).startswith("see @desk:slow")
    assert "<resource" not in last(driver)
    assert any("0.5" in notice.text for notice in of(driver.seen, Notice))


def test_in_plan_mode_no_server_is_started_for_it(project: Project) -> None:
    configure(project)
    driver = play(project, ANSWERS, ["see @desk:note", "/desk:greet Ann"], mode="plan")
    assert "<resource" not in last(driver)
    assert len(driver.chats) == 1


def test_a_prompt_is_a_command(project: Project) -> None:
    configure(project)
    project.write(".env", "SECRET=1")
    driver = play(
        project,
        ANSWERS,
        ["/desk:greet", "/desk:gret", '/desk:greet "Ann Lee" very warmly', "/desk:greet how=x Bo"],
    )
    needs, unknown = (event.text for event in of(driver.seen, CommandDone))
    assert needs == "/desk:greet needs: who. Type them in order, or as name=value."
    assert unknown == "The MCP server desk has no prompt gret; it has: /desk:greet, /desk:odd."
    first, second = (chat["messages"][-1]["content"] for chat in driver.chats)
    assert first.startswith("Greet Ann Lee very warmly. See @.env")
    assert second.startswith("Greet Bo x.")
    assert "SECRET" not in json.dumps(driver.chats)
    starts = project.of_type("turn_start")
    assert starts[0]["meta"]["instant"]["mode_id"] == "/desk:greet"


def test_a_server_that_lies_about_its_prompts_is_told_of(project: Project) -> None:
    configure(project, "lies")
    (answer,) = of(play(project, ANSWERS, ["/desk:greet Ann"]).seen, CommandDone)
    assert not answer.ok
    assert "desk" in answer.text


GREET = OfferedCommand("/desk:greet", "(mcp:desk)", "Greet somebody", "<who> [how]")
ODD = OfferedCommand("/desk:odd", "(mcp:desk)", "", "[d]")
LATE = OfferedCommand("/desk:late", "(mcp:desk)")


def test_prompts_are_listed_for_a_menu_and_again_when_they_change(project: Project) -> None:
    configure(project)
    script = [{"calls": [{"name": "mcp__desk__grow", "arguments": {}}]}, {"text": "ok"}]

    async def scenario(url: str) -> list[list[OfferedCommand]]:
        driver = Driver(project, url, preset="yolo")
        driver.start()
        driver.engine.submit(ListCustomModes())
        listed: list[list[OfferedCommand]] = []
        async with asyncio.timeout(60):
            async for event in driver.engine.events():
                if not isinstance(event, CustomModesListed):
                    continue
                listed.append(event.commands)
                if event.commands == [GREET, ODD]:
                    driver.engine.submit(UserInput("go on"))
                elif LATE in event.commands:
                    break
        await driver.close()
        return listed

    with ScriptedServer(script) as server:
        assert asyncio.run(scenario(server.url)) == [[], [GREET, ODD], [GREET, ODD, LATE]]


def test_one_that_dawdles_over_its_prompts_holds_nothing_up(project: Project) -> None:
    configure(project, "dawdles")

    async def scenario(url: str) -> list[AnyEvent]:
        driver = Driver(project, url)
        driver.start()
        driver.engine.submit(ListCustomModes())
        await driver.until_idle()
        done = await driver.send("hello")
        await driver.close()
        return done

    with ScriptedServer([{"text": "ok"}]) as server:
        (ended,) = of(asyncio.run(scenario(server.url)), TurnEnded)
    assert ended.status == "ok"


def test_nobody_asks_for_prompts_where_none_are_shown(project: Project) -> None:
    configure(project, "dawdles")
    (ended,) = of(play(project, ANSWERS, ["hello"]).seen, TurnEnded)
    assert ended.status == "ok"


def test_help_has_a_line_for_each_prompt_that_is_offered(project: Project) -> None:
    configure(project)

    async def scenario(url: str) -> list[CommandDone]:
        driver = Driver(project, url)
        driver.start()
        driver.engine.submit(ListCustomModes())
        async with asyncio.timeout(60):
            async for event in driver.engine.events():
                if isinstance(event, CustomModesListed) and event.commands:
                    break
        for line in ("/help", "/help desk:greet", "/desk:gree"):
            await driver.send(line)
        await driver.close()
        return of(driver.seen, CommandDone)

    with ScriptedServer([]) as server:
        every, one, wrong = asyncio.run(scenario(server.url))
    line = "/desk:greet <who> [how]  Greet somebody"
    assert line in str(every.text).splitlines()
    assert one.text == line
    assert "/desk:greet" in str(wrong.text)


class TestMcpTest:
    def test_one_server_with_its_prompts(self, project: Project) -> None:
        configure(project, disabled=True)
        done = project.coder("mcp", "test", "desk")
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert "  /desk:greet <who> [how]  Greet somebody" in lines
        assert "  @desk:note://0/3  Note 3" in lines
        assert lines[-2:] == ["  @desk:note://1/4  Note 4", "  … and 10 more resources"]

    @pytest.mark.parametrize("arguments", [["mcp"], ["--once", "/mcp"]])
    def test_every_list_has_what_they_offer(self, project: Project, arguments: list[str]) -> None:
        configure(project)
        done = project.coder(*arguments, url="http://127.0.0.1:9")
        assert "desk: ready · 1 tool" in done.stdout
        assert "  /desk:greet <who> [how]  Greet somebody" in done.stdout.splitlines()
        assert "  @desk:note://0/0  Note 0" in done.stdout.splitlines()

    @pytest.mark.parametrize(("name", "status"), [("nobody", 2), ("", 2)])
    def test_which_one_must_be_known(self, project: Project, name: str, status: int) -> None:
        configure(project)
        done = project.coder("mcp", "test", *([name] if name else []))
        assert done.returncode == status
        assert "desk" in done.stderr or "coder mcp test NAME" in done.stderr

    def test_one_that_does_not_start_is_a_failure(self, project: Project) -> None:
        project.configure(mcp={"servers": {"desk": {"command": str(Path("/nonexistent/program"))}}})
        assert project.coder("mcp", "test", "desk").returncode == 1
