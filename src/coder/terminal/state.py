"""The state that the prompt and its status line are drawn from, updated by events."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Literal, cast

import msgspec

from coder.protocol.events import (
    AnyEvent,
    ApprovalRequested,
    ApprovalResolved,
    CommandDone,
    Content,
    InputDone,
    ModelProgress,
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
Mode = Literal["plan", "default", "auto-edit", "yolo"]
_CYCLE: tuple[Mode, ...] = ("default", "auto-edit", "plan")  # never into yolo


class PromptState(msgspec.Struct):
    """Changed only by `input_sent` and `apply_event`, except for `queue` and `steered`: see `outbox.py`."""

    model: str
    mode: str
    tokens: int = 0
    cost_usd: float = 0.0
    budget_usd: float | None = None
    phase: Phase = "idle"
    since: float = 0.0  # when the input was sent, plus the time that questions waited
    asked: float = 0.0  # when the approval was asked for
    approved_subjects: dict[str, str] = {}  # by call id: what the approval question showed
    calls: dict[str, str] = {}
    verifying: str = ""
    approval: ApprovalRequested | None = None
    answering: bool = False  # the question has the keyboard
    queue: list[str] = []
    steered: list[str] = []  # sent to the model, which has not heard it yet
    cancelled: bool = False  # the input that has just ended was cancelled
    session_id: str = ""
    percent: int = 0  # of what the model does before its first token
    status_key: str = "terminal.waiting"  # text key of what the model is doing
    sent: bool = False  # an input of the person is running
    mode_model: str = ""  # the model that enabled custom modes select
    effort: str = ""

    @property
    def busy(self) -> bool:
        return self.phase != "idle" or self.approval is not None


def next_mode(mode: str) -> Mode:
    at = _CYCLE.index(mode) + 1 if mode in _CYCLE else 0
    return _CYCLE[at % len(_CYCLE)]


def mode_named(line: str) -> Mode | None:
    """The operating mode that a line changes to (`/plan`, `/mode plan`), which need not wait."""
    name = " ".join(line.split()).removeprefix("/").removeprefix("mode ")
    known = line.startswith("/") and name in ("plan", "default", "auto-edit", "yolo")
    return cast("Mode", name) if known else None


def input_sent(state: PromptState) -> None:
    state.phase, state.since, state.cancelled, state.sent = "running", time.monotonic(), False, True
    state.status_key = "terminal.waiting"


def apply_event(state: PromptState, event: AnyEvent) -> None:
    match event:
        case StateChanged():
            state.model, state.mode, state.tokens = event.model, event.mode, event.context_tokens
            state.cost_usd, state.budget_usd = event.cost_usd, event.budget_usd
        case SessionStarted():
            state.session_id, state.model, state.mode = event.session_id, event.model, event.mode
            state.mode_model = state.effort = ""
        case Notice(in_answer=True):
            state.status_key = "terminal.catching_up"
        case Thought() | Content() | ModelProgress():
            _update_status(state, event)
        case ToolCallChanged():
            _update_call(state, event)
        case VerifyChanged(outcome, command):
            state.verifying = safe(command) if outcome == "started" else ""
        case ApprovalRequested():
            state.approval, state.asked = event, time.monotonic()
            state.approved_subjects[event.call_id] = str(event.subject)
        case ApprovalResolved():
            question_done(state)
        case TurnEnded(status=status):
            state.cancelled = status == "cancelled"
        case CommandDone("", ok=False):
            state.cancelled = True
        case InputDone() | ModeStateChanged():
            _input_done(state, event)


def question_done(state: PromptState) -> None:
    if state.approval is not None:
        state.since += time.monotonic() - state.asked  # the person's time, not the turn's
        state.approval, state.answering = None, False


def _update_status(state: PromptState, event: Thought | Content | ModelProgress) -> None:
    if isinstance(event, ModelProgress):
        state.status_key, state.percent = f"terminal.{event.stage}", round(100 * event.share)
    else:
        state.status_key = "terminal.thinking" if isinstance(event, Thought) else "terminal.writing"


def _update_call(state: PromptState, event: ToolCallChanged) -> None:
    state.status_key = "terminal.waiting"
    if event.state == "executing":
        state.calls[event.call_id] = f"{safe(event.tool)} {safe(event.argument)}".rstrip()
    elif event.state != "scheduled":
        state.calls.pop(event.call_id, None)


def _input_done(state: PromptState, event: InputDone | ModeStateChanged) -> None:
    if isinstance(event, ModeStateChanged):
        state.mode_model, state.effort = event.model or "", event.reasoning_effort or ""
        return
    if event.op in ("list_custom_modes", "query"):
        return  # they run concurrently with a turn
    if event.op == "set_mode_state":
        state.approval, state.answering = None, False  # a mode's command may have asked
        state.phase = "running" if state.sent else "idle"
        return
    state.sent = False
    state.phase, state.verifying = "idle", ""
    state.approval, state.answering = None, False
    state.calls.clear()
    state.approved_subjects.clear()


def without_seen_diff(state: PromptState, event: ToolCallChanged) -> ToolCallChanged:
    """Drop a diff that the approval question already showed."""
    if event.detail_kind != "diff" or not _is_beginning(
        event.detail, state.approved_subjects.get(event.call_id, "")
    ):
        return event
    return msgspec.structs.replace(event, detail="", detail_kind="")


def _is_beginning(detail: str, subject: str) -> bool:
    """Whether `detail` is the subject, or its head followed by a truncation line."""
    *lines, last = detail.split("\n")
    head = subject.split("\n")[: len(lines) + 1]
    return head[:-1] == lines and (head[-1] == last or last.startswith("… "))


def activity(state: PromptState) -> str:
    """The running checks or calls; empty while the model is answering."""
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


def display_path(cwd: Path) -> str:
    home = os.path.expanduser("~")  # noqa: PTH111 - as the shell's prompt shows it, not as a path to use
    text = str(cwd)
    return safe("~" + text[len(home) :] if text == home or text.startswith(home + "/") else text)
