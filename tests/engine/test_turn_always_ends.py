"""A turn ends recorded and answered, whatever fails: resume, disk, cancel, hooks, orphan processes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from coder.history.sinks import HistoryError, JsonlHistorySink, LegacyXmlSink
from coder.protocol.events import (
    AnyEvent,
    ApprovalRequested,
    Failed,
    InputDone,
    StateChanged,
    ToolOutput,
    TurnEnded,
)
from coder.protocol.history import HistoryEvent
from coder.protocol.ops import ApprovalReply, Cancel, UserInput
from kit import ScriptedServer
from kit.calls import bash, read
from kit.driving import Driver, Project, left_running, of, play


def yes(asked: ApprovalRequested) -> ApprovalReply:
    return ApprovalReply(asked.approval_id, "yes")


def always(asked: ApprovalRequested) -> ApprovalReply:
    return ApprovalReply(asked.approval_id, "always")


def faults(messages: list[dict[str, Any]]) -> list[str]:
    """Calls without a result, and results without a call: a provider refuses such a request."""
    wrong: list[str] = []
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] in waiting:
                waiting.remove(message["tool_call_id"])
            else:
                wrong.append(f"answered twice or never asked: {message['tool_call_id']}")
            continue
        wrong += [f"not answered: {call_id}" for call_id in waiting]
        waiting = [call["id"] for call in message.get("tool_calls") or []]
    return wrong + [f"not answered: {call_id}" for call_id in waiting]


def cut_off_at_an_approval(project: Project) -> str:
    """The id of a session whose process ended while it waited for an approval."""

    async def run(url: str) -> str:
        driver = Driver(project, url, can_ask=True)
        driver.start()
        driver.engine.submit(UserInput("go"))
        async for event in driver.engine.events():
            if isinstance(event, ApprovalRequested):
                break
        session = driver.engine.agent.session
        path = driver.engine.agent.place.store.log_path(session.id)
        at_the_kill = path.read_bytes()
        await driver.close()
        path.write_bytes(at_the_kill)
        return session.id

    with ScriptedServer([{"calls": [bash("touch made")]}, {"text": "done"}]) as server:
        return asyncio.run(run(server.url))


def test_resume_by_command_offers_the_pending_approval_again(project: Project) -> None:
    """`/resume ID` offers a pending approval as `--resume` does, so that no call stays without a result."""
    session = cut_off_at_an_approval(project)
    script = [{"text": "one"}, {"text": "two"}, {"text": "three"}]
    driver = play(project, script, [f"/resume {session}", "go on"], answer=yes, can_ask=True)
    assert [fault for chat in driver.chats for fault in faults(chat["messages"])] == []
    assert of(driver.seen, ApprovalRequested)


@pytest.mark.parametrize("good_before", [0, 1])
def test_no_orphan_call_after_the_record_failed(
    project: Project, monkeypatch: pytest.MonkeyPatch, good_before: int
) -> None:
    """If a result cannot be appended (full disk), every call still has exactly one result in the
    conversation.
    """
    real = JsonlHistorySink.append
    seen = 0

    def full_disk_for_a_while(self: JsonlHistorySink, event: HistoryEvent) -> None:
        nonlocal seen
        if event.type == "observation":
            seen += 1
            if good_before < seen <= good_before + 3:
                raise HistoryError("record.full")
        real(self, event)

    monkeypatch.setattr(JsonlHistorySink, "append", full_disk_for_a_while)
    project.write("a", "x\n")
    project.write("b", "x\n")
    script = [{"calls": [read("a"), read("b")]}, {"text": "one"}, {"text": "two"}]
    driver = play(project, script, ["go", "again, the disk has room now"])
    assert len(driver.chats) > 1
    assert [fault for chat in driver.chats for fault in faults(chat["messages"])] == []


def test_a_plugged_in_sink_survives_a_new_session(project: Project, tmp_path: Path) -> None:
    """`/new` closes the session but not the agent's shared history sinks."""
    sink = LegacyXmlSink(tmp_path / "history.xml")
    driver = play(project, [{"text": "one"}, {"text": "two"}], ["hi", "/new", "there"], sinks=[sink])
    assert [event.text for event in of(driver.seen, Failed)] == []
    assert [event.status for event in of(driver.seen, TurnEnded)] == ["ok", "ok"]


def test_a_cancel_that_follows_its_input_at_once_is_not_lost(project: Project) -> None:
    """A cancel ends the input before it, even if that is still queued."""

    async def run(url: str) -> list[AnyEvent]:
        driver = Driver(project, url)
        driver.start()
        driver.engine.submit(UserInput("go"))
        driver.engine.submit(Cancel())
        events = await driver.until_idle()
        await driver.close()
        return events

    with ScriptedServer([{"text": "a long answer " * 5}]) as server:
        events = asyncio.run(run(server.url))
    assert [event.status for event in of(events, TurnEnded)] in ([], ["cancelled"])


def test_an_always_that_cannot_be_kept_does_not_end_the_turn(project: Project) -> None:
    """An allowlist that cannot be written (full or read-only home) neither ends the turn nor skips the
    command.
    """
    (project.home / ".coder").mkdir()
    (project.home / ".coder" / "projects").write_text("in the way", encoding="utf-8")
    script = [{"calls": [bash("touch made")]}, {"text": "done"}]
    driver = play(project, script, ["go"], answer=always, can_ask=True)
    assert [event.status for event in of(driver.seen, TurnEnded)] == ["ok"]
    assert (project.cwd / "made").exists()


def test_a_fault_inside_still_ends_the_turn_in_the_record(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected exception still gives `turn_end`, a snapshot and `TurnEnded`."""

    async def broken(*_: object) -> bool:
        raise ValueError("a defect")

    monkeypatch.setattr("coder.engine.continuation.wants_to_continue", broken)
    driver = play(project, [{"text": "one"}], ["go"])
    assert [event.status for event in of(driver.seen, TurnEnded)] == ["error"]
    assert [event["meta"]["status"] for event in project.of_type("turn_end")] == ["error"]
    (report,) = (project.home / ".coder" / "crashes").iterdir()  # it may quote anything
    assert (report.stat().st_mode & 0o777, report.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_not_interactive_means_that_no_question_is_put(project: Project) -> None:
    """With `approval.interactive=false` nothing waits for a person, the loop guard included."""
    project.configure(approval={"interactive": False})
    project.write("a", "x\n")

    async def run(url: str) -> AnyEvent:
        driver = Driver(project, url, can_ask=True)
        driver.start()
        driver.engine.submit(UserInput("go"))
        async for event in driver.engine.events():
            if isinstance(event, ApprovalRequested | InputDone):
                break
        await driver.close()
        return event

    with ScriptedServer([{"calls": [read("a")]}] * 40) as server:
        last = asyncio.run(run(server.url))
    assert not isinstance(last, ApprovalRequested)


def test_another_model_has_its_own_window(project: Project) -> None:
    """`/model` switches context window and tokenizer too, which compaction and limits use."""
    driver = play(project, [], ["/model gpt-4"])
    state: StateChanged = of(driver.seen, StateChanged)[-1]
    assert (state.model, state.context_window) == ("gpt-4", 8_192)


def test_a_cancelled_bang_command_is_recorded(project: Project) -> None:
    """A cancelled `!` command is recorded with its output so far."""

    async def run(url: str) -> None:
        driver = Driver(project, url)
        driver.start()
        driver.engine.submit(UserInput("!touch before; echo printed; sleep 30"))

        def watch(event: AnyEvent) -> None:
            if isinstance(event, ToolOutput):
                driver.engine.submit(Cancel())

        await driver.until_idle(watch=watch)
        await driver.send("what did I run?")
        await driver.close()

    with ScriptedServer([{"text": "hm"}]) as server:
        asyncio.run(run(server.url))
        conversation = str(server.chats[-1]["messages"])
    assert (project.cwd / "before").exists()
    assert [event["meta"]["command"] for event in project.of_type("command")]
    assert "touch before" in conversation


def test_nothing_a_command_starts_outlives_it(project: Project) -> None:
    """A child in a session of its own (setsid) is killed as well."""
    line = "setsid sleep 3003.5 >/dev/null 2>&1 & sleep 0.1"
    play(project, [{"calls": [bash(line)]}, {"text": "done"}], ["go"], mode="yolo")
    assert left_running("3003.5") == []
