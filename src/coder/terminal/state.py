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
    Content,
    InputDone,
    Notice,
    SessionStarted,
    StateChanged,
    Thought,
    ToolCallChanged,
    TurnEnded,
    VerifyChanged,
)
from coder.protocol.modes import ModeStateChanged
from coder.terminal.render.sanitize import safe
from coder.terminal.render.width import Line

Phase = Literal["idle", "running", "stopping"]


class Talk(msgspec.Struct):
    """Changed by `follow` alone, but for the queue, which is the editor's."""

    model: str
    mode: str
    tokens: int = 0
    cost_usd: float = 0.0
    budget_usd: float | None = None
    phase: Phase = "idle"
    since: float = 0.0  # when the input was sent, moved on by as long as questions waited
    asked: float = 0.0  # when the approval was asked for
    agreed: dict[str, str] = {}  # calls of this input that a person was shown, and what of them
    calls: dict[str, str] = {}
    verifying: str = ""
    approval: ApprovalRequested | None = None
    queue: list[str] = []
    cancelled: bool = False  # the input that has just ended was cancelled
    session_id: str = ""
    doing: str = "terminal.waiting"  # what the model is at, as a text's key
    sent: bool = False  # an input of the person's is under way
    mode_model: str = ""  # what the custom modes that are on ask for
    effort: str = ""

    @property
    def busy(self) -> bool:
        return self.phase != "idle" or self.approval is not None


def begin(talk: Talk) -> None:
    """An input was sent."""
    talk.phase, talk.since, talk.cancelled, talk.sent = "running", time.monotonic(), False, True
    talk.doing = "terminal.waiting"


def follow(talk: Talk, event: AnyEvent) -> None:
    match event:
        case StateChanged():
            talk.model, talk.mode, talk.tokens = event.model, event.mode, event.context_tokens
            talk.cost_usd, talk.budget_usd = event.cost_usd, event.budget_usd
        case SessionStarted():
            talk.session_id, talk.model, talk.mode = event.session_id, event.model, event.mode
            talk.mode_model = talk.effort = ""
        case Notice(in_answer=True):
            talk.doing = "terminal.catching_up"
        case Thought() | Content():
            talk.doing = "terminal.thinking" if isinstance(event, Thought) else "terminal.writing"
        case ToolCallChanged():
            _called(talk, event)
        case VerifyChanged(state, command):
            talk.verifying = safe(command) if state == "started" else ""
        case ApprovalRequested():
            talk.approval, talk.asked = event, time.monotonic()
            talk.agreed[event.call_id] = event.subject
        case ApprovalResolved() if talk.approval is not None:
            talk.since += time.monotonic() - talk.asked  # the person's time, not the turn's
            talk.approval = None
        case TurnEnded(status=status):
            talk.cancelled = status == "cancelled"
        case CommandDone("", ok=False):
            talk.cancelled = True
        case InputDone() | ModeStateChanged():
            _done(talk, event)


def _called(talk: Talk, event: ToolCallChanged) -> None:
    talk.doing = "terminal.waiting"
    if event.state == "executing":
        talk.calls[event.call_id] = f"{safe(event.tool)} {safe(event.argument)}".rstrip()
    elif event.state != "scheduled":
        talk.calls.pop(event.call_id, None)


def _done(talk: Talk, event: InputDone | ModeStateChanged) -> None:
    if isinstance(event, ModeStateChanged):
        talk.mode_model, talk.effort = event.model or "", event.reasoning_effort or ""
        return
    if event.op == "list_custom_modes":
        return  # it went on beside whatever else is under way
    if event.op == "set_mode_state":
        talk.approval = None  # a mode's command may have asked
        talk.phase = "running" if talk.sent else "idle"
        return
    talk.sent = False
    talk.phase, talk.verifying, talk.approval = "idle", "", None
    talk.calls.clear()
    talk.agreed.clear()


def without_seen_diff(talk: Talk, event: ToolCallChanged) -> ToolCallChanged:
    """A change that stands in full above, in the question about it, is not shown a second time."""
    if event.detail_kind != "diff" or not _is_beginning(event.detail, talk.agreed.get(event.call_id, "")):
        return event
    return msgspec.structs.replace(event, detail="", detail_kind="")


def _is_beginning(detail: str, subject: str) -> bool:
    """Whether the detail is the subject, or the head of it and a line that says how much follows."""
    *lines, last = detail.split("\n")
    head = subject.split("\n")[: len(lines) + 1]
    return head[:-1] == lines and (head[-1] == last or last.startswith("… "))


def activity(talk: Talk) -> str:
    """What is running, in a few words; empty where it is the model's turn."""
    if talk.verifying:
        return talk.verifying
    return " · ".join(talk.calls.values())


def seconds(talk: Talk) -> int:
    return int(time.monotonic() - talk.since)


def context_line(talk: Talk) -> Line:
    line = f"context: {talk.tokens} tokens · model: {safe(talk.mode_model or talk.model)}"
    if talk.effort:
        line += f" · effort: {talk.effort}"
    if talk.cost_usd or talk.budget_usd is not None:
        limit = f" of {talk.budget_usd:.2f}" if talk.budget_usd is not None else ""
        line += f" · {talk.cost_usd:.4f}{limit} USD"
    return [("dim", line)]


def prompt_text(talk: Talk, cwd: str) -> str:
    return f"[{talk.mode}] {cwd}> "


def shown_folder(cwd: Path) -> str:
    home = os.path.expanduser("~")  # noqa: PTH111 - as the shell's prompt shows it, not as a path to use
    text = str(cwd)
    return safe("~" + text[len(home) :] if text == home or text.startswith(home + "/") else text)
