"""Compaction and what the model has not answered yet: the newest message, and the newest calls' results."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coder.history.log import read_log
from coder.history.replay import replay
from coder.protocol.events import ChatCompressed, CommandDone, Failed, InputDone, TurnEnded
from coder.protocol.ops import UserInput
from kit import Chaos
from kit.calls import read
from kit.driving import Driver, Project, of, play
from kit.validity import check_conversation
from kit.wire import by_place, main_chats, prompt_tokens, side_requests, words

SHORT = {"text": "## Goal\nto get on"}


def play_ops(project: Project, script: list[Any], ops: list[UserInput], **options: Any) -> Driver:
    """As `play`, for messages with something attached."""

    async def run(url: str) -> Driver:
        driver = Driver(project, url, **options)
        driver.start()
        for op in ops:
            driver.engine.submit(op)
            await driver.until_idle()
        await driver.close()
        return driver

    with Chaos(script) as server:
        driver = asyncio.run(run(server.url))
        driver.chats = server.chats
    for chat in driver.chats:
        check_conversation(chat["messages"])
    return driver


@pytest.mark.parametrize(
    "summary", [SHORT, {"status": 503, "headers": {"Retry-After": "0"}}], ids=["summary", "no summary"]
)
def test_what_is_piped_in_arrives_whole_after_five_turns(project: Project, summary: dict[str, Any]) -> None:
    """Also where the engine starts the task with a todo list, which stands behind the message."""
    project.configure(runtime={"context_window": 16_000})
    diff = "\n".join(f"+line {n} of the difference" for n in range(800))
    question = "Review this, please: 1. correctness, 2. naming, 3. tests, and say what you would change"
    turns = [UserInput(f"go {n}") for n in range(5)]
    main = [*({"text": words(300, f"t{n}x")} for n in range(5)), {"text": "reviewed"}]
    driver = play_ops(project, by_place(main, summary=summary), [*turns, UserInput(question, diff)])
    assert of(driver.seen, TurnEnded)[-1].text == "reviewed"
    sent = main_chats(driver)[-1]["messages"]
    assert any(m["role"] == "user" and diff in m["content"] and question in m["content"] for m in sent)
    assert len(of(driver.seen, ChatCompressed)) == (1 if summary is SHORT else 0)
    assert prompt_tokens(main_chats(driver)[-1]) <= 16_000


def test_each_result_arrives_whole_when_it_comes(project: Project) -> None:
    project.configure(runtime={"context_window": 16_000}, workflow={"require_todo_for_complex": False})
    for n in range(5):
        project.write(f"f{n}.txt", "\n".join(f"file {n} line {at} of it" for at in range(500)))
    seen: list[str] = []

    def step(n: int) -> Any:
        def answer(request: dict[str, Any]) -> dict[str, Any]:
            seen.append(request["messages"][-1]["content"])
            return {"calls": [read(f"f{n}.txt")]} if n < 5 else {"text": "end"}

        return answer

    driver = play(project, by_place([step(n) for n in range(6)], summary=SHORT), ["look"])
    assert of(driver.seen, TurnEnded)[0].text == "end"
    for n, text in enumerate(seen[1:]):
        assert all(f"file {n} line {at} of it" in text for at in range(500))
    assert len(project.of_type("compaction")) >= 1


def test_results_that_cannot_fit_say_so_and_can_be_read_in_parts(project: Project) -> None:
    project.configure(runtime={"context_window": 12_000}, workflow={"require_todo_for_complex": False})
    for n in range(3):
        project.write(f"f{n}.txt", "\n".join(f"file {n} line {at} of it" for at in range(1500)))

    def part(request: dict[str, Any]) -> dict[str, Any]:
        results = [m["content"] for m in request["messages"] if m["role"] == "tool"]
        assert len(results) == 3
        assert all("the context window has no room for them" in text for text in results)
        path = results[0].split("all of it is in ")[1].split(", to be")[0]
        return {"calls": [{"name": "read", "arguments": {"path": path, "offset": 800, "limit": 5}}]}

    batch = {"calls": [read(f"f{n}.txt") for n in range(3)]}
    driver = play(project, by_place([batch, part, {"text": "end"}], summary=SHORT), ["look"])
    assert of(driver.seen, TurnEnded)[0].status == "ok"
    assert "file 0 line 79" in main_chats(driver)[-1]["messages"][-1]["content"]
    assert all(prompt_tokens(chat) <= 12_000 for chat in main_chats(driver))
    assert replay(read_log(project.logs()[0])).messages == driver.engine.agent.session.conversation.messages


@pytest.mark.parametrize("limit", ["window", "flag"])
def test_a_message_that_cannot_fit_is_refused_before_it_is_part_of_the_conversation(
    project: Project, limit: str
) -> None:
    project.configure(runtime={"context_window": 9_000 if limit == "window" else 100_000})
    options = {"max_prompt_tokens": 9_000} if limit == "flag" else {}
    long = words(5_000, "p")
    driver = play(project, by_place([{"text": "one"}, {"text": "two"}]), ["hi", long, "again"], **options)
    assert [end.status for end in of(driver.seen, TurnEnded)] == ["ok", "prompt_limit", "ok"]
    assert [done.refused for done in of(driver.seen, InputDone)] == [False, True, False]
    assert "not part of the conversation" in of(driver.seen, Failed)[0].text
    assert len(driver.chats) == 2
    assert "p4999" not in str(driver.chats[-1])
    assert [e["content"] for e in project.of_type("turn_start")] == ["hi", long, "again"]
    assert "p4999" not in str(project.snapshot()["messages"])
    assert replay(read_log(project.logs()[0])).messages == driver.engine.agent.session.conversation.messages


def test_what_was_to_be_told_with_a_refused_message_is_told_with_the_next(project: Project) -> None:
    project.configure(runtime={"context_window": 9_000})
    driver = play(project, by_place([{"text": "ok"}]), [words(5_000, "p"), "again"], mode="plan")
    assert "Operating mode plan" in driver.chats[0]["messages"][-1]["content"]


def test_a_message_that_failed_makes_room_for_the_next_one(project: Project) -> None:
    """Two that fit alone and not together: the one in hand is what counts."""
    project.configure(runtime={"context_window": 12_000}, workflow={"require_todo_for_complex": False})
    refused = {"status": 400, "body": {"error": {"message": "no"}}}
    first, second = words(2_500, "first"), words(2_500, "second")
    driver = play(project, by_place([refused, {"text": "ok"}], summary=SHORT), [first, second])
    assert [end.status for end in of(driver.seen, TurnEnded)] == ["error", "ok"]
    assert second in main_chats(driver)[-1]["messages"][-1]["content"]
    assert len(side_requests(driver, "summary")) == 1


def test_compact_says_that_it_failed_and_leaves_everything(project: Project) -> None:
    for gone in ({"status": 400, "body": {"error": {"message": "no"}}}, {"text": ""}):
        script = by_place([{"text": words(400)}, {"text": "b"}], summary=gone)
        driver = play(project, script, ["a", "/compact", "next"])
        answers = of(driver.seen, CommandDone)
        assert [(a.ok, "the conversation is as it was" in a.text) for a in answers] == [(False, True)]
        assert of(driver.seen, ChatCompressed) == []
        assert driver.chats[-1]["messages"][2]["content"] == words(400)
