"""What is going on between the person and the engine, as far as the prompt must know it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Literal

import msgspec

from coder.protocol.events import (
    AnyEvent,
    ApprovalRequested,
    ApprovalResolved,
    CommandDone,
    InputDone,
    SessionStarted,
    StateChanged,
    ToolCallChanged,
    TurnEnded,
    VerifyChanged,
)
from coder.terminal.safe import safe

Phase = Literal["idle", "running", "stopping"]


class Talk(msgspec.Struct):
    """Changed by `follow` alone, but for the queue, which is the editor's."""

    model: str
    mode: str
    tokens: int = 0
    cost_usd: float = 0.0
    budget_usd: float | None = None
    phase: Phase = "idle"
    since: float = 0.0
    calls: dict[str, str] = {}
    verifying: str = ""
    approval: ApprovalRequested | None = None
    queue: list[str] = []
    cancelled: bool = False  # the input that has just ended was cancelled
    session_id: str = ""

    @property
    def busy(self) -> bool:
        return self.phase != "idle"


def begin(talk: Talk) -> None:
    """An input was sent."""
    talk.phase, talk.since, talk.cancelled = "running", time.monotonic(), False


def follow(talk: Talk, event: AnyEvent) -> None:
    match event:
        case StateChanged():
            talk.model, talk.mode, talk.tokens = event.model, event.mode, event.context_tokens
            talk.cost_usd, talk.budget_usd = event.cost_usd, event.budget_usd
        case SessionStarted():
            talk.session_id, talk.model, talk.mode = event.session_id, event.model, event.mode
        case ToolCallChanged(call_id, tool, state, argument):
            if state == "executing":
                talk.calls[call_id] = f"{safe(tool)} {safe(argument)}".rstrip()
            elif state != "scheduled":
                talk.calls.pop(call_id, None)
        case VerifyChanged(state, command):
            talk.verifying = safe(command) if state == "started" else ""
        case ApprovalRequested():
            talk.approval = event
        case ApprovalResolved():
            talk.approval = None
        case TurnEnded(status=status):
            talk.cancelled = status == "cancelled"
        case CommandDone("", ok=False):
            talk.cancelled = True
        case InputDone():
            talk.phase, talk.verifying, talk.approval = "idle", "", None
            talk.calls.clear()
        case _:
            pass


def activity(talk: Talk) -> str:
    """What is running, in a few words; empty where the model is being waited for."""
    if talk.verifying:
        return talk.verifying
    return " · ".join(talk.calls.values())


def seconds(talk: Talk) -> int:
    return int(time.monotonic() - talk.since)


def shown_folder(cwd: Path) -> str:
    home = os.path.expanduser("~")  # noqa: PTH111 - as the shell's prompt shows it, not as a path to use
    text = str(cwd)
    return safe("~" + text[len(home) :] if text == home or text.startswith(home + "/") else text)
