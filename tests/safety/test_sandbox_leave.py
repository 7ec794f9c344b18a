"""A command that the sandbox stopped: it is said, and only a person's own yes runs it again without."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

import pytest
from box import available, level_of

from coder.protocol.events import ApprovalRequested, CommandDone, VerifyChanged
from coder.protocol.ops import ApprovalReply
from kit import ScriptedServer
from kit.driving import Driver, Event, Project, left_running, of

RUNGS = available()
ESCAPE = "echo out > ../outside && echo in > inside"  # the second half is for whoever got out

Answer = Callable[[ApprovalRequested], Literal["yes", "no", "always"]]


def bash(command: str) -> dict[str, Any]:
    return {"name": "bash", "arguments": {"command": command}}


def played(
    project: Project,
    rung: str,
    script: list[Any],
    *inputs: str,
    answer: Answer = lambda _asked: "yes",
    **options: Any,
) -> Driver:
    """The inputs with a person who answers; the machine is one whose strongest rung is `rung`."""

    async def scenario(url: str) -> Driver:
        driver = Driver(project, url, **{"can_ask": True, **options})
        driver.engine.desk.sandbox_level = level_of(rung)
        driver.start()
        for text in inputs or ("go",):
            await driver.send(text, lambda e: ApprovalReply(e.approval_id, answer(e), "not now"))
        await driver.close()
        return driver

    with ScriptedServer(script) as server:
        driver = asyncio.run(scenario(server.url))
        driver.chats = server.chats
    return driver


def one_call(command: str) -> list[Any]:
    return [{"calls": [bash(command)]}, {"text": "done"}]


def about_the_sandbox(driver: Driver) -> list[ApprovalRequested]:
    return [e for e in of(driver.seen, ApprovalRequested) if any("sandbox" in r for r in e.reasons)]


def link_to_a_secret(project: Project) -> None:
    """`cat linked` is known to be read-only, and still something that the sandbox stops."""
    (project.home / ".netrc").write_text("password\n", encoding="utf-8")
    (project.cwd / "linked").symlink_to(project.home / ".netrc")


def observed(project: Project) -> Event:
    (event,) = project.of_type("observation")
    return event


@pytest.fixture(params=RUNGS)
def rung(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("mode", ["default", "auto-edit", "yolo"])
def test_a_yes_runs_it_again_outside_and_undo_covers_it(project: Project, rung: str, mode: Any) -> None:
    driver = played(project, rung, one_call(ESCAPE), "go", "/undo", mode=mode)
    asked = of(driver.seen, ApprovalRequested)
    assert len(asked) == (1 if mode == "yolo" else 2)  # yolo asks too: this leaves the sandbox
    (question,) = about_the_sandbox(driver)
    assert question == asked[-1]
    assert (question.subject, question.subject_kind) == (ESCAPE, "command")
    assert not question.can_always
    assert str(project.cwd.parent / "outside") in question.reasons[0]
    assert "once more without the sandbox" in question.reasons[1]
    assert (project.cwd.parent / "outside").read_text() == "out\n"
    event = observed(project)
    assert (event["meta"]["ok"], event["meta"]["sandbox"]) == (True, "none")
    assert "without the sandbox" in event["content"]
    approvals = [e["meta"] for e in project.of_type("approval") if e["meta"].get("sandbox") == "none"]
    assert [a.get("answer") for a in approvals] == [None, "yes"]
    assert "removed inside" in of(driver.seen, CommandDone)[0].text
    assert not (project.cwd / "inside").exists()


def test_a_no_leaves_it_at_that_and_the_model_is_told(project: Project, rung: str) -> None:
    driver = played(project, rung, one_call(ESCAPE), mode="yolo", answer=lambda _asked: "no")
    assert len(about_the_sandbox(driver)) == 1
    assert not (project.cwd.parent / "outside").exists()
    event = observed(project)
    assert event["content"].startswith("error: ")
    assert "The sandbox stopped this command" in event["content"]
    assert "not now" in event["content"]
    assert (event["meta"]["ok"], event["meta"]["sandbox"]) == (False, rung)
    assert event["meta"]["denied"] is False  # it did run


def test_an_always_is_a_yes_for_once(project: Project, rung: str) -> None:
    script = [{"calls": [bash("touch ../one")]}, {"calls": [bash("touch ../two")]}, {"text": "done"}]
    driver = played(project, rung, script, answer=lambda asked: "always" if not asked.can_always else "yes")
    assert len(about_the_sandbox(driver)) == 2
    assert driver.engine.desk.allowed.names() == []


NEVER: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "nobody to ask": ({}, {"can_ask": False, "mode": "yolo"}, ESCAPE),
    "auto approve": ({"approval": {"auto_approve_ask": True}}, {}, ESCAPE),
    "not interactive": ({"approval": {"interactive": False}}, {}, ESCAPE),
    "auto approve in yolo": ({"approval": {"auto_approve_ask": True}}, {"mode": "yolo"}, ESCAPE),
    "required": ({"sandbox": {"mode": "require"}}, {"mode": "yolo"}, ESCAPE),
    "plan": ({}, {"mode": "plan"}, "cat linked"),
}


@pytest.mark.parametrize("case", NEVER)
def test_nobody_else_s_word_leads_out(project: Project, rung: str, case: str) -> None:
    settings, options, command = NEVER[case]
    project.configure(**settings)
    link_to_a_secret(project)
    driver = played(project, rung, one_call(command), **options)
    assert about_the_sandbox(driver) == []
    assert not (project.cwd.parent / "outside").exists()
    event = observed(project)
    assert "The sandbox stopped this command" in event["content"]
    assert "password" not in event["content"]
    assert event["meta"]["sandbox"] == rung


def test_a_process_without_a_terminal_never_does(project: Project) -> None:
    with ScriptedServer(one_call(ESCAPE)) as server:
        done = project.coder("--once", "go", "--mode", "yolo", url=server.url)
    assert done.returncode == 0
    assert not (project.cwd.parent / "outside").exists()
    assert "The sandbox stopped this command" in done.stderr
    assert observed(project)["meta"]["ok"] is False


def test_a_question_that_was_cut_off_is_put_again(project: Project, rung: str) -> None:
    cut: list[bytes] = []

    def answer(asked: ApprovalRequested) -> Literal["yes", "no"]:
        if any("sandbox" in reason for reason in asked.reasons):
            cut.append(project.logs()[0].read_bytes())
            return "no"
        return "yes"

    first = played(project, rung, one_call(ESCAPE), answer=answer)
    project.logs()[0].write_bytes(cut[0])  # as after a kill while the question was on the screen

    async def scenario(url: str) -> Driver:
        driver = Driver(project, url, can_ask=True)
        driver.engine.desk.sandbox_level = level_of(rung)
        driver.start(first.engine.desk.session.id)
        await driver.until_idle(lambda e: ApprovalReply(e.approval_id, "yes"))
        await driver.close()
        return driver

    with ScriptedServer([{"text": "done"}]) as server:
        again = asyncio.run(scenario(server.url))
    assert len(about_the_sandbox(again)) == 1
    assert (project.cwd.parent / "outside").read_text() == "out\n"
    assert observed(project)["meta"]["sandbox"] == "none"


def test_what_it_started_outside_does_not_outlive_it(project: Project, rung: str) -> None:
    mark = f"31{rung.__hash__() % 10**6:06d}77"
    line = f"setsid sleep {mark} > /dev/null 2>&1 & touch ../outside"
    played(project, rung, one_call(line), mode="yolo")
    assert (project.cwd.parent / "outside").exists()
    assert left_running(mark) == []


def task(agent: str) -> list[Any]:
    def answer(request: dict[str, Any]) -> dict[str, Any]:
        objective = any(m["role"] == "user" and m["content"].startswith("chore") for m in request["messages"])
        answered = any(m["role"] == "tool" for m in request["messages"])
        if answered:
            return {"text": "done"}
        call = {"name": "task", "arguments": {"agent": agent, "objective": "chore"}}
        line = "cat linked" if agent == "explore" else ESCAPE
        return {"calls": [bash(line) if objective else call]}

    return [answer] * 4


def test_a_subagent_asks_through_its_parent_and_an_exploring_one_never(project: Project, rung: str) -> None:
    link_to_a_secret(project)
    exploring = played(project, rung, task("explore"), preset="yolo", mode="yolo")
    assert about_the_sandbox(exploring) == []
    log = str(project.of_type("subagent"))
    assert "The sandbox stopped this command" in log
    assert "password" not in log
    general = played(project, rung, task("general"), preset="yolo", mode="yolo")
    assert len(about_the_sandbox(general)) == 1
    assert (project.cwd.parent / "outside").read_text() == "out\n"


def test_a_check_that_the_sandbox_stopped_is_not_the_model_s_to_repair(project: Project, rung: str) -> None:
    project.write("gradlew", f"#!/bin/sh\n{ESCAPE}\n").chmod(0o755)
    edits = [{"name": "write", "arguments": {"path": f"{n}.py", "content": "x = 1\n"}} for n in range(2)]
    first, second = ([{"calls": [edit]}, {"text": "done"}] for edit in edits)
    stopped = played(project, rung, first, mode="auto-edit", can_ask=False)
    (ended,) = [e for e in of(stopped.seen, VerifyChanged) if e.state != "started"]
    assert ended.state == "gave_up"
    assert "The sandbox stopped this command" in ended.text
    assert not (project.cwd.parent / "outside").exists()
    assert len(stopped.chats) == 2
    asked = played(project, rung, second, mode="auto-edit")
    assert len(about_the_sandbox(asked)) == 1
    assert [e.state for e in of(asked.seen, VerifyChanged)] == ["started", "passed"]
    assert (project.cwd.parent / "outside").exists()
