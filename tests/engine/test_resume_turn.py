"""A turn that was cut off while it asked a person: what it had done and spent by then still counts."""

from __future__ import annotations

import asyncio
import shutil
from typing import Any, Literal

from coder.protocol.events import ApprovalRequested, TurnEnded, VerifyChanged
from coder.protocol.ops import ApprovalReply
from kit import ScriptedServer
from kit.driving import Driver, Project, of

PRICES = {"scripted": {"input": 1000.0, "output": 0.0}, "quick": {"input": 0.0, "output": 0.0}}


def write(name: str) -> dict[str, Any]:
    return {"calls": [{"name": "write", "arguments": {"path": name, "content": "x = 1\n"}}]}


def cut_off_asking(project: Project, script: list[dict[str, Any]], text: str, number: int) -> str:
    """A session whose process died while it put its question `number`; those before were answered yes.

    The log is copied at that moment and put back in place of what came after.
    """
    copy = project.home / "at-the-kill"
    asked: list[ApprovalRequested] = []

    async def scenario(url: str) -> str:
        driver = Driver(project, url, can_ask=True)
        driver.start()

        def answer(event: ApprovalRequested) -> ApprovalReply:
            asked.append(event)
            if len(asked) == number:
                shutil.copy(project.logs()[0], copy)
            return ApprovalReply(event.approval_id, "yes" if len(asked) < number else "no")

        await driver.send(text, answer)
        await driver.close()
        return driver.engine.agent.session.id

    with ScriptedServer([*script, {"text": "later"}, {"text": "later"}]) as server:
        session = asyncio.run(scenario(server.url))
    shutil.copy(copy, project.logs()[0])
    assert project.events()[-1]["type"] == "approval"
    return session


def taken_up(
    project: Project, session: str, script: list[dict[str, Any]], answer: Literal["yes", "no"] = "no"
) -> Driver:
    async def scenario(url: str) -> Driver:
        driver = Driver(project, url, can_ask=True)
        driver.start(session)
        await driver.until_idle(lambda e: ApprovalReply(e.approval_id, answer))
        await driver.close()
        return driver

    with ScriptedServer(script) as server:
        driver = asyncio.run(scenario(server.url))
        driver.chats = server.chats
    return driver


def gradle(project: Project, body: str) -> None:
    project.write("gradlew", f"#!/bin/sh\n{body}\n").chmod(0o755)


def test_files_edited_before_are_verified_after(project: Project) -> None:
    gradle(project, "exit 0")
    session = cut_off_asking(project, [write("a.py"), write("b.py")], "write it and verify", 2)
    driver = taken_up(project, session, [{"text": "done"}])
    assert [e.state for e in of(driver.seen, VerifyChanged)] == ["started", "passed"]
    assert not (project.cwd / "b.py").exists()  # it was answered no: a.py alone is why


def test_a_check_that_was_tried_before_is_not_tried_more_often(project: Project) -> None:
    """One repair a turn: the check ran before the kill, and runs once more after it."""
    project.configure(workflow={"max_verify_attempts": 1})
    gradle(project, "exit 1")
    script = [write("a.py"), {"text": "done"}, write("b.py")]
    session = cut_off_asking(project, script, "write it and verify", 2)
    assert [e["meta"]["attempt"] for e in project.of_type("verify")] == [1]
    answers = [{"text": "repaired"}, write("c.py"), {"text": "so be it"}, {"text": "never asked"}]
    driver = taken_up(project, session, answers, "yes")
    assert [e.attempt for e in of(driver.seen, VerifyChanged) if e.state == "failed"] == [2]
    (ended,) = of(driver.seen, TurnEnded)
    assert ended.text == "done\n\nrepaired\n\nso be it"
    assert ended.verification.attempts == 2
    assert ended.verification.changed_since == ["a.py", "b.py", "c.py"]


def test_the_cost_of_the_turn_is_all_of_it(project: Project) -> None:
    project.configure(budget={"prices": PRICES})
    session = cut_off_asking(project, [write("a.py"), write("b.py")], "write it", 2)
    driver = taken_up(project, session, [{"text": "done"}])
    requests = [e["meta"]["cost_usd"] for e in project.of_type("assistant")]
    assert len(requests) == 3
    (ended,) = project.of_type("turn_end")
    assert ended["meta"]["cost_usd"] == sum(requests)
    assert driver.engine.agent.session.meter.budget.spent == sum(requests)


def test_an_interrupted_turn_ends_with_its_cost(project: Project) -> None:
    project.configure(budget={"prices": PRICES})
    session = cut_off_asking(project, [write("a.py")], "write it", 1)
    with ScriptedServer([{"text": "I see"}]) as server:
        project.coder("--resume", session, "--once", "go on", url=server.url)
    interrupted, _ = project.of_type("turn_end")
    assert interrupted["meta"]["cost_usd"] == project.of_type("assistant")[0]["meta"]["cost_usd"] > 0


def test_the_model_that_was_chosen_for_the_prompt_goes_on_with_it(project: Project) -> None:
    project.configure(provider={"model": "auto"}, routing={"fast": "quick", "strong": "scripted"})
    env = project.environ

    def without_model(url: str = "", **more: str) -> dict[str, str]:
        return {name: value for name, value in env(url, **more).items() if name != "CODER_MODEL"}

    project.environ = without_model  # type: ignore[method-assign]  # routing only where no model is named
    session = cut_off_asking(project, [write("a.py")], "implement a.py", 1)
    assert project.of_type("routing")[0]["meta"]["model"] == "scripted"
    driver = taken_up(project, session, [{"text": "done"}])
    assert driver.chats[0]["model"] == "scripted"
    assert len(project.of_type("routing")) == 1  # chosen once for the prompt, and not again


def test_continuations_go_on_counting(project: Project) -> None:
    project.configure(runtime={"max_continuations": 1})
    session = cut_off_asking(
        project, [{"text": "This was cut", "finish": "length"}, write("a.py")], "write it", 1
    )
    driver = taken_up(project, session, [{"text": "cut again", "finish": "length"}, {"text": "never asked"}])
    assert len(driver.chats) == 1
    assert of(driver.seen, TurnEnded)[0].text.endswith("cut again")
