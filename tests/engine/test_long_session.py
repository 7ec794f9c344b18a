"""Hundreds of steps in a small window: never over it, no orphan pair, the action log complete."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from coder.context.action_log import ActionLog
from coder.context.conversation import Conversation, TokenCounter
from coder.history.log import read_log
from coder.protocol.events import ChatCompressed, TurnEnded
from coder.protocol.messages import Message, ToolSpec
from kit import ScriptedServer
from kit.driving import Project, drive, of

WINDOW = 12_000
TURNS = 6
STEPS = 40


def answers() -> Any:
    """Each turn reads files and runs commands, a little different each time; some of it fails."""
    for turn in range(TURNS):
        for step in range(STEPS):
            n = turn * STEPS + step
            if step % 3 == 0:
                yield {"calls": [{"name": "read", "arguments": {"path": f"f{n % 50}.txt"}}]}
            elif step % 3 == 1:
                yield {"calls": [{"name": "bash", "arguments": {"command": f"echo {n}; exit {n % 2}"}}]}
            else:
                yield {
                    "text": f"Step {n}: " + " ".join(f"v{n}x{k}" for k in range(60)),
                    "calls": [{"name": "read", "arguments": {"path": f"missing{n}"}}],
                }
        yield {"text": f"turn {turn} done"}


@pytest.mark.thorough
def test_hundreds_of_steps(project: Project) -> None:
    project.configure(
        runtime={"context_window": WINDOW, "max_steps": 500}, workflow={"require_todo_for_complex": False}
    )
    for n in range(50):
        project.write(f"f{n}.txt", "\n".join(f"{n} line {k}" for k in range(60)))
    script = answers()

    def next_answer(request: dict[str, Any]) -> dict[str, Any]:
        if "tools" not in request:  # the summariser
            return {"text": "## Goal\nkeep going\n## Next steps\nmore of the same"}
        answer: dict[str, Any] = next(script)
        return answer

    with ScriptedServer([next_answer] * 1000) as server:
        driver = drive(project, server.url, [f"turn {n}" for n in range(TURNS)], mode="yolo")
        chats = server.chats
    assert [e.status for e in of(driver.seen, TurnEnded)] == ["ok"] * TURNS
    assert len(of(driver.seen, ChatCompressed)) >= 5
    counter = TokenCounter("o200k_base")
    for chat in chats:
        assert prompt_tokens(counter, chat) <= WINDOW
        assert_pairs(chat["messages"])
    action_log = ActionLog()
    for event in read_log(project.logs()[0]):
        action_log.take(event)
    whole = action_log.whole_text()
    assert driver.engine.agent.session.action_log.whole_text() == whole
    assert all(f"f{n}.txt" in whole for n in range(50))
    assert all(f"echo {n}; exit {n % 2} → exit {n % 2}" in whole for n in range(240) if n % STEPS % 3 == 1)
    assert len(action_log.failures) == sum(n % STEPS % 3 == 2 for n in range(TURNS * STEPS))


def prompt_tokens(counter: TokenCounter, chat: dict[str, Any]) -> int:
    conversation = Conversation(counter, msgspec.convert(chat.get("tools", []), list[ToolSpec]))
    conversation.replace(msgspec.convert(chat["messages"], list[Message]))
    return conversation.tokens()


def assert_pairs(messages: list[dict[str, Any]]) -> None:
    """Every call is answered right after it, and every answer has its call."""
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] in open_calls
            open_calls.remove(message["tool_call_id"])
        else:
            assert open_calls == []
            open_calls = [c["id"] for c in message.get("tool_calls", [])]
    assert open_calls == []
