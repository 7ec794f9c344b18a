"""`Steer` and `Query`: what reaches the engine while a turn runs."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

from coder.history.log import read_log
from coder.history.replay import replay
from coder.history.turn_so_far import NewestTurn
from coder.protocol.events import AnyEvent, CommandDone, Finished, InputDone, Steered, TurnEnded
from coder.protocol.ops import Cancel, Query, SetOperatingMode, Steer
from kit import ScriptedServer
from kit.calls import bash
from kit.driving import Driver, Project, during_a_call, of

CALLS = {"calls": [bash("true")]}
DONE = {"text": "done"}


def heard(driver: Driver) -> list[tuple[str, bool]]:
    return [(event.text, event.heard) for event in of(driver.seen, Steered)]


def test_messages_are_heard_in_order_with_the_files_that_they_name(project: Project) -> None:
    project.write("notes.txt", "mind the gap\n")
    driver = during_a_call(project, [CALLS, DONE], Steer("first"), Steer("see @notes.txt"))
    assert heard(driver) == [("first", True), ("see @notes.txt", True)]
    first, second = [message["content"] for message in driver.chats[1]["messages"][-2:]]
    assert first == "first"
    assert "mind the gap" in second


def test_a_refusal_to_test_holds_when_it_is_said_meanwhile(project: Project) -> None:
    project.write("gradlew", "#!/bin/sh\ntouch checked\n").chmod(0o755)
    write = {"calls": [{"name": "write", "arguments": {"path": "a.py", "content": "x = 1\n"}}]}
    during_a_call(project, [write, DONE, DONE], Steer("Don't run the tests."))
    assert not (project.cwd / "checked").exists()


def test_what_a_cancelled_turn_did_not_hear_is_given_back(project: Project) -> None:
    driver = during_a_call(project, [CALLS, DONE], Steer("too late"), Cancel())
    assert heard(driver) == [("too late", False)]
    assert "too late" not in str(project.events())


def test_what_was_heard_outlives_a_summary_that_forgets_it(project: Project) -> None:
    project.configure(workflow={"require_todo_for_complex": False}, runtime={"context_window": 7000})
    project.write("long.txt", "\n".join(f"word{n} and more of it" for n in range(700)))
    read = {"calls": [{"name": "read", "arguments": {"path": "long.txt", "limit": 350}}]}
    more = {"calls": [{"name": "read", "arguments": {"path": "long.txt", "offset": 350}}]}
    summary = {"text": "## Goal\nshort"}
    driver = during_a_call(project, [CALLS, read, more, summary, DONE], Steer("call it lead, not prefix"))
    after = driver.chats[-1]["messages"]
    assert "## Goal\nshort" in after[1]["content"]
    since = "Said by the person since, while it was worked on:\n\ncall it lead, not prefix\n</request>"
    assert since in after[1]["content"]
    assert [m for m in after[2:] if m["content"] == "call it lead, not prefix"] == []
    newest = NewestTurn()
    for event in read_log(project.logs()[0]):
        newest.take(event)
    assert newest.so_far.heard == ["call it lead, not prefix"]


def after_answers(project: Project, script: list[Any], said: dict[int, str]) -> Driver:
    """Say something as soon as the answer with that number is complete."""

    async def scenario(url: str) -> Driver:
        driver = Driver(project, url, mode="yolo")
        driver.start()
        agent, answers = driver.engine.agent, count()
        emit = agent.emit

        def emit_and_say(event: AnyEvent) -> None:
            emit(event)
            if isinstance(event, Finished) and (text := said.get(next(answers))):
                driver.engine.submit(Steer(text))

        agent.emit = emit_and_say  # type: ignore[method-assign] # at once, before the turn can end
        await driver.send("go")
        await driver.close()
        return driver

    with ScriptedServer(script) as server:
        return asyncio.run(scenario(server.url))


def test_what_was_answered_before_a_message_was_heard_is_part_of_the_answer(project: Project) -> None:
    script = [CALLS, {"text": "It is blue."}, CALLS, {"text": "It was red."}, {"text": "Bye."}]
    driver = after_answers(project, script, {0: "hurry", 1: "and before?", 3: "thanks"})
    (ended,) = of(driver.seen, TurnEnded)
    assert ended.text == "It is blue.\n\nIt was red.\n\nBye."
    assert [event["content"] for event in project.of_type("final")] == [ended.text]
    newest = NewestTurn()
    for event in read_log(project.logs()[0]):
        newest.take(event)
    assert [*newest.so_far.earlier_answers, newest.so_far.answer] == ended.text.split("\n\n")


def test_answers_between_failed_checks_and_messages_stay_in_order(project: Project) -> None:
    project.write("gradlew", "#!/bin/sh\necho broken; exit 1\n").chmod(0o755)
    project.configure(workflow={"max_verify_attempts": 0})
    write = {"calls": [{"name": "write", "arguments": {"path": "a.py", "content": "x = 1\n"}}]}
    script = [write, {"text": "Written."}, {"text": "It fails."}, {"text": "As it did before."}]
    driver = after_answers(project, script, {2: "why?"})
    (ended,) = of(driver.seen, TurnEnded)
    assert ended.text == "Written.\n\nIt fails.\n\nAs it did before."
    newest = NewestTurn()
    for event in read_log(project.logs()[0]):
        newest.take(event)
    assert newest.so_far.earlier_answers == ["Written.", "It fails."]
    assert newest.so_far.unverified_answers == []


def test_a_mode_that_comes_while_a_turn_runs_is_told_before_the_next_step(project: Project) -> None:
    driver = during_a_call(project, [CALLS, CALLS, DONE], SetOperatingMode("plan"), Steer("now think"))
    first, second, third = ([m["content"] for m in chat["messages"]] for chat in driver.chats)
    assert "Operating mode yolo" in first[-1]
    note, words = second[len(first) :][-2:]
    assert note.startswith("<note>\nFrom now on: Operating mode plan")
    assert words == "now think"
    assert second == third[: len(second)]
    assert "From now on" not in str(third[len(second) :])
    assert [m.content for m in replay(read_log(project.logs()[0])).messages][: len(third)] == third


def test_no_turn_no_hearing(project: Project) -> None:
    async def scenario(url: str) -> None:
        driver = Driver(project, url)
        driver.start()
        await driver.send("go")
        driver.engine.submit(Steer("nobody listens"))
        await driver.close()
        assert heard(driver) == [("nobody listens", False)]

    with ScriptedServer([DONE]) as server:
        asyncio.run(scenario(server.url))


def test_a_message_that_a_hook_blocks_is_not_heard(project: Project) -> None:
    guard = """case "$(cat)" in *secret*) echo 'not that' >&2; exit 2;; esac"""
    project.configure(hooks={"UserPromptSubmit": [{"hooks": [{"type": "command", "command": guard}]}]})
    driver = during_a_call(project, [CALLS, DONE], Steer("the secret"), Steer("fine"))
    assert heard(driver) == [("the secret", False), ("fine", True)]
    assert "the secret" not in str(driver.chats)


def test_a_query_is_answered_and_changes_nothing(project: Project) -> None:
    driver = during_a_call(project, [CALLS, DONE], Query("/todos"), Query("/new"))
    answers = {event.command: event.ok for event in of(driver.seen, CommandDone)}
    assert answers == {"/todos": True, "/new": False}
    queries = [event for event in of(driver.seen, InputDone) if event.op == "query"]
    assert sorted(event.refused for event in queries) == [False, True]
    assert len(project.logs()) == 1
