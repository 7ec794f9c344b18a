"""Records made by hand, where a test needs many or odd ones; the lines are those of the real writer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from coder.history.sinks import encode
from coder.protocol import entries
from coder.protocol.history import HistoryEvent
from coder.protocol.messages import Tokens

START = "2026-03-01T09:00:00.000Z"


def event(kind: str, entry: entries.Entry, content: str = "", *, turn: int = 1, ts: str = START) -> bytes:
    meta = msgspec.to_builtins(entry)
    role = "user" if kind == "turn_start" else None
    line = HistoryEvent(ts=ts, session_id="s", type=kind, turn=turn, content=content, role=role, meta=meta)
    return encode(line) + b"\n"


def turn_of(asked: str, answer: str, turn: int = 1, output: str = "") -> bytes:
    tokens = Tokens(prompt=10, completion=5, total=15)
    start = entries.TurnStart(prompt_id="p", tokens=entries.PromptTokens(prompt=3))
    lines = [event("turn_start", start, asked, turn=turn)]
    if output:
        action = entries.Action(tool="bash", input={"command": "cat notes"}, call_id=f"c{turn}")
        seen = entries.Observation(tool="bash", call_id=f"c{turn}", ok=True, denied=False)
        lines += [event("action", action, turn=turn), event("observation", seen, output, turn=turn)]
    lines.append(event("assistant", entries.Assistant(tokens=tokens, model="m"), answer, turn=turn))
    end = entries.TurnEnd(status="ok", step_count=1, tokens=tokens, verification=entries.Verification())
    return b"".join([*lines, event("turn_end", end, turn=turn)])


def write(directory: Path, name: str, turns: Iterable[bytes]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.jsonl"
    path.write_bytes(b"".join(turns))
    return path
