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
    CallWriting,
    ChatCompressed,
    CommandDone,
    Content,
    Finished,
    InputDone,
    JobChanged,
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
from coder.texts import Catalog, Text
from coder.ui.terminal.render.escapes import safe
from coder.ui.terminal.render.width import Line

Phase = Literal["idle", "running", "stopping"]
Mode = Literal["plan", "default", "auto-edit", "yolo"]
_CHARACTERS_A_TOKEN = 4  # of ASCII text; about one and a half of others
_CYCLE: tuple[Mode, ...] = ("default", "auto-edit", "plan")  # never into yolo


class PromptState(msgspec.Struct):
    """Changed only by `input_sent` and `apply_event`, except for `queue` and `steered`: see
    `InputDispatcher`."""

    model: str
    mode: str
    tokens: int = 0
    cost_usd: float = 0.0
    budget_usd: float | None = None
    phase: Phase = "idle"
    since: float = 0.0  # when the input was sent, plus the time that questions waited
    asked: float = 0.0  # when the approval was requested
    approved_subjects: dict[str, str] = {}  # by call id, as shown in the question
    calls: dict[str, tuple[str, str]] = {}  # by call id: tool and argument
    verifying: str = ""
    approval: ApprovalRequested | None = None
    answering: bool = False  # the question has the keyboard
    queue: list[str] = []
    steered: list[str] = []  # sent to the turn, not read by the model yet
    cancelled: bool = False  # the input that has just ended was cancelled
    session_id: str = ""
    percent: int = 0  # of the model's preparation
    status_key: str = "busy.waiting"  # text key of the model's activity
    writing: CallWriting | None = None  # the call that it is writing
    retry_at: float = 0.0  # when a failed request is sent again
    turn_tokens: int = 0  # that the model has written since the input was sent
    streamed: float = 0.0  # estimated tokens of the response that is still coming
    sent: bool = False  # an input of the person is running
    mode_model: str = ""  # the model that enabled custom modes select
    effort: str = ""
    jobs: set[str] = set()  # ids of background jobs that run

    @property
    def busy(self) -> bool:
        return self.phase != "idle" or self.approval is not None


def next_mode(mode: str) -> Mode:
    at = _CYCLE.index(mode) + 1 if mode in _CYCLE else 0
    return _CYCLE[at % len(_CYCLE)]


def mode_named(line: str) -> Mode | None:
    """The operating mode that a line selects (`/plan`, `/mode plan`), which need not wait."""
    name = " ".join(line.split()).removeprefix("/").removeprefix("mode ")
    known = line.startswith("/") and name in ("plan", "default", "auto-edit", "yolo")
    return cast("Mode", name) if known else None


def input_sent(state: PromptState) -> None:
    state.phase, state.since, state.cancelled, state.sent = "running", time.monotonic(), False, True
    state.turn_tokens, state.streamed, state.retry_at = 0, 0.0, 0.0
    _at_model(state, "busy.waiting")


def apply_event(state: PromptState, event: AnyEvent) -> None:
    match event:
        case StateChanged() | SessionStarted() | JobChanged():
            _update_session(state, event)
        case Notice():
            _update_retry(state, event)
        case Thought() | Content() | ModelProgress() | CallWriting() | Finished() | ChatCompressed():
            _update_status(state, event)
        case ToolCallChanged():
            _update_call(state, event)
        case VerifyChanged(outcome, command):
            state.verifying = safe(command) if outcome == "started" else ""
            if outcome in ("failed", "gave_up"):  # it is reported to the model
                _at_model(state, "busy.waiting")
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


def _update_session(state: PromptState, event: StateChanged | SessionStarted | JobChanged) -> None:
    match event:
        case StateChanged():
            state.model, state.mode, state.tokens = event.model, event.mode, event.context_tokens
            state.cost_usd, state.budget_usd = event.cost_usd, event.budget_usd
        case SessionStarted():
            state.session_id, state.model, state.mode = event.session_id, event.model, event.mode
            state.mode_model = state.effort = ""
            state.jobs.clear()  # they end with their session
        case JobChanged(job_id, state="started"):
            state.jobs.add(job_id)
        case JobChanged(job_id):
            state.jobs.discard(job_id)


def question_done(state: PromptState) -> None:
    if state.approval is not None:
        state.since += time.monotonic() - state.asked  # the person's time, not the turn's
        state.approval, state.answering = None, False


def _at_model(state: PromptState, key: str) -> None:
    state.status_key, state.writing = key, None


def _update_status(
    state: PromptState,
    event: Thought | Content | ModelProgress | CallWriting | Finished | ChatCompressed,
) -> None:
    state.retry_at = 0.0
    match event:
        case ModelProgress(stage, share):
            _at_model(state, f"busy.{stage}")
            state.percent = round(100 * share)
        case CallWriting():
            written = event.size - (state.writing.size if state.writing else 0)
            state.streamed += max(0, written) / _CHARACTERS_A_TOKEN
            state.status_key, state.writing = "busy.calling", event
        case Thought(text) | Content(text):
            state.streamed += len(text) / (_CHARACTERS_A_TOKEN if text.isascii() else 1.5)
            _at_model(state, "busy.thinking" if isinstance(event, Thought) else "busy.writing")
        case Finished(tokens=tokens):
            state.turn_tokens, state.streamed = state.turn_tokens + tokens, 0.0
            # After an answer its completeness is checked; no more of it is awaited.
            _at_model(state, "busy.finishing" if state.status_key == "busy.writing" else "busy.waiting")
        case ChatCompressed():
            _at_model(state, "busy.waiting")


def _update_retry(state: PromptState, event: Notice) -> None:
    text = event.text
    if isinstance(text, Text) and text.key == "model.retry":
        state.retry_at = time.monotonic() + float(str(text.values["wait"]))
        state.streamed = 0.0
        _at_model(state, "busy.waiting")
    if event.in_answer:
        _at_model(state, "busy.asking_again")


def _update_call(state: PromptState, event: ToolCallChanged) -> None:
    _at_model(state, "busy.waiting")
    if event.state == "executing":
        state.calls[event.call_id] = safe(event.tool), safe(event.argument)
    elif event.state != "scheduled":
        state.calls.pop(event.call_id, None)


def _input_done(state: PromptState, event: InputDone | ModeStateChanged) -> None:
    if isinstance(event, ModeStateChanged):
        state.mode_model, state.effort = event.model or "", event.reasoning_effort or ""
        return
    if event.op in ("list_custom_modes", "query"):
        return  # they run concurrently with a turn
    if event.op == "set_mode_state":
        state.approval, state.answering = None, False  # it may have been for a mode's command
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


def context_line(state: PromptState, texts: Catalog) -> Line:
    say = texts.say
    model = safe(state.mode_model or state.model)
    line = say("terminal.context", tokens=state.tokens or "…", model=model)  # 0: unknown
    if state.effort:
        line += " · " + say("terminal.effort", effort=state.effort)
    if state.budget_usd is not None:
        line += " · " + say(
            "terminal.spent_of", spent=f"{state.cost_usd:.4f}", limit=f"{state.budget_usd:.2f}"
        )
    elif state.cost_usd:
        line += f" · {state.cost_usd:.4f} USD"
    if state.jobs:
        line += " · " + say("job.count", n=len(state.jobs))
    return [("dim", line)]


def prompt_line(state: PromptState, cwd: str) -> str:
    return f"[{state.mode}] {cwd}> "


def display_path(cwd: Path) -> str:
    home = os.path.expanduser("~")  # noqa: PTH111 - as the shell's prompt shows it, not as a path to use
    text = str(cwd)
    return safe("~" + text[len(home) :] if text == home or text.startswith(home + "/") else text)
