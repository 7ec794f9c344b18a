"""Compaction: when, where the cut is, what is kept, and what happens when the summary fails."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from coder.context.compaction import cut_point
from coder.history.log import read_log
from coder.history.replay import replay
from coder.protocol.events import ChatCompressed, CommandDone, Notice, TurnEnded
from coder.protocol.messages import Message, tool_call, tool_message
from kit.driving import Project, of, play

LONG = " ".join(f"w{n}" for n in range(900))  # about 2,000 tokens, no two alike


def without_todos(project: Project, **sections: Any) -> None:
    project.configure(workflow={"require_todo_for_complex": False}, **sections)


def test_past_the_threshold_older_history_becomes_a_summary(project: Project) -> None:
    without_todos(project, runtime={"context_window": 7000})
    script = [{"text": LONG}, {"text": LONG}, {"text": "## Goal\nshort"}, {"text": "fine"}]
    driver = play(project, script, ["first", "second", "third"])
    (event,) = of(driver.seen, ChatCompressed)
    assert event.tokens_after < event.tokens_before
    summary_request, after = driver.chats[2], driver.chats[3]
    assert "tools" not in summary_request
    assert LONG[:1000] in summary_request["messages"][1]["content"]
    roles = [m["role"] for m in after["messages"]]
    assert roles[0] == "system"
    assert "## Goal" in after["messages"][1]["content"]
    assert after["messages"][-1]["content"].startswith("third")
    assert LONG not in "".join(m["content"] for m in after["messages"][:2])
    # resuming gives the same messages as were in memory
    state = replay(read_log(project.logs()[0]))
    assert [m.content for m in state.messages[:-1]] == [m["content"] for m in after["messages"]]


def test_off_by_configuration(project: Project) -> None:
    without_todos(project, runtime={"context_window": 7000}, compaction={"auto": False})
    driver = play(project, [{"text": LONG}, {"text": LONG}, {"text": "fine"}], ["a", "b", "c"])
    assert of(driver.seen, ChatCompressed) == []


def test_a_longer_summary_is_dropped_and_not_tried_again(project: Project) -> None:
    without_todos(project, runtime={"context_window": 8000})
    longer = {"text": LONG * 4}
    script = [{"text": LONG}, {"text": LONG}, longer, {"text": "c"}, {"text": "d"}, {"text": "short"}]
    driver = play(project, script, ["a", "b", "c", "d", "/compact"])
    warned = [e.text for e in of(driver.seen, Notice) if "no shorter" in e.text]
    assert len(warned) == 1  # latched: the turn after it does not try again
    assert len(of(driver.seen, ChatCompressed)) == 1  # forced, it does
    assert [e.status for e in of(driver.seen, TurnEnded)] == ["ok"] * 4


def test_a_summariser_that_fails_does_not_end_the_turn(project: Project) -> None:
    without_todos(project, runtime={"context_window": 7000})
    broken = {"status": 400, "body": {"error": {"message": "no"}}}
    driver = play(project, [{"text": LONG}, {"text": LONG}, broken, {"text": "fine"}], ["a", "b", "c"])
    assert of(driver.seen, TurnEnded)[-1].text == "fine"


def test_forced_compaction_shows_the_summary(project: Project) -> None:
    driver = play(project, [{"text": LONG}, {"text": "a brief summary"}], ["a", "/compact"])
    assert "a brief summary" in of(driver.seen, CommandDone)[0].text
    assert project.of_type("compaction")[0]["meta"]["forced"] is True


def test_forced_and_longer_is_said_and_nothing_is_lost(project: Project) -> None:
    driver = play(project, [{"text": LONG}, {"text": LONG * 4}, {"text": "b"}], ["a", "/compact", "next"])
    (answer,) = of(driver.seen, CommandDone)
    assert not answer.ok
    assert "no shorter" in answer.text
    assert of(driver.seen, Notice) == []
    assert driver.chats[-1]["messages"][2]["content"] == LONG


def test_nothing_to_compact_is_said(project: Project) -> None:
    driver = play(project, [], ["/compact"])
    assert "nothing to compact" in of(driver.seen, CommandDone)[0].text
    assert driver.chats == []


def conversation(shape: list[int]) -> list[Message]:
    """A system message, then for each number a user message and an answer with that many calls."""
    messages = [Message(role="system", content="s")]
    for turn, calls in enumerate(shape):
        asked = [tool_call(f"{turn}.{n}", "read", "{}") for n in range(calls)]
        messages.append(Message(role="user", content="u"))
        messages.append(Message(role="assistant", content="a", tool_calls=asked))
        messages += [tool_message(call, "r") for call in asked]
    return messages


@given(st.lists(st.integers(0, 4), max_size=12), st.data(), st.floats(0, 0.99))
def test_a_cut_never_splits_a_call_from_its_answer(
    shape: list[int], data: st.DataObject, keep: float
) -> None:
    messages = conversation(shape)
    sizes = data.draw(st.lists(st.integers(1, 100), min_size=len(messages), max_size=len(messages)))
    room = sum(sizes[1:]) * keep
    at = cut_point(messages, sizes, room)
    kept = messages[at:]
    asked = {c.id for m in kept for c in m.tool_calls}
    assert all(m.tool_call_id in asked for m in kept if m.role == "tool")
    if at:
        assert at > 1  # something besides the system message is summarised
        assert sum(sizes[at:]) <= room + 1e-9
