"""A session taken up again: what comes back, what is asked again, and how one is left for another."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any, Literal

import pytest

from coder.protocol.events import ApprovalRequested, CommandDone, SessionStarted, TodosChanged, TurnEnded
from coder.protocol.history import INTERRUPTED
from coder.protocol.ops import ApprovalReply
from kit import ScriptedServer
from kit.calls import call
from kit.driving import Driver, Project, drive, of
from kit.validity import check_conversation


def write(name: str, call_id: str = "") -> dict[str, Any]:
    return call("write", call_id, path=name, content="new\n")


def killed_while_asking(project: Project, calls: list[dict[str, Any]], before: int = 0) -> str:
    """A session whose process died while a person was being asked; returns its id.

    The log is copied at that moment and put back in place of what came after.
    """
    steps = [{"calls": [call("list")]}] * before
    copy = project.home / "at-the-kill"

    async def scenario(url: str) -> str:
        driver = Driver(project, url, can_ask=True)
        driver.start()

        def answer(event: ApprovalRequested) -> ApprovalReply:
            if not copy.exists():
                shutil.copy(project.logs()[0], copy)
            return ApprovalReply(event.approval_id, "no")

        await driver.send("please change it", answer)
        await driver.close()
        return driver.engine.agent.session.id

    with ScriptedServer([*steps, {"text": "I will", "calls": calls}, {"text": "later"}]) as server:
        session = asyncio.run(scenario(server.url))
    shutil.copy(copy, project.logs()[0])
    assert project.events()[-1]["type"] == "approval"
    return session


def resumed(project: Project, session: str, answer: str, script: list[dict[str, Any]]) -> Driver:
    async def scenario(url: str) -> Driver:
        driver = Driver(project, url, can_ask=True)
        driver.start(session)
        reply: Literal["yes", "no"] = "yes" if answer == "yes" else "no"
        await driver.until_idle(lambda e: ApprovalReply(e.approval_id, reply, "rather not"))
        await driver.close()
        return driver

    with ScriptedServer(script) as server:
        driver = asyncio.run(scenario(server.url))
        driver.chats = server.chats
    return driver


@pytest.mark.parametrize("answer", ["yes", "no"])
def test_a_pending_approval_is_asked_again(project: Project, answer: str) -> None:
    session = killed_while_asking(project, [write("a.txt")])
    driver = resumed(project, session, answer, [{"text": "All done."}])
    (asked,) = of(driver.seen, ApprovalRequested)
    assert asked.tool == "write"
    assert "+new" in asked.subject
    (ended,) = of(driver.seen, TurnEnded)
    assert (ended.status, ended.text, ended.turn) == ("ok", "All done.", 1)
    (request,) = driver.chats
    check_conversation(request["messages"])
    assert (project.cwd / "a.txt").exists() == (answer == "yes")
    last = request["messages"][-1]["content"]
    assert ("rather not" in last) == (answer == "no")
    assert "interrupted" not in last
    assert [e["meta"].get("answer") for e in project.of_type("approval")] == [None, None, answer]
    assert len(project.of_type("turn_end")) == 1


def test_other_calls_of_the_same_answer_are_interrupted(project: Project) -> None:
    project.write("there.txt", "x\n")
    calls = [
        call("read", "c1", path="there.txt"),
        write("a.txt", "c2"),
        write("b.txt", "c3"),
        call("list", "c4"),
    ]
    session = killed_while_asking(project, calls)
    driver = resumed(project, session, "yes", [{"text": "ok"}])
    (request,) = driver.chats
    check_conversation(request["messages"])
    answers = {m["tool_call_id"]: m["content"] for m in request["messages"] if m["role"] == "tool"}
    assert "x" in answers["c1"]  # what was answered before the kill keeps its answer
    assert answers["c3"] == answers["c4"] == INTERRUPTED
    assert not answers["c2"].startswith("error")
    assert (project.cwd / "a.txt").exists()
    assert not (project.cwd / "b.txt").exists()


def test_steps_and_tokens_of_the_turn_go_on_counting(project: Project) -> None:
    session = killed_while_asking(project, [write("a.txt")], before=2)
    driver = resumed(project, session, "yes", [{"text": "ok"}])
    (ended,) = of(driver.seen, TurnEnded)
    assert ended.steps == 4
    assert ended.usage.prompt == 40
    assert driver.engine.agent.session.meter.usage.prompt == 40
    steps = [e["step"] for e in project.of_type("assistant")]
    assert steps == [0, 1, 2, 3]
    assert project.of_type("turn_end")[0]["meta"]["step_count"] == 4


def test_where_nobody_can_be_asked_the_call_is_interrupted(project: Project) -> None:
    session = killed_while_asking(project, [write("a.txt")])
    with ScriptedServer([{"text": "I see."}]) as server:
        done = project.coder("--resume", session, "--once", "go on", url=server.url)
        (request,) = server.chats
    assert (done.returncode, done.stdout) == (0, "I see.\n")
    check_conversation(request["messages"])
    assert INTERRUPTED in [m["content"] for m in request["messages"]]
    assert not (project.cwd / "a.txt").exists()
    interrupted, ended = project.of_type("turn_end")
    assert interrupted["meta"]["status"] == "cancelled"
    assert interrupted["meta"]["tokens"]["prompt"] == 10
    assert ended["meta"]["status"] == "ok"


TODOS = [{"content": "one", "status": "completed"}, {"content": "two", "status": "in_progress"}]


@pytest.mark.thorough
def test_what_a_session_was_comes_back(project: Project) -> None:
    script = [{"calls": [call("todowrite", todos=TODOS)]}, {"text": "planned"}, {"text": "second"}]
    with ScriptedServer([*script, {"text": "third"}]) as server:
        first = drive(project, server.url, ["make a plan", "!echo remembered", "and then?"])
        old = first.engine.agent.session
        again = drive(project, server.url, ["/todos", "/status", "go on"], resume=old.id)
        request = server.chats[-1]
    session = again.engine.agent.session
    (started,) = of(again.seen, SessionStarted)
    assert (started.resumed, started.turns, started.session_id) == (True, 2, old.id)
    assert (session.title, session.created_at) == ("make a plan", old.created_at)
    todos, status = of(again.seen, CommandDone)
    assert "two" in todos.text
    assert old.id in status.text
    assert session.log.turn == 3
    assert session.meter.usage.total == old.meter.usage.total + 12
    check_conversation(request["messages"])
    assert any("remembered" in m["content"] for m in request["messages"])
    assert [m["content"] for m in request["messages"] if m["role"] == "assistant"] == [
        "",
        "planned",
        "second",
    ]
    assert not of(again.seen, TodosChanged)


def test_an_interrupted_turn_s_tokens_are_not_lost(project: Project) -> None:
    with ScriptedServer([{"calls": [call("list")]}] * 3 + [{"text": "end"}]) as server:
        first = drive(project, server.url, ["go"])
        log = project.logs()[0]
        lines = log.read_bytes().splitlines(keepends=True)
        kinds = [json.loads(line)["type"] for line in lines]
        cut = len(kinds) - 1 - kinds[::-1].index("observation")
        log.write_bytes(b"".join(lines[: cut + 1]))  # killed after the third step
        again = drive(project, server.url, ["/status"], resume=first.engine.agent.session.id)
    assert again.engine.agent.session.meter.usage.prompt == 30
    assert project.of_type("turn_end")[-1]["meta"]["step_count"] == 3


# leaving one session for another


def test_new_leaves_the_old_one_complete(project: Project) -> None:
    with ScriptedServer([{"text": "one"}, {"text": "two"}]) as server:
        driver = drive(project, server.url, ["first", "/new", "second"])
        requests = server.chats
    assert [m["role"] for m in requests[1]["messages"]] == ["system", "user"]
    logs = {read(log)[1]["content"]: read(log) for log in project.logs()}
    assert set(logs) == {"first", "second"}
    assert all(events[-1]["type"] == "session_end" for events in logs.values())
    assert logs["second"][0]["session_id"] == driver.engine.agent.session.id


def read(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def test_resume_goes_back_to_another_session(project: Project) -> None:
    with ScriptedServer([{"text": "one"}, {"text": "two"}, {"text": "three"}]) as server:
        first = drive(project, server.url, ["first"]).engine.agent.session.id
        driver = drive(project, server.url, ["second", f"/resume {first}", "third"])
        request = server.chats[-1]
    contents = [m["content"] for m in request["messages"][1:]]
    assert contents[1] == "one"
    assert contents[2].startswith("third")
    assert driver.engine.agent.session.id == first
    left = next(log for log in project.logs() if log.stem != first)
    assert read(left)[-1]["type"] == "session_end"
    turns = [e["turn"] for e in read(project.cwd / ".coder" / "history" / f"{first}.jsonl")]
    assert turns == sorted(turns)


@pytest.mark.parametrize("name", ["nope", "../x", "x" * 500])
def test_resuming_what_is_not_there_changes_nothing(project: Project, name: str) -> None:
    with ScriptedServer([{"text": "one"}, {"text": "two"}]) as server:
        driver = drive(project, server.url, ["first", f"/resume {name}", "second"])
        assert [m["role"] for m in server.chats[1]["messages"]] == ["system", "user", "assistant", "user"]
    (answer,) = of(driver.seen, CommandDone)
    assert not answer.ok
    assert name in answer.text
    assert len(project.logs()) == 1


def test_resume_alone_lists_what_there_is(project: Project) -> None:
    with ScriptedServer([{"text": "one"}] * 2) as server:
        first = drive(project, server.url, ["the first question"]).engine.agent.session.id
        driver = drive(project, server.url, ["/resume", f"/resume {first}", f"/resume {first}"])
    listed, back, already = of(driver.seen, CommandDone)
    assert first in listed.text
    assert "the first question" in listed.text
    assert back.ok
    assert first in already.text


def test_a_session_that_another_process_has_open_is_not_taken(project: Project) -> None:
    async def scenario(url: str) -> list[Any]:
        holder = Driver(project, url)
        holder.start()
        await holder.send("first")
        session = holder.engine.agent.session.id
        other = Driver(project, url)
        other.start()
        await other.send("mine")
        own = other.engine.agent.session.id
        seen = await other.send(f"/resume {session}")
        assert other.engine.agent.session.id == own
        await other.send("still mine")
        await other.close()
        await holder.close()
        return seen

    with ScriptedServer([{"text": "x"}] * 3) as server:
        (answer,) = of(asyncio.run(scenario(server.url)), CommandDone)
    assert not answer.ok
    assert "another process" in answer.text


def test_after_a_full_disk_the_next_turn_is_valid(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer of a call could not be recorded: it is not left open in the conversation either."""
    from coder.history.sinks import HistoryError, JsonlHistorySink

    append = JsonlHistorySink.append

    def full(self: JsonlHistorySink, event: Any) -> None:
        if event.type == "observation" and event.turn == 1:
            raise HistoryError("record.full")
        append(self, event)

    monkeypatch.setattr(JsonlHistorySink, "append", full)
    script = [{"calls": [call("list"), call("list")]}, {"text": "better"}]
    with ScriptedServer(script) as server:
        driver = drive(project, server.url, ["go", "again"])
        check_conversation(server.chats[1]["messages"])
        again = drive(project, server.url, ["/status"], resume=driver.engine.agent.session.id)
    assert [e.status for e in of(driver.seen, TurnEnded)] == ["error", "ok"]
    assert (
        again.engine.agent.session.conversation.messages == driver.engine.agent.session.conversation.messages
    )
