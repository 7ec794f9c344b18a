"""The engine, attacked: each test is a rule that it breaks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

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
from coder.record.files import RecordError
from coder.record.sinks import JsonlHistorySink, LegacyXmlSink
from kit import ScriptedServer
from kit.calls import bash, read
from kit.driving import Answerer, Driver, Project, left_running, of


def yes(asked: ApprovalRequested) -> ApprovalReply:
    return ApprovalReply(asked.approval_id, "yes")


def always(asked: ApprovalRequested) -> ApprovalReply:
    return ApprovalReply(asked.approval_id, "always")


def played(
    project: Project,
    script: Sequence[Any],
    inputs: Sequence[str],
    *,
    answer: Answerer | None = None,
    resume: str | None = None,
    **options: Any,
) -> Driver:
    async def run(url: str) -> Driver:
        driver = Driver(project, url, **options)
        driver.start(resume)
        for text in inputs:
            await driver.send(text, answer)
        await driver.close()
        return driver

    with ScriptedServer(script) as server:
        driver = asyncio.run(run(server.url))
        driver.chats = server.chats
    return driver


def faults(messages: list[dict[str, Any]]) -> list[str]:
    """Calls without an answer, and answers without a call: what a provider refuses a request for."""
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
    """The id of a session whose process ended while it waited for a person."""

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
    """SPEC §4: `--resume` … offers a pending approval again; DESIGN: no orphan tool call. `/resume ID` sets
    `session.pending`, but only `Engine._work` at start looks at it: the call stays unanswered and the next
    request carries it as an orphan (engine/commands/table.py `_resume`, engine/engine.py `_work`)."""
    session = cut_off_at_an_approval(project)
    script = [{"text": "one"}, {"text": "two"}, {"text": "three"}]
    driver = played(project, script, [f"/resume {session}", "go on"], answer=yes, can_ask=True)
    assert [fault for chat in driver.chats for fault in faults(chat["messages"])] == []
    assert of(driver.seen, ApprovalRequested)


@pytest.mark.parametrize("good_before", [0, 1])
def test_no_orphan_call_after_the_record_failed(
    project: Project, monkeypatch: pytest.MonkeyPatch, good_before: int
) -> None:
    """Issue: "no orphan tool call left", full disk: "nothing lost". When an observation cannot be
    appended, `run_calls` tries to record it again in its handler, raises again, and the conversation
    keeps calls without answers (or, with a good one before, answers twice): every later request is
    refused by the provider. (engine/calls.py `run_calls`, `_record`; engine/session.py
    `add_observation`)"""
    real = JsonlHistorySink.append
    seen = 0

    def full_disk_for_a_while(self: JsonlHistorySink, event: HistoryEvent) -> None:
        nonlocal seen
        if event.type == "observation":
            seen += 1
            if good_before < seen <= good_before + 3:
                raise RecordError("record.full")
        real(self, event)

    monkeypatch.setattr(JsonlHistorySink, "append", full_disk_for_a_while)
    project.write("a", "x\n")
    project.write("b", "x\n")
    script = [{"calls": [read("a"), read("b")]}, {"text": "one"}, {"text": "two"}]
    driver = played(project, script, ["go", "again, the disk has room now"])
    assert len(driver.chats) > 1
    assert [fault for chat in driver.chats for fault in faults(chat["messages"])] == []


def test_a_plugged_in_sink_survives_a_new_session(project: Project, tmp_path: Path) -> None:
    """SPEC §3: history sinks are pluggable. `/new` and `/resume` close the old session, `SessionLog.close`
    closes the agent's shared sinks with it, and the next event raises into the engine: the turn dies as an
    internal error. (engine/session.py `close`, engine/commands/table.py `_new`)"""
    sink = LegacyXmlSink(tmp_path / "history.xml")
    driver = played(project, [{"text": "one"}, {"text": "two"}], ["hi", "/new", "there"], sinks=[sink])
    assert [event.text for event in of(driver.seen, Failed)] == []
    assert [event.status for event in of(driver.seen, TurnEnded)] == ["ok", "ok"]


def test_a_cancel_that_follows_its_input_at_once_is_not_lost(project: Project) -> None:
    """Seed 001 §11: Esc ends what runs. Ops are taken in order, but `Engine.submit` drops a `Cancel`
    while the input before it still waits in the queue (`_running` is None until the worker wakes)."""

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
    """Seed 001 §3 and `run_turn`'s own word ("whatever happens, the turn ends recorded and answered"):
    `Allowlist.add` raises `ConfigError` on a full or read-only home, `ask_person` lets it through, and the
    turn dies as an internal error without `turn_end`, the command the person approved not run.
    (engine/approval.py line 65; engine/turn.py `_to_the_end` ends no turn on other exceptions)"""
    (project.home / ".coder").mkdir()
    (project.home / ".coder" / "projects").write_text("in the way", encoding="utf-8")
    script = [{"calls": [bash("touch made")]}, {"text": "done"}]
    driver = played(project, script, ["go"], answer=always, can_ask=True)
    assert [event.status for event in of(driver.seen, TurnEnded)] == ["ok"]
    assert (project.cwd / "made").exists()


def test_a_fault_inside_still_ends_the_turn_in_the_record(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SPEC §4: a turn has its `turn_end` with a status. An exception that is no Cancelled/Model/RecordError
    leaves `_to_the_end` (engine/turn.py) without `_end`: no `turn_end`, no snapshot, no `TurnEnded`."""

    async def broken(*_: object) -> bool:
        raise ValueError("a defect")

    monkeypatch.setattr("coder.engine.turn.verify_edits", broken)
    driver = played(project, [{"text": "one"}], ["go"])
    assert [event.status for event in of(driver.seen, TurnEnded)] == ["error"]
    assert [event["meta"]["status"] for event in project.of_type("turn_end")] == ["error"]
    (report,) = (project.home / ".coder" / "crashes").iterdir()  # it may quote anything
    assert (report.stat().st_mode & 0o777, report.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_not_interactive_means_that_no_question_is_put(project: Project) -> None:
    """SPEC §1.3, seed 000 §5: with `approval.interactive=false` nothing waits on a person. The loop guard's
    question does (engine/guards.py `loop` looks at `can_ask` alone)."""
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
    """SPEC §2 `runtime.context_window`: "else what is known of the model". `/model` (engine/commands/table.py
    `_model`) keeps window and tokenizer of the model before: compaction and limits go by the wrong figure."""
    driver = played(project, [], ["/model gpt-4"])
    state: StateChanged = of(driver.seen, StateChanged)[-1]
    assert (state.model, state.context_window) == ("gpt-4", 8_192)


def test_a_cancelled_bang_command_is_recorded(project: Project) -> None:
    """Seed 000 §3 / 001 §11: a `!` command's result becomes part of the session, and a cancel keeps what
    was done. `run_bang_command` (engine/bang.py) records only after the end, so that a cancelled one,
    side effects and output included, leaves no trace in record or conversation."""

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
    """The tool's own description ("nothing it starts outlives it") and process/run.py ("no process left
    behind"): a child that made itself a session of its own is not in the group that `end_group` ends."""
    line = "setsid sleep 3003.5 >/dev/null 2>&1 & sleep 0.1"
    played(project, [{"calls": [bash(line)]}, {"text": "done"}], ["go"], mode="yolo")
    assert left_running("3003.5") == []
