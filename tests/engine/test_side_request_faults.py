"""The model breaks in the middle of the engine's side requests: of the summary, of routing, of the check who
speaks next. Every fault at every place: the turn goes on, the conversation stays valid, nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from coder.context.compaction import INSTRUCTION
from coder.engine import continuation, routing
from coder.history.log import read_log
from coder.history.replay import replay
from coder.models import retry
from coder.protocol.events import ChatCompressed, Failed, Notice, TurnEnded
from coder.protocol.ops import Cancel, UserInput
from kit import Chaos
from kit.driving import Driver, Project, drive, of
from kit.validity import check_conversation

LONG = " ".join(f"w{n}" for n in range(900))  # about 2,000 tokens, no two words alike
OPEN = "tell me about the history of this repository and its main authors"  # what no rule decides

# How a fault turns out where it never ends: `heals`: the answer gets through all the same; `again`: it is
# asked again, in vain; `refused`: it is not asked again; `silence`: an answer without a word.
FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "reset": ({"fault": "reset"}, "again"),
    "half_head": ({"fault": "half_head"}, "again"),
    "cut_text": ({"fault": "cut_text"}, "again"),
    "cut_other": ({"fault": "cut_text", "text": "USER COMPLEX, and words that the next try lacks"}, "again"),
    "cut_call": (
        {"fault": "cut_call", "calls": [{"name": "read", "arguments": {"path": "x" * 99}}]},
        "again",
    ),
    "cut_character": ({"fault": "cut_character"}, "again"),
    "reset_text": ({"fault": "reset_text"}, "again"),
    "length_short": ({"fault": "length_short"}, "again"),
    "error_midway": ({"fault": "error_midway"}, "again"),
    "no_done": ({"fault": "no_done"}, "again"),
    "silent": ({"fault": "silent"}, "again"),
    "429": (Chaos.limited("0"), "again"),
    "500": (Chaos.failing(500), "again"),
    "html": ({"fault": "html"}, "refused"),
    "400": ({"status": 400, "body": {"error": {"message": "no"}}}, "refused"),
    "401": ({"status": 401, "body": {"error": {"message": "no access"}}}, "refused"),
    "quota": ({"status": 402, "body": {"error": {"message": "insufficient_quota"}}}, "refused"),
    "broken_call": ({"text": "", "calls": [{"name": "read", "arguments": '{"path": '}]}, "silence"),
    "empty": ({"text": ""}, "silence"),
    "garbage": ({"fault": "garbage"}, "heals"),
    "drip": ({"fault": "drip"}, "heals"),
    "close_after": ({"fault": "close_after"}, "heals"),
}
PLACES = {"summary": INSTRUCTION, "routing": routing._CLASSIFY, "next_speaker": continuation._QUESTION}
GOOD = {
    "summary": "## Goal\nwhat was wanted: 测试",
    "routing": "SIMPLE, 测试",
    "next_speaker": "MODEL, 测试",
}


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_FIRST_DELAY", 0.001)


class FaultySideRequests:
    """A model that answers the conversation by a script, and breaks in the engine's side requests."""

    def __init__(self, place: str, fault: str, *, forever: bool, script: list[dict[str, Any]]) -> None:
        self.place, self.fault, self.forever = place, fault, forever
        self.main: Iterator[dict[str, Any]] = iter(script)
        self.asked = 0  # at the place
        self.chats: list[dict[str, Any]] = []  # of the conversation

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["messages"][0]["content"] == PLACES[self.place]:
            self.asked += 1
            good = {"text": GOOD[self.place], "chunk": 2}
            return {**good, **FAULTS[self.fault][0]} if self.forever or self.asked == 1 else good
        assert request["messages"][0]["content"] not in PLACES.values()
        self.chats.append(request)
        return next(self.main)

    def run(self, project: Project, inputs: list[str], **options: Any) -> Driver:
        with Chaos([self.answer] * 100) as server:
            driver = drive(project, server.url, inputs, **options)
        self.check(project, driver)
        return driver

    def check(self, project: Project, driver: Driver) -> None:
        """What holds whatever broke."""
        for chat in self.chats:
            check_conversation(chat["messages"])
        assert of(driver.seen, Failed) == []
        assert {end.status for end in of(driver.seen, TurnEnded)} == {"ok"}
        session = driver.engine.agent.session
        assert replay(read_log(project.logs()[0])).messages == session.conversation.messages
        retried = [e for e in of(driver.seen, Notice) if "Trying again" in e.text]
        assert len(retried) == self.retries(), retried

    def retries(self) -> int:
        """How often the person is told that it is tried again."""
        if FAULTS[self.fault][1] != "again":
            return 0
        if self.forever:
            return 7 if self.fault == "429" else 4
        # A kept connection that is reset is taken for a stale one: the next is opened without a word.
        return 0 if self.fault == "reset" and self.place != "routing" else 1


def settings(fault: str, **sections: Any) -> dict[str, Any]:
    provider = {"provider": {"timeout_ms": 400}} if fault == "silent" else {}
    return {"workflow": {"require_todo_for_complex": False}, **provider, **sections}


@pytest.mark.parametrize("forever", [False, True], ids=["once", "forever"])
@pytest.mark.parametrize("fault", FAULTS)
def test_in_the_middle_of_a_summary(project: Project, fault: str, forever: bool) -> None:
    project.configure(**settings(fault, runtime={"context_window": 7000}))
    project.write("seen.txt", "x\n")
    read = {"calls": [{"name": "read", "arguments": {"path": "seen.txt"}}]}
    model = FaultySideRequests(
        "summary", fault, forever=forever, script=[read, {"text": LONG}, {"text": LONG}, {"text": "fine"}]
    )
    driver = model.run(project, ["first", "second", "the third request"])
    assert of(driver.seen, TurnEnded)[-1].text == "fine"
    kind = FAULTS[fault][1]
    lost = kind in ("silence", "refused") or (forever and kind == "again")
    told = [e.text for e in of(driver.seen, Notice) if "the conversation is as it was" in e.text]
    assert len(told) == (1 if lost else 0)
    messages = model.chats[-1]["messages"]
    assert messages[-1]["content"].startswith("the third request")
    compressed = of(driver.seen, ChatCompressed)
    assert [event.summary for event in compressed] == ([] if lost else [GOOD["summary"]])
    if lost:
        assert [m["content"] for m in messages].count(LONG) == 2
    else:
        assert GOOD["summary"] in messages[1]["content"]
        assert "seen.txt" in messages[1]["content"]  # the action log


@pytest.mark.parametrize("forever", [False, True], ids=["once", "forever"])
@pytest.mark.parametrize("fault", FAULTS)
def test_in_the_middle_of_routing(project: Project, fault: str, forever: bool) -> None:
    project.configure(**settings(fault, routing={"fast": "small", "strong": "big"}))
    model = FaultySideRequests("routing", fault, forever=forever, script=[{"text": "told"}])
    driver = model.run(project, [OPEN], model="auto")
    assert of(driver.seen, TurnEnded)[-1].text == "told"
    kind = FAULTS[fault][1]
    heard = kind == "heals" or (kind == "again" and not forever)
    (chat,) = model.chats
    assert chat["model"] == ("small" if heard else "big")
    assert chat["messages"][-1]["content"].startswith(OPEN)
    assert project.of_type("routing")[0]["meta"]["model"] == chat["model"]


@pytest.mark.parametrize("forever", [False, True], ids=["once", "forever"])
@pytest.mark.parametrize("fault", FAULTS)
def test_in_the_middle_of_the_check_who_speaks_next(project: Project, fault: str, forever: bool) -> None:
    project.configure(**settings(fault))
    model = FaultySideRequests(
        "next_speaker",
        fault,
        forever=forever,
        script=[{"text": "Let me look at the files."}, {"text": "Two."}],
    )
    driver = model.run(project, ["go"])
    kind = FAULTS[fault][1]
    heard = kind == "heals" or (kind == "again" and not forever)
    assert of(driver.seen, TurnEnded)[-1].text == ("Two." if heard else "Let me look at the files.")
    assert [e["content"] for e in project.of_type("note")] == (["Please continue."] if heard else [])
    assert len(model.chats) == (2 if heard else 1)


@pytest.mark.parametrize("place", PLACES)
def test_a_cancel_while_the_engine_waits_for_its_own_answer(project: Project, place: str) -> None:
    project.configure(**settings("", runtime={"context_window": 7000}, routing={"fast": "a", "strong": "b"}))
    prompts = {"summary": ["hi", "hi", "hi"], "routing": [OPEN], "next_speaker": ["hi"]}[place]
    before = [{"text": LONG}, {"text": LONG}] if place == "summary" else []
    if place == "next_speaker":
        before = [{"text": "Let me look at the files."}]
    model = FaultySideRequests(place, "silent", forever=True, script=[*before, {"text": "back"}])

    async def scenario(url: str) -> Driver:
        driver = Driver(project, url, model="auto")
        driver.start()
        for text in prompts[:-1]:
            await driver.send(text)
        driver.engine.submit(UserInput(prompts[-1]))
        async with asyncio.timeout(20):
            while not model.asked:  # noqa: ASYNC110 - the server's thread has no event of this loop
                await asyncio.sleep(0.005)
        driver.engine.submit(Cancel())
        await driver.until_idle()
        conversation = list(driver.engine.agent.session.conversation.messages)
        check_conversation(conversation)
        assert conversation[-1].content.startswith(prompts[-1]) or place == "next_speaker"
        assert not any("Summary of" in message.content for message in conversation)
        model.forever = False
        await driver.send("hi")
        await driver.close()
        return driver

    with Chaos([model.answer] * 100) as server:
        driver = asyncio.run(scenario(server.url))
    *_, cancelled, last = of(driver.seen, TurnEnded)
    assert (cancelled.status, last.status, last.text) == ("cancelled", "ok", "back")
    for chat in model.chats:
        check_conversation(chat["messages"])
