"""Two thousand steps in a 32k window: does a step cost the same at the end, and does the prompt outgrow it?

    ./dev bench long    prints a table and writes bench/LONG_SESSION.md

The engine runs in this process against the scripted model on the loopback; each step reads a file, runs a
command or fails, as a session would. Time is that of the processor, the server's share included: what
else the machine does at the moment does not show in it.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from coder.context.action_log import ActionLog
from coder.context.conversation import Conversation, TokenCounter
from coder.engine.sdk import create_agent_session
from coder.history.log import read_log
from coder.models.scripted import ScriptedServer
from coder.protocol.history import HistoryEvent
from coder.protocol.messages import Message, ToolSpec

WINDOW = 32_000
TURNS = 20
STEPS = 100


def answers() -> Iterator[dict[str, Any]]:
    for turn in range(TURNS):
        for step in range(STEPS):
            n = turn * STEPS + step
            if step % 3 == 0:
                yield {"calls": [{"name": "read", "arguments": {"path": f"f{n % 200}.txt"}}]}
            elif step % 3 == 1:
                yield {"calls": [{"name": "bash", "arguments": {"command": f"echo {n}"}}]}
            else:
                text = f"Step {n}: " + " ".join(f"v{n}x{k}" for k in range(60))
                yield {"text": text, "calls": [{"name": "read", "arguments": {"path": f"missing{n}"}}]}
        yield {"text": f"turn {turn} done"}


async def play(directory: Path) -> tuple[list[Any], list[float]]:
    """The requests, and the processor seconds of this process as each request of the loop came."""
    script = answers()
    marks: list[float] = []

    def next_answer(request: dict[str, Any]) -> dict[str, Any]:
        if "tools" not in request:
            return {"text": "## Goal\nkeep going\n## Next steps\nmore of the same"}
        marks.append(time.process_time())
        return next(script)

    (directory / ".coder").mkdir()
    settings = {"runtime": {"context_window": WINDOW, "max_steps": STEPS + 1}}
    config = directory / "settings.json"
    config.write_bytes(msgspec.json.encode(settings))
    for n in range(200):
        (directory / f"f{n}.txt").write_text("\n".join(f"{n} line {k}" for k in range(80)), encoding="utf-8")
    async with ScriptedServer([next_answer] * 5000) as server:
        environ = {**os.environ, "CODER_BASE_URL": server.url, "CODER_HOME": str(directory / "home")}
        async with create_agent_session(
            cwd=directory, mode="yolo", model="scripted", environ=environ, config_file=config
        ) as session:
            for n in range(TURNS):
                result = await session.run_turn(f"turn {n}")
                assert result.status == "ok", result
        return list(server.requests), marks


def table(requests: list[Any], marks: list[float], directory: Path) -> str:
    chats = [r for r in requests if r.method == "POST"]
    own = [r for r in chats if "tools" in r.json]
    summaries = [r for r in chats if "tools" not in r.json]
    gaps = [(after - before) * 1000 for before, after in pairwise(marks)]
    counter = TokenCounter("o200k_base")
    sizes = [_tokens(counter, r.json) for r in own]
    (log,) = (directory / ".coder" / "history").glob("*.jsonl")
    rows = [
        ("requests of the loop / for summaries", f"{len(own)} / {len(summaries)}"),
        ("largest prompt", f"{max(sizes):,} of {WINDOW:,} tokens"),
        ("largest request for a summary", f"{max(_tokens(counter, r.json) for r in summaries):,} tokens"),
        ("calls without a result, results without a call", str(sum(_orphans(r.json) for r in chats))),
        ("entries of the record that the action log lacks", str(len(_missing(list(read_log(log)))))),
        ("CPU of a step, median of the first 200", f"{statistics.median(gaps[:200]):.1f} ms"),
        ("CPU of a step, median of the last 200", f"{statistics.median(gaps[-200:]):.1f} ms"),
        ("the same, mean with compactions, first half", f"{statistics.mean(gaps[: len(gaps) // 2]):.1f} ms"),
        ("the same, mean with compactions, second half", f"{statistics.mean(gaps[len(gaps) // 2 :]):.1f} ms"),
    ]
    head = f"# {TURNS * STEPS:,} steps in a {WINDOW:,}-token window\n\n"
    head += f"{os.cpu_count()} cores, Python {sys.version.split()[0]}; noisy machine.\n\n"
    head += "| what | figure |\n| --- | --- |\n"
    return head + "\n".join(f"| {name} | {value} |" for name, value in rows) + "\n"


def _orphans(chat: dict[str, Any]) -> int:
    """Calls and results of one request that are not a pair standing together."""
    waiting: set[str] = set()
    lost = 0
    for message in chat["messages"]:
        if message["role"] == "tool":
            lost += message["tool_call_id"] not in waiting
            waiting.discard(message["tool_call_id"])
        else:
            lost += len(waiting)
            waiting = {call["id"] for call in message.get("tool_calls", [])}
    return lost + len(waiting)


def _missing(events: list[HistoryEvent]) -> list[str]:
    """What the record says was done and the action log's text does not."""
    action_log = ActionLog()
    for event in events:
        action_log.take(event)
    text = action_log.whole_text()
    inputs = {e.meta["call_id"]: e.meta["input"] for e in events if e.type == "action"}
    missing = []
    for event in events:
        if event.type != "observation":
            continue
        given = inputs[event.meta["call_id"]]
        if event.meta["tool"] == "bash":
            line = f"- {given['command']} → exit {event.meta['exit_code']}\n"
        elif event.meta["ok"]:
            line = f"- {given['path']}\n"
        else:
            line = f"- read {given['path']}: error"
        if line not in f"{text}\n":
            missing.append(line)
    return missing


def _tokens(counter: TokenCounter, chat: dict[str, Any]) -> int:
    conversation = Conversation(counter, msgspec.convert(chat.get("tools", []), list[ToolSpec]))
    conversation.replace(msgspec.convert(chat["messages"], list[Message]))
    return conversation.tokens()


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        text = table(*asyncio.run(play(directory)), directory)
    print(text)
    Path(__file__).with_name("LONG_SESSION.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
