"""Cancel at any moment, load after a crash, lists, and every way in which a client can leave."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import Any

import acp
import pytest
from acp_kit import PATIENCE, Editor, bare, converse, editor

from coder.history.log import read_log
from coder.history.replay import replay
from coder.protocol.ops import Steer
from kit import ScriptedServer
from kit.calls import call
from kit.driving import Project, during_a_call, left_running

SLOW = {"text": " ".join(f"word{n}" for n in range(400)), "chunk": 6, "delay": 0.02}


def until_running(word: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not left_running(word):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def assert_whole(project: Project) -> None:
    """Every call is answered, in the record and in what it gives back."""
    for log in project.logs():
        state = replay(read_log(log))
        assert state.unanswered == []
        assert not state.turn_open


def test_cancel_while_the_model_speaks(project: Project) -> None:
    async def scenario(ed: Editor) -> None:
        session = await ed.new()
        prompting = asyncio.create_task(ed.prompt(session, "go"))
        await ed.client.until(lambda: ed.client.text())
        await ed.agent.cancel(session_id=session)
        assert (await prompting).stop_reason == "cancelled"
        assert len(ed.client.text()) < 2000
        assert (await ed.prompt(session, "again")).stop_reason == "end_turn"

    converse(project, [SLOW, {"text": "back"}], scenario)
    assert_whole(project)
    assert [e["meta"]["status"] for e in project.of_type("turn_end")] == ["cancelled", "ok"]


def test_cancel_in_a_command(project: Project) -> None:
    word = f"2{time.time_ns() % 10**9}.5"

    async def scenario(ed: Editor) -> None:
        session = await ed.new()
        prompting = asyncio.create_task(ed.prompt(session, "go"))
        await ed.client.until(lambda: ed.client.of("tool_call_update"))
        await asyncio.to_thread(until_running, word)
        await ed.agent.cancel(session_id=session)
        assert (await prompting).stop_reason == "cancelled"
        assert ed.client.call()["status"] == "failed"
        assert left_running(word) == []

    script = [{"calls": [call("bash", command=f"sleep {word}")]}, {"text": "never"}]
    converse(project, script, scenario, None, "--mode", "yolo")
    assert_whole(project)


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["session/cancel", "outcome"])
def test_cancel_while_a_permission_is_pending(project: Project, how: str) -> None:
    async def scenario(ed: Editor) -> None:
        session = await ed.new()
        prompting = asyncio.create_task(ed.prompt(session, "go"))
        if how == "session/cancel":
            await ed.client.until(lambda: ed.client.asked)
            await ed.agent.cancel(session_id=session)
        assert (await prompting).stop_reason == "cancelled"
        assert ed.client.call()["status"] == "failed"
        assert (await ed.prompt(session, "again")).stop_reason == "end_turn"

    script = [{"calls": [call("write", path="x", content="y")]}, {"text": "back"}]
    converse(project, script, scenario, lambda asked: None if how == "session/cancel" else "cancelled")
    assert not (project.cwd / "x").exists()
    assert_whole(project)


def test_a_cancel_right_behind_its_prompt_and_a_prompt_behind_another(project: Project) -> None:
    """Sent in one go: the cancel is for both prompts, and none of them is left without an answer."""
    script = [lambda request: {"text": "fine"} if "again" in str(request["messages"][-1]) else SLOW] * 3
    with ScriptedServer(script) as server, bare(project, server.url) as line:
        line.ask("initialize", protocolVersion=1)
        session = line.ask("session/new", cwd=str(project.cwd), mcpServers=[])["result"]["sessionId"]
        text = [{"type": "text", "text": "go"}]
        one = line.begin("session/prompt", sessionId=session, prompt=text)
        two = line.begin("session/prompt", sessionId=session, prompt=text)
        line.send({"method": "session/cancel", "params": {"sessionId": session}})
        assert line.answer(one)["result"]["stopReason"] == "cancelled"
        assert line.answer(two)["result"]["stopReason"] == "cancelled"
        text = [{"type": "text", "text": "again"}]
        again = line.ask("session/prompt", sessionId=session, prompt=text)
        assert again["result"]["stopReason"] == "end_turn"
        assert line.end() == 0
    assert_whole(project)


@pytest.mark.parametrize("how", ["cancel", "close", "end of input"])
def test_what_waits_behind_a_prompt_is_not_begun_any_more(project: Project, how: str) -> None:
    """Neither the person's own command nor a further turn, when the first is cancelled or nobody is there."""
    with ScriptedServer([SLOW] * 3) as server, bare(project, server.url) as line:
        session = line.ask("session/new", cwd=str(project.cwd), mcpServers=[])["result"]["sessionId"]
        asked = [
            line.begin("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])
            for text in ("go", "!touch ran", "go on")
        ]
        while "agent_message_chunk" not in str(line.message()):
            pass
        if how == "cancel":
            line.send({"method": "session/cancel", "params": {"sessionId": session}})
        elif how == "close":
            line.begin("session/close", sessionId=session)
        elif line.process.stdin is not None:
            line.process.stdin.close()
        for number in asked:
            assert line.answer(number)["result"]["stopReason"] == "cancelled"
        assert line.end() == 0
    assert not (project.cwd / "ran").exists()
    assert len(server.chats) == 1
    assert project.events()[-1]["type"] == "session_end"


def test_a_client_that_cannot_answer_ends_the_turn(project: Project) -> None:
    script = [{"calls": [call("write", path="x", content="y")]}, {"text": "never"}]
    with ScriptedServer(script) as server, bare(project, server.url) as line:
        session = line.ask("session/new", cwd=str(project.cwd), mcpServers=[])["result"]["sessionId"]
        prompt = line.begin("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}])
        while (message := line.message()).get("method") != "session/request_permission":
            pass
        line.send({"id": message["id"], "error": {"code": -32601, "message": "what?"}})
        assert line.answer(prompt)["result"]["stopReason"] == "cancelled"
        assert line.end() == 0
    assert not (project.cwd / "x").exists()


CONVERSATION = [
    {"reasoning": "first look", "text": "Looking.", "calls": [call("read", path="a.txt")]},
    {"calls": [call("edit", path="a.txt", old_string="two", new_string="zwei")]},
    {"calls": [call("todowrite", todos=[{"content": "one thing", "status": "completed"}])]},
    {"text": "All done."},
]


@pytest.mark.thorough
def test_load_tells_the_conversation_again_after_a_kill(project: Project) -> None:
    project.write("a.txt", "one\ntwo\n")
    seen: list[Any] = []

    async def scenario(ed: Editor) -> None:
        session = await ed.new()
        await ed.prompt(session, "change it")
        await ed.prompt(session, "/status")
        prompting = asyncio.create_task(ed.agent.prompt(session_id=session, prompt=[acp.text_block("more")]))
        await ed.client.until(lambda: "word" in ed.client.text())
        os.kill(ed.process.pid, signal.SIGKILL)
        with pytest.raises((ConnectionError, acp.RequestError)):
            await prompting
        seen.append((session, ed.client))

    script = [*CONVERSATION, SLOW]
    converse(project, script, scenario, None, "--mode", "auto-edit")
    session, before = seen[0]

    async def load(ed: Editor) -> None:
        given = {"cwd": str(project.cwd), "session_id": session}
        loaded = await ed.agent.load_session(mcp_servers=[], **given)
        told = ed.client
        kinds = [update["sessionUpdate"] for _, update in told.updates]
        assert kinds.index("user_message_chunk") == 0
        assert loaded.modes.current_mode_id == "default"  # what allows more is asked for anew
        assert told.text("user_message_chunk") == "change it/statusmore"
        assert told.text("agent_thought_chunk") == "first look"
        assert told.text().startswith("Looking.All done.```")
        old, new = before.calls(), told.calls()
        assert list(old) == list(new)
        assert [c["status"] for c in new.values()] == ["completed", "completed"]
        *_, edited = new.values()
        assert edited["content"] == list(old.values())[1]["content"]
        assert told.of("plan") == before.of("plan")
        assert (await ed.prompt(session, "go on")).stop_reason == "end_turn"
        listed = await ed.agent.list_sessions(cwd=str(project.cwd))
        assert [(s.session_id, s.title, s.cwd) for s in listed.sessions] == [
            (session, "change it", str(project.cwd))
        ]
        # loaded once more into the same process, as a window that is opened again does
        count = len(told.updates)
        await ed.agent.load_session(mcp_servers=[], **given)
        assert "go on" in "".join(
            u["content"]["text"]
            for _, u in told.updates[count:]
            if u["sessionUpdate"] == "user_message_chunk"
        )
        with pytest.raises(acp.RequestError, match="nowhere") as caught:
            await ed.agent.load_session(mcp_servers=[], cwd=str(project.cwd), session_id="nowhere")
        assert caught.value.code == -32002

    converse(project, [{"text": "Went on."}], load)
    assert_whole(project)


def test_load_tells_what_was_said_while_a_turn_ran(project: Project) -> None:
    steered = during_a_call(
        project, [{"calls": [call("bash", command="true")]}, {"text": "done"}], Steer("tabs!")
    )

    async def scenario(ed: Editor) -> None:
        session = steered.engine.agent.session.id
        await ed.agent.load_session(mcp_servers=[], cwd=str(project.cwd), session_id=session)
        said = [update["content"]["text"] for update in ed.client.of("user_message_chunk")]
        assert said == ["go", "tabs!"]

    converse(project, [], scenario)


def killed_while_asking(project: Project, made: dict[str, Any]) -> str:
    """The session of an agent that was killed while its permission for the call was open."""
    sessions: list[str] = []

    async def crash(ed: Editor) -> None:
        session = await ed.new()
        prompting = asyncio.create_task(ed.agent.prompt(session_id=session, prompt=[acp.text_block("go")]))
        await ed.client.until(lambda: ed.client.asked)
        os.kill(ed.process.pid, signal.SIGKILL)
        with pytest.raises((ConnectionError, acp.RequestError)):
            await prompting
        sessions.append(session)

    converse(project, [{"calls": [made]}], crash, lambda asked: None)
    return sessions[0]


@pytest.mark.thorough
def test_a_permission_that_a_crash_left_open_is_asked_again(project: Project) -> None:
    session = killed_while_asking(project, call("write", path="x.txt", content="y\n"))

    async def load(ed: Editor) -> None:
        await ed.agent.load_session(mcp_servers=[], cwd=str(project.cwd), session_id=session)
        await ed.client.until(lambda: "Written." in ed.client.text())
        assert len(ed.client.asked) == 1

    converse(project, [{"text": "Written."}], load)
    assert (project.cwd / "x.txt").read_text(encoding="utf-8") == "y\n"


def test_a_prompt_goes_past_a_question_that_nobody_answers(project: Project) -> None:
    session = killed_while_asking(project, call("write", path="x", content="y"))

    async def load(ed: Editor) -> None:
        await ed.agent.resume_session(cwd=str(project.cwd), session_id=session, mcp_servers=[])
        assert ed.client.text("user_message_chunk") == ""  # nothing is told again
        await ed.client.until(lambda: ed.client.asked)
        assert (await ed.prompt(session, "something else")).stop_reason == "end_turn"

    converse(project, [{"text": "Else."}], load, lambda asked: None)
    assert not (project.cwd / "x").exists()


def test_close_ends_a_session_and_its_record(project: Project) -> None:
    async def scenario(ed: Editor) -> None:
        session = await ed.new()
        prompting = asyncio.create_task(ed.prompt(session, "go"))
        await ed.client.until(lambda: ed.client.text())
        await ed.agent.close_session(session_id=session)
        assert (await prompting).stop_reason == "cancelled"
        assert project.events()[-1]["type"] == "session_end"
        with pytest.raises(acp.RequestError, match="not open here"):
            await ed.prompt(session, "more")

    converse(project, [SLOW], scenario)


def test_pages_of_sessions(project: Project) -> None:
    history = project.cwd / ".coder" / "history"
    history.mkdir(parents=True)
    for number in range(60):
        line = (
            f'{{"ts":"2026-01-01T00:00:00.000Z","session_id":"s{number:02}","type":"turn_start","turn":1,'
            f'"content":"task {number}","role":"user"}}\n'
        )
        path = history / f"s{number:02}.jsonl"
        path.write_text(line, encoding="utf-8")
        os.utime(path, (number, number))

    async def scenario(ed: Editor) -> None:
        first = await ed.agent.list_sessions(cwd=str(project.cwd))
        assert [s.session_id for s in first.sessions[:2]] == ["s59", "s58"]
        assert first.sessions[0].updated_at == "1970-01-01T00:00:59Z"
        rest = await ed.agent.list_sessions(cwd=str(project.cwd), cursor=first.next_cursor)
        assert (len(first.sessions), len(rest.sessions), rest.next_cursor) == (50, 10, None)
        with pytest.raises(acp.RequestError, match="Unknown cursor"):
            await ed.agent.list_sessions(cwd=str(project.cwd), cursor="elsewhere")

    converse(project, [], scenario)


def started(line: Any, project: Project) -> str:
    """A session whose command is running; returns the word by which its process is known."""
    session = line.ask("session/new", cwd=str(project.cwd), mcpServers=[])["result"]["sessionId"]
    line.begin("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}])
    return str(session)


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["end of input", "SIGTERM", "broken pipe"])
def test_when_the_client_leaves_everything_ends(project: Project, how: str) -> None:
    word = f"3{time.time_ns() % 10**9}.5"
    script = [{"calls": [call("bash", command=f"sleep {word}")]}, {"text": "never"}]
    with ScriptedServer(script) as server, bare(project, server.url, "--mode", "yolo") as line:
        started(line, project)
        until_running(word)
        if how == "SIGTERM":
            line.process.terminate()
            assert line.process.wait(PATIENCE) == 130
        elif how == "broken pipe":
            assert line.process.stdout is not None
            line.process.stdout.close()
            line.begin("session/list")
            assert line.process.wait(PATIENCE) == 0
        else:
            assert line.end() == 0
        assert line.process.stderr is not None
        assert b"Traceback" not in line.process.stderr.read()
    assert left_running(word) == []
    assert_whole(project)
    assert project.events()[-1]["type"] == "session_end"


def test_a_client_that_dies_in_a_permission(project: Project) -> None:
    script = [{"calls": [call("write", path="x", content="y")]}, {"text": "never"}]
    with ScriptedServer(script) as server, bare(project, server.url) as line:
        started(line, project)
        while line.message().get("method") != "session/request_permission":
            pass
        assert line.end() == 0
    assert not (project.cwd / "x").exists()
    assert_whole(project)


def test_a_record_in_use_is_said(project: Project) -> None:
    async def scenario(ed: Editor) -> None:
        session = await ed.new()
        await ed.prompt(session, "go")
        async with editor(project, "http://127.0.0.1:9/v1") as other:
            with pytest.raises(acp.RequestError, match="open in another process"):
                await other.agent.load_session(mcp_servers=[], cwd=str(project.cwd), session_id=session)

    converse(project, [{"text": "fine"}], scenario)


def test_a_subagents_calls_are_its_own(project: Project) -> None:
    """Models that count their calls from 0 give a subagent's the ids of its parent's."""

    def numbered(name: str, **arguments: str) -> dict[str, Any]:
        return {"calls": [{**call(name, **arguments), "id": "call_0"}]}

    turn = [numbered("task", agent="general", objective="x"), numbered("write", path="x", content="y")]

    async def scenario(ed: Editor) -> None:
        session = await ed.new()
        for _ in range(2):
            await ed.prompt(session, "go")
        told = [(u["toolCallId"], u["title"]) for u in ed.client.of("tool_call")]
        assert ["write" in title for _, title in told] == [False, True] * 2
        assert len({number for number, _ in told}) == 4
        ended = [one["status"] for one in ed.client.calls().values()]
        assert ended == ["completed", "completed", "completed", "failed"]  # it has not read what is there now

    converse(project, [*turn, {"text": "written"}, {"text": "done"}] * 2, scenario)


def test_a_list_of_one_item_is_for_the_model_alone(project: Project) -> None:
    """It repeats the person's message: neither a plan nor a call, live or loaded."""
    asked = "Please look through all modules here and tell me in a few words how they hang together. " * 3
    sessions: list[str] = []

    async def live(ed: Editor) -> None:
        sessions.append(await ed.new())
        assert (await ed.prompt(sessions[0], asked)).stop_reason == "end_turn"
        assert (ed.client.of("plan"), ed.client.calls()) == ([], {})

    async def loaded(ed: Editor) -> None:
        await ed.agent.load_session(mcp_servers=[], cwd=str(project.cwd), session_id=sessions[0])
        assert ed.client.text() == "They do not."
        assert (ed.client.of("plan"), ed.client.calls()) == ([], {})

    converse(project, [{"text": "They do not."}], live)
    (made,) = [e for e in project.of_type("observation") if e["meta"]["tool"] == "todowrite"]
    assert len(made["meta"]["todos"]) == 1
    converse(project, [], loaded)
    project.coder("export", sessions[0], "--html", "out.html")
    page = (project.cwd / "out.html").read_text(encoding="utf-8")
    assert "They do not." in page
    assert "todowrite" not in page
