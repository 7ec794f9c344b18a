"""Run by the installed Python, in a process of its own: appends steps to a session, or takes one up again.

    python record_worker.py append PROJECT STEPS    → {"session", "bytes", "points": [[n, µs, bytes], …]}
    python record_worker.py resume PROJECT SESSION  → {"ms", "rss_mb", "base_rss_mb", "messages"}

The engine's own `Session` does both; only the model is missing.
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from coder.engine.agent import Agent
from coder.engine.resume import resume_session
from coder.engine.session import Session
from coder.engine.setup import Options, open_agent, provider_of, read_settings
from coder.history.replay import compacted
from coder.protocol import entries
from coder.protocol.messages import Message, Tokens, tool_call
from coder.tools.tool import ToolResult

POINTS = (10, 1_000, 10_000)
WINDOW_BYTES = 360_000  # 0.7 of 128,000 tokens, at four bytes a token
SUMMARY = "What happened so far, in short. " * 60
AROUND = 9  # steps on either side of a point; the median of them stands for it
OUTPUT = "".join(f"line {n}: something that a command has printed\n" for n in range(20))


def agent(project: Path) -> Agent:
    environ = {
        "HOME": str(project),
        "CODER_HOME": str(project / "home"),
        "CODER_BASE_URL": "http://127.0.0.1:9",
    }
    options = Options(cwd=project, environ={**environ, "CODER_MODEL": "scripted"})
    settings = read_settings(options)
    return open_agent(options, settings, provider_of(options, settings), lambda _event: None)


def step(session: Session, number: int) -> None:
    """What one step leaves behind: an answer with a call, the call, its result."""
    session.log.step = number
    call = tool_call(f"call_{number}", "bash", '{"command": "make check"}')
    entry = entries.Assistant(tokens=Tokens(1000, 10, 1010), finish_reason="tool_calls")
    session.history.add_assistant(Message(role="assistant", content="Next.", tool_calls=[call]), entry)
    session.history.add_action(call, {"command": "make check"})
    session.history.add_observation(call, ToolResult(for_model=OUTPUT, summary="ok", meta={"exit_code": 0}))


def compact(session: Session) -> None:
    """As the engine does once a prompt has passed its share of the window."""
    messages = session.conversation.messages
    if session.conversation.bytes < WINDOW_BYTES:
        return
    kept = len(messages) * 3 // 20 * 2  # the newest three tenths, in pairs of a call and its answer
    session.log.append(entries.Compaction(kept=kept, tokens_before=0, tokens_after=0), SUMMARY)
    session.conversation.replace(compacted(messages, SUMMARY, kept))


def append(project: Path, steps: int) -> dict[str, Any]:
    session = Session.new(agent(project))
    session.log.turn = 1
    entry = entries.TurnStart(prompt_id="", tokens=entries.PromptTokens(prompt=4))
    session.history.add_user("do all of it", entry)
    log = session.agent.place.store.log_path(session.id)
    times: list[float] = []
    sizes: list[int] = [log.stat().st_size]
    for number in range(1, steps + 1):
        begun = time.perf_counter()
        step(session, number)
        times.append((time.perf_counter() - begun) * 1e6)
        compact(session)
        sizes.append(log.stat().st_size)
    checks = entries.Verification()
    end = entries.TurnEnd(status="ok", step_count=steps, tokens=Tokens(0, 0, 0), verification=checks)
    session.log.append(end)
    session.close()
    points = []
    for at in (point for point in POINTS if point <= steps):
        near = times[max(0, at - AROUND - 1) : at + AROUND]
        points.append([at, statistics.median(near), sizes[at] - sizes[at - 1]])
    return {"session": session.id, "bytes": sizes[-1], "points": points}


def resume(project: Path, session_id: str) -> dict[str, Any]:
    at = agent(project)
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    begun = time.perf_counter()
    session = resume_session(at, session_id)
    took = (time.perf_counter() - begun) * 1000
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    count = len(session.conversation.messages)
    session.close()
    return {"ms": took, "rss_mb": rss, "base_rss_mb": base, "messages": count}


if __name__ == "__main__":
    what, directory, value = sys.argv[1:]
    result = append(Path(directory), int(value)) if what == "append" else resume(Path(directory), value)
    print(json.dumps(result))
