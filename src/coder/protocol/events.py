"""Events from the engine to front ends.

A front end may ignore any of them but `ApprovalRequested`, which waits for an `ApprovalReply` (or a
`Cancel`). It puts fields of type `AnyText` into words with its own `Catalog`: the engine knows no language.
"""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import msgspec

from coder.base.text import quoted_name
from coder.protocol.entries import Evidence as Evidence
from coder.protocol.entries import Verification as Verification
from coder.protocol.history import HistoryEvent
from coder.protocol.messages import Usage
from coder.protocol.modes import CustomModesListed, InstantModeExecuted, ModeStateChanged
from coder.protocol.structs import Event
from coder.texts import AnyText, Catalog, Text

ToolState = Literal["scheduled", "executing", "success", "error", "cancelled"]
TurnStatus = Literal["ok", "error", "max_steps", "prompt_limit", "cancelled"]


class PastTurn(msgspec.Struct, frozen=True):
    """A turn of a resumed session, shortened; `status` is empty if it was interrupted."""

    text: str
    answer: str = ""
    status: str = ""


class SessionStarted(Event, frozen=True):
    """A session became current: new, or resumed with its newest turns in `recent`."""

    session_id: str
    cwd: str
    model: str
    mode: str
    preset: str
    resumed: bool = False
    turns: int = 0
    recent: list[PastTurn] = msgspec.field(default_factory=list)


class SessionEnded(Event, frozen=True):
    """The record of this session is complete."""

    session_id: str


class StateChanged(Event, frozen=True):
    """What the prompt lines show: model, operating mode, preset, context size, cost so far."""

    model: str
    mode: str
    preset: str
    context_tokens: int
    context_window: int
    usage: Usage
    cost_usd: float = 0.0
    budget_usd: float | None = None


class TurnStarted(Event, frozen=True):
    """A user message is being processed."""

    turn: int
    text: str
    prompt_id: str


class Thought(Event, frozen=True):
    """A chunk of the model's reasoning."""

    text: str


class Content(Event, frozen=True):
    """A chunk of the model's answer."""

    text: str


class ContentRestarted(Event, frozen=True):
    """The answer was restarted (retry, another model); discard the answer shown so far."""


class ModelProgress(Event, frozen=True):
    """Before a slow model's first token: the share (0 to 1) of the model loaded or of the prompt read.
    `compacting`: older history is being summarized; its share is not known."""

    stage: Literal["loading", "reading", "compacting"]
    share: float = 0.0


class CallWriting(Event, frozen=True):
    """The model is writing a tool call. Of a change to files: the file as the model names it and the lines so
    far. `size`: characters of its arguments."""

    tool: str
    argument: str = ""
    lines: int = 0
    size: int = 0


class ToolCallChanged(Event, frozen=True):
    """A tool call entered a state. `summary` and `detail` are for the person."""

    call_id: str
    tool: str
    state: ToolState
    argument: str
    summary: AnyText = ""
    detail: str = ""
    detail_kind: Literal["", "diff", "output", "text"] = ""
    duration_ms: int = 0


class ToolOutput(Event, frozen=True):
    """What a running command has printed since the last such event."""

    call_id: str
    text: str


class FileChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One operation of a planned change. `mode`: the new permission bits in octal, where they change."""

    operation: Literal["created", "updated", "deleted", "moved"]
    path: str
    moved_from: str = ""
    mode: str = ""
    additions: int = 0
    deletions: int = 0
    binary: bool = False

    @property
    def summary(self) -> Text:
        """The operation in one line, for the question."""
        counts = f"+{self.additions} -{self.deletions}"
        size = Text("approval.change.binary") if self.binary else counts
        names = {"path": quoted_name(self.path), "source": quoted_name(self.moved_from)}
        said = Text(f"approval.change.{self.operation}", size=size, **names)
        return Text("approval.change.mode", change=said, mode=self.mode) if self.mode else said


class ApprovalRequested(Event, frozen=True):
    """A call waits for a person: the command or diff in full, and every reason at once. `subject` and
    `reasons` are not redacted: they are for the person only, never for a model, record or log.
    `always_names`: what `always` would allow in this project. `changes`: every operation on a file; of a
    binary or moved one, or of its permission bits, no line of the diff may tell."""

    approval_id: str
    call_id: str
    tool: str
    subject: AnyText
    subject_kind: Literal["command", "diff", "text"]
    reasons: list[AnyText]
    can_always: bool
    always_names: list[str] = msgspec.field(default_factory=list)
    changes: list[FileChange] = msgspec.field(default_factory=list)

    @property
    def operations(self) -> list[Text]:
        """A line for each of `changes`; none where the diff of a single file says it all."""
        shown = self.changes
        if len(shown) == 1 and shown[0].operation in ("created", "updated") and not shown[0].mode:
            shown = [change for change in shown if not change.additions + change.deletions]
        return [change.summary for change in shown]


class ApprovalResolved(Event, frozen=True):
    """How an approval ended: `yes`, `no`, `always`, `cancelled`."""

    approval_id: str
    answer: str


class JobChanged(Event, frozen=True):
    """A background job started, ended by itself, or was stopped (by the model, the person, or with the
    session). `last`: the newest line that it printed."""

    job_id: str
    command: str
    state: Literal["started", "ended", "stopped"]
    exit_code: int | None = None
    duration_ms: int = 0
    last: str = ""


class TodosChanged(Event, frozen=True):
    """The whole list, as it is now."""

    todos: list[dict[str, Any]]


class VerifyChanged(Event, frozen=True):
    """Automatic verification: started, passed, failed, skipped, gave up."""

    state: Literal["started", "passed", "failed", "skipped", "gave_up"]
    command: str = ""
    attempt: int = 0
    exit_code: int | None = None
    text: AnyText = ""


class ChatCompressed(Event, frozen=True):
    """Older history was replaced by a summary."""

    tokens_before: int
    tokens_after: int
    summary: str
    forced: bool = False


class Citation(Event, frozen=True):
    """A source that the provider cites for the answer."""

    text: str


class LoopDetected(Event, frozen=True):
    """The model repeats itself."""

    reason: AnyText


class MaxSessionTurns(Event, frozen=True):
    """The session has had as many turns as `runtime.max_session_turns` allows."""

    limit: int


class Finished(Event, frozen=True):
    """A model response ended. `reason`: the provider's (`stop`, `length`, …); `tokens`: its length."""

    reason: str
    tokens: int = 0


class CommandDone(Event, frozen=True):
    """The output of a `/` or `!` command."""

    command: str
    text: AnyText
    ok: bool = True
    data: dict[str, Any] = msgspec.field(default_factory=dict)


class Notice(Event, frozen=True):
    """One line for the person: a retry, a limit near, a setting ignored. `in_answer`: it interrupts an answer
    that continues in the same block. `evidence`: the line is about what the turn has shown."""

    text: AnyText
    level: Literal["info", "warning"] = "info"
    in_answer: bool = False
    evidence: Evidence | None = None


class Failed(Event, frozen=True):
    """An error, in one or two sentences."""

    text: AnyText
    code: str = "error"


class TurnEnded(Event, frozen=True):
    """The turn is over and recorded."""

    turn: int
    status: TurnStatus
    text: str
    steps: int
    usage: Usage
    duration_ms: int
    error: AnyText = ""
    verification: Verification = Verification()
    finish_reason: str = ""  # of the last response
    evidence: Evidence | None = None  # where files were changed


class Steered(Event, frozen=True):
    """What became of a `Steer`: the model has `heard` it, or no turn took it and it is the front end's."""

    text: str
    heard: bool


class InputDone(Event, frozen=True):
    """The engine has finished with one input. `op` is the kind of op that it was. `refused`: the message was
    too long and is not part of the conversation."""

    ok: bool = True
    exit: bool = False
    op: str = "user_input"
    refused: bool = False


class Recorded(Event, frozen=True):
    """A line was appended to the record."""

    entry: HistoryEvent


AnyEvent = (
    SessionStarted
    | SessionEnded
    | StateChanged
    | TurnStarted
    | Thought
    | Content
    | ContentRestarted
    | ModelProgress
    | CallWriting
    | ToolCallChanged
    | ToolOutput
    | JobChanged
    | ApprovalRequested
    | ApprovalResolved
    | TodosChanged
    | VerifyChanged
    | ChatCompressed
    | Citation
    | LoopDetected
    | MaxSessionTurns
    | Finished
    | CommandDone
    | Notice
    | Failed
    | TurnEnded
    | Steered
    | InputDone
    | Recorded
    | CustomModesListed
    | ModeStateChanged
    | InstantModeExecuted
)


T = TypeVar("T")


def localized(value: T, texts: Catalog) -> T:
    """The same event with each `Text` in it, also in lists and structs, in the language of `texts`."""
    done: object = value
    if isinstance(value, Text):
        done = value.text(texts)
    elif isinstance(value, list):
        done = [localized(one, texts) for one in value]
    elif isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        said = {name: localized(field, texts) for name, field in fields.items()}
        changed = {name: field for name, field in said.items() if field != fields[name]}
        done = msgspec.structs.replace(value, **changed) if changed else value
    return done  # type: ignore[return-value]  # a Text stands only where a string may
