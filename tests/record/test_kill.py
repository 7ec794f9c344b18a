"""After a kill at any byte the log alone gives the session back (SPEC §4)."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import time
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from coder.history.log import read_log
from coder.history.replay import replay
from coder.history.sinks import JsonlHistorySink
from coder.protocol.events import ApprovalRequested
from coder.protocol.history import INTERRUPTED, HistoryEvent
from coder.protocol.messages import Message
from coder.protocol.ops import ApprovalReply
from kit import ScriptedServer
from kit.calls import call
from kit.driving import Driver, Project
from kit.validity import check_conversation

TODOS = [
    {"id": "1", "content": "看", "status": "completed"},
    {"id": "2", "content": "do", "status": "in_progress"},
]
SCRIPT: list[dict[str, Any]] = [
    {"reasoning": "先看看", "text": "Looking… 看一看", "calls": [call("read", path="a.txt"), call("list")]},
    {"calls": [call("todowrite", todos=TODOS), call("write", path="b.txt", content="b\n")]},
    {"text": "This was cut", "finish": "length"},
    {"text": "off, and now it is whole."},
    {"calls": [call("write", path="c.txt", content="c\n"), call("bash", command="echo \\u0000; exit 3")]},
    {"calls": [call("nonsense"), {"name": "read", "arguments": '{"path": '}]},
    {"text": "Done. 完成。"},
    {"status": 401, "body": {"error": {"message": "no"}}},
    {"text": "## Goal\nnone"},
    {"text": "After the summary."},
]
FIRST = "1. read a.txt 2. write b.txt"
INPUTS = [
    FIRST,
    "!echo bang",
    "write c.txt",
    "/undo",
    "fail",
    "/compact",
    "and now?",
]


class Rich:
    """A session with everything in it: its log, and what it was when it ended."""

    def __init__(self) -> None:
        with TemporaryDirectory() as directory, ScriptedServer(SCRIPT) as server:
            project = Project(Path(directory))
            project.write("a.txt", "hello\n" * 40)
            session = asyncio.run(self._played(project, server.url))
            (path,) = project.logs()
            self.id = path.stem
            self.log = path.read_bytes()
            self.messages: list[Message] = session.conversation.messages
            self.usage = session.meter.usage
            self.todos = [todo.content for todo in session.context.todos]
            self.snapshot = project.snapshot()
        self.events = [json.loads(line) for line in self.log.splitlines()]

    @staticmethod
    async def _played(project: Project, url: str) -> Any:
        driver = Driver(project, url, can_ask=True)
        driver.start()

        def answer(event: ApprovalRequested) -> ApprovalReply:
            fails = "exit 3" in str(event.subject)
            return ApprovalReply(event.approval_id, "no" if fails else "yes", "not that")

        for text in INPUTS:
            await driver.send(text, answer)
        await driver.close()
        return driver.engine.agent.session


@cache
def rich() -> Rich:
    return Rich()


@pytest.fixture
def session() -> Rich:
    return rich()


@pytest.mark.thorough
def test_the_session_has_everything_in_it(session: Rich) -> None:
    kinds = {event["type"] for event in session.events}
    assert kinds >= {
        *("session_start", "turn_start", "assistant", "action", "observation", "final", "turn_end"),
        *("approval", "note", "command", "undo", "compaction", "session_end"),
    }


def test_the_whole_log_gives_back_what_was(session: Rich, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(session.log)
    state = replay(read_log(path))
    assert state.messages == session.messages
    assert (state.usage.prompt, state.usage.total) == (session.usage.prompt, session.usage.total)
    assert [todo["content"] for todo in state.todos] == session.todos
    assert (state.session_id, state.title) == (session.id, FIRST)
    assert (state.turn, state.turn_open, state.unanswered) == (4, False, [])


@pytest.mark.thorough
def test_a_log_cut_at_any_byte_is_read_up_to_its_last_whole_line(session: Rich, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(session.log)
    states: dict[int, list[Message]] = {}
    with path.open("r+b") as file:
        for size in range(len(session.log), -1, -1):
            file.truncate(size)
            events = list(read_log(path))
            assert len(events) == session.log.count(b"\n", 0, size)
            if len(events) not in states:  # the state is that of the events, wherever in the line the cut is
                states[len(events)] = check_state(events)
    assert len(states) == len(session.events) + 1


def check_state(events: list[HistoryEvent]) -> list[Message]:
    state = replay(events)
    open_calls = state.unanswered
    before = len(state.messages)
    made_up = state.close_open_calls()
    assert [message.content for message in made_up] == [INTERRUPTED] * len(open_calls)
    assert state.messages[before:] == made_up
    if events:
        check_conversation(state.messages)
    said = {event.content for event in events if event.type in ("turn_start", "assistant", "observation")}
    if not any(event.type == "compaction" for event in events):
        sent = "\0".join(message.content for message in state.messages)
        assert all(text in sent for text in said)
    return state.messages


def test_a_torn_log_is_mended_before_it_is_written_to(session: Rich, tmp_path: Path) -> None:
    event = next(read_log_of(session, tmp_path))
    ends = [at + 1 for at, byte in enumerate(session.log) if byte == 10]
    path = tmp_path / "torn.jsonl"
    for at in random.Random(7).sample(range(len(session.log)), 150):
        path.write_bytes(session.log[:at])
        sink = JsonlHistorySink(path)
        sink.append(event)
        sink.close()
        whole = max((end for end in ends if end <= at), default=0)
        data = path.read_bytes()
        assert data[:whole] == session.log[:whole]
        assert data[whole:].count(b"\n") == 1
        assert json.loads(data[whole:])["type"] == "session_start"


def read_log_of(session: Rich, directory: Path) -> Any:
    path = directory / "whole.jsonl"
    path.write_bytes(session.log)
    return read_log(path)


def cuts(session: Rich) -> list[int]:
    """Offsets for the real process: within the lines that matter most, and anywhere."""
    chosen, at = [], 0
    wanted = {"assistant", "action", "approval", "compaction"}
    for line in session.log.splitlines(keepends=True):
        at += len(line)
        kind = json.loads(line)["type"]
        if kind in wanted:
            wanted.discard(kind)
            chosen += [at, at + 10]
    return [*chosen, *random.Random(3).sample(range(len(session.log) // 4, len(session.log)), 3)]


@pytest.mark.parametrize("number", range(11))
def test_resuming_a_cut_log_sends_a_valid_request(project: Project, session: Rich, number: int) -> None:
    at = cuts(session)[number]
    path = project.write(f".coder/history/{session.id}.jsonl", session.log[:at])
    project.write("a.txt", "hello\n")
    with ScriptedServer([{"text": "Back again."}]) as server:
        done = project.coder("--resume", session.id, "--once", "where were we?", url=server.url)
        (request,) = server.chats
    assert (done.returncode, done.stdout) == (0, "Back again.\n")
    check_conversation(request["messages"])
    assert request["messages"][-1]["content"].startswith("where were we?")
    whole = session.log[: session.log.rfind(b"\n", 0, at) + 1]
    assert path.read_bytes().startswith(whole)
    events = project.events()
    assert events[-1]["type"] == "session_end"
    starts = [e["turn"] for e in events if e["type"] == "turn_start"]
    assert starts == sorted(set(starts))
    ended = [e["turn"] for e in events if e["type"] == "turn_end"]
    assert set(starts) <= set(ended)  # the turn that was cut off has its end as well
    check_conversation(project.snapshot()["messages"])


@pytest.mark.parametrize("seed", range(6))
def test_kill_9_at_any_moment(project: Project, seed: int) -> None:
    chance = random.Random(seed)
    step = {"text": "step " * 20, "calls": [call("bash", command="sleep 0.01"), call("list")], "delay": 0.002}
    with ScriptedServer([step] * 400) as server:
        process = project.started("--mode", "yolo", "--once", "go on for ever", url=server.url)
        try:
            deadline = time.monotonic() + 60
            while not project.logs() and time.monotonic() < deadline:
                time.sleep(0.005)
            time.sleep(chance.uniform(0, 0.8))
        finally:
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=60)
    before = project.logs()[0].read_bytes()
    with ScriptedServer([{"text": "alive"}]) as server:
        done = project.coder("--continue", "--once", "still there?", url=server.url)
        assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr
        check_conversation(server.chats[0]["messages"])
    after = project.logs()[0].read_bytes()
    assert after.startswith(before[: before.rfind(b"\n") + 1])
    recorded = [json.loads(line) for line in after.splitlines()]
    answered = [e["meta"]["call_id"] for e in recorded if e["type"] == "observation"]
    asked = [c["id"] for e in recorded for c in e["meta"].get("tool_calls", []) if e["type"] == "assistant"]
    assert sorted(answered) == sorted(asked)
