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


class PromptState(msgspec.Struct):
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


def begin(state: PromptState) -> None:
    """An input was sent."""
    state.phase, state.since, state.cancelled, state.sent = "running", time.monotonic(), False, True
    state.doing = "terminal.waiting"


def follow(state: PromptState, event: AnyEvent) -> None:
    match event:
        case StateChanged():
            state.model, state.mode, state.tokens = event.model, event.mode, event.context_tokens
            state.cost_usd, state.budget_usd = event.cost_usd, event.budget_usd
        case SessionStarted():
            state.session_id, state.model, state.mode = event.session_id, event.model, event.mode
            state.mode_model = state.effort = ""
        case Notice(in_answer=True):
            state.doing = "terminal.catching_up"
        case Thought() | Content():
            state.doing = "terminal.thinking" if isinstance(event, Thought) else "terminal.writing"
        case ToolCallChanged():
            _called(state, event)
        case VerifyChanged(outcome, command):
            state.verifying = safe(command) if outcome == "started" else ""
        case ApprovalRequested():
            state.approval, state.asked = event, time.monotonic()
            state.agreed[event.call_id] = event.subject
        case ApprovalResolved() if state.approval is not None:
            state.since += time.monotonic() - state.asked  # the person's time, not the turn's
            state.approval = None
        case TurnEnded(status=status):
            state.cancelled = status == "cancelled"
        case CommandDone("", ok=False):
            state.cancelled = True
        case InputDone() | ModeStateChanged():
            _done(state, event)


def _called(state: PromptState, event: ToolCallChanged) -> None:
    state.doing = "terminal.waiting"
    if event.state == "executing":
        state.calls[event.call_id] = f"{safe(event.tool)} {safe(event.argument)}".rstrip()
    elif event.state != "scheduled":
        state.calls.pop(event.call_id, None)


def _done(state: PromptState, event: InputDone | ModeStateChanged) -> None:
    if isinstance(event, ModeStateChanged):
        state.mode_model, state.effort = event.model or "", event.reasoning_effort or ""
        return
    if event.op == "list_custom_modes":
        return  # it went on beside whatever else is under way
    if event.op == "set_mode_state":
        state.approval = None  # a mode's command may have asked
        state.phase = "running" if state.sent else "idle"
        return
    state.sent = False
    state.phase, state.verifying, state.approval = "idle", "", None
    state.calls.clear()
    state.agreed.clear()


def without_seen_diff(state: PromptState, event: ToolCallChanged) -> ToolCallChanged:
    """A change that stands in full above, in the question about it, is not shown a second time."""
    if event.detail_kind != "diff" or not _is_beginning(event.detail, state.agreed.get(event.call_id, "")):
        return event
    return msgspec.structs.replace(event, detail="", detail_kind="")


def _is_beginning(detail: str, subject: str) -> bool:
    """Whether the detail is the subject, or the head of it and a line that says how much follows."""
    *lines, last = detail.split("\n")
    head = subject.split("\n")[: len(lines) + 1]
    return head[:-1] == lines and (head[-1] == last or last.startswith("… "))


def activity(state: PromptState) -> str:
    """What is running, in a few words; empty where it is the model's turn."""
    if state.verifying:
        return state.verifying
    return " · ".join(state.calls.values())


def seconds(state: PromptState) -> int:
    return int(time.monotonic() - state.since)


def context_line(state: PromptState) -> Line:
    line = f"context: {state.tokens} tokens · model: {safe(state.mode_model or state.model)}"
    if state.effort:
        line += f" · effort: {state.effort}"
    if state.cost_usd or state.budget_usd is not None:
        limit = f" of {state.budget_usd:.2f}" if state.budget_usd is not None else ""
        line += f" · {state.cost_usd:.4f}{limit} USD"
    return [("dim", line)]


def prompt_text(state: PromptState, cwd: str) -> str:
    return f"[{state.mode}] {cwd}> "


def shown_folder(cwd: Path) -> str:
    home = os.path.expanduser("~")  # noqa: PTH111 - as the shell's prompt shows it, not as a path to use
    text = str(cwd)
    return safe("~" + text[len(home) :] if text == home or text.startswith(home + "/") else text)
