"""Entries of the record: a tagged union; the tag is the line's `type`, the fields its `meta`.

A field with a default is written only where its value differs. docs/record.md is generated from this.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec
from msgspec import UNSET, UnsetType

from coder.protocol.messages import Opaque, Tokens
from coder.protocol.structs import lenient, snake


class _Part(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An object within `meta`."""


class Entry(_Part, frozen=True, kw_only=True):
    """Base of all entries. The order of fields is that of the JSON."""


class Config(_Part, frozen=True, kw_only=True):
    """The model and its tools."""

    model: str
    cwd: str
    tokenizer: str
    tools: list[str]


class SessionStart(Entry, frozen=True, kw_only=True):
    """A session begins. Its content is the system message; `seal` is its signature (history/signature.py)."""

    mode: str
    operating_mode: str
    preset: str
    model: str
    cwd: str
    tokenizer: str
    tools: list[str]
    config: Config
    seal: str = ""


class SessionEnd(Entry, frozen=True, kw_only=True):
    """The process left the session, which may be resumed. `title`: the name that `/rename` gave it."""

    mode: str
    operating_mode: str
    preset: str
    config: Config
    turns: int
    tokens: Tokens
    title: str = ""


class PromptTokens(_Part, frozen=True, kw_only=True):
    """The size of an input."""

    prompt: int


class Asks(msgspec.Struct, frozen=True):
    """Settings of an instant mode for the turn that it starts."""

    model: str | None = None
    reasoning_effort: str | None = None


class InstantMode(_Part, frozen=True, kw_only=True):
    """The instant mode or saved prompt that an input was rendered from, with its values."""

    mode_id: str
    values: dict[str, str] = {}


class Image(Entry, frozen=True, kw_only=True):
    """An image; its content is Base64. The inputs and results after it name it by `image_id`, once or
    more."""

    image_id: str
    media_type: str
    name: str = ""
    width: int = 0
    height: int = 0


class TurnStart(Entry, frozen=True, kw_only=True):
    """An input. `message`: what the model got, where that differs; `said`: the person's own words, where they
    differ; `refused`: not part of the conversation; `instant`: the mode that the content is rendered from;
    `images`: their ids."""

    prompt_id: str
    tokens: PromptTokens
    said: str | None = None
    asks: Asks | None = None
    refused: bool = False
    message: str | None = None
    instant: InstantMode | None = None
    images: list[str] = []


class SentCall(_Part, frozen=True, kw_only=True):
    """A tool call as the model made it; `arguments` is JSON text."""

    id: str
    name: str
    arguments: Any


class Assistant(Entry, frozen=True, kw_only=True):
    """A response of the model; its content is the raw text. `message`: the text in the conversation, where
    that differs; `by`: made by the engine; `partial`: interrupted; `salvaged`: its calls were parsed from its
    text; `opaque`: reasoning that only its model can read."""

    by: str = ""
    tokens: Tokens | None = None
    model: str | None = None
    prompt_id: str | None = None
    cost_usd: float | None = None
    finish_reason: str | None = None
    partial: bool = False
    salvaged: bool = False
    tool_calls: list[SentCall] = []
    reasoning: str | None = None
    message: str | None = None
    opaque: Opaque | None = None


class Sent(_Part, frozen=True, kw_only=True):
    """A call before it was resolved."""

    tool: str
    input: Any


class Action(Entry, frozen=True, kw_only=True):
    """A call as it will be run. `sent`: as the model made it, where that differs."""

    tool: str
    input: Any
    call_id: str
    sent: Sent | None = None


class ChangedFile(_Part, frozen=True, kw_only=True):
    """One of the files of a patch."""

    path: str
    operation: str = ""


class Observation(Entry, frozen=True, kw_only=True):
    """The result of a call; its content is what the model got. After `denied` the fields of the tool's result
    follow, in the tool's order; those that readers use are declared here."""

    tool: str
    call_id: str
    ok: bool
    denied: bool
    interrupted: bool = False
    by: str = ""
    exit_code: int | None = None
    statuses: list[int] = []  # exit codes of the last pipeline's commands
    stdout: str | None = None
    stderr: str | None = None
    output_file: str = ""  # where a long output is kept
    duration_ms: int | None = None
    cancelled: bool = False
    background: bool = False
    job_id: str = ""
    command: str = ""
    name: str = ""
    path: str = ""
    operation: str = ""
    files: list[ChangedFile] | int | None = None  # a number for tools that only read
    diff: str = ""
    additions: int | None = None
    deletions: int | None = None
    changed: list[str] = msgspec.field(default_factory=list)  # files that a command changed
    dry_run: bool = False
    todos: list[dict[str, Any]] | None = None
    images: list[str] = []  # ids

    @property
    def changed_files(self) -> list[ChangedFile]:
        """Of a patch."""
        return self.files if isinstance(self.files, list) else []


class Final(Entry, frozen=True, kw_only=True):
    """The answer of a turn that ended well."""

    tokens: Tokens


class Verification(msgspec.Struct, frozen=True):
    """Result of a turn's verification. `changed_since`: files changed after the last run that passed, or in
    the whole turn where none did. `reason`: why it was not run, or what limits the result."""

    status: Literal["passed", "failed", "not_run"] = "not_run"
    command: str = ""
    attempts: int = 0
    changed_since: list[str] = msgspec.field(default_factory=list)
    reason: str = ""


class CheckRun(msgspec.Struct, frozen=True):
    """A check that ran. `kind`: `tests`, or `lint` for linters, type checkers and builds; `part`: only
    some of the tests. `state`: `unclear` where neither exit code nor output tells how it ended."""

    command: str = ""
    state: Literal["passed", "failed", "unclear"] = "unclear"
    by: Literal["coder", "model"] = "model"
    kind: Literal["tests", "lint"] = "tests"
    part: bool = False


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a turn that changed files has shown. `runs`: checks after the last edit; `unchecked`: changed
    files that no test run after the change covers; `claim`: what the model says of passing tests, where
    no test was seen to pass after the last edit."""

    changed: list[str] = []
    runs: list[CheckRun] = []
    unchecked: list[str] = []
    claim: str = ""


class TurnEnd(Entry, frozen=True, kw_only=True):
    """A turn is over. `status`: `ok`, `error`, `max_steps`, `prompt_limit`, `cancelled`. `title`: as in
    `session_end`, so that the end of a record has it. `evidence`: of a turn that changed files."""

    status: str
    step_count: int
    duration_ms: int | None = None
    tokens: Tokens
    prompt_id: str | None = None
    verification: Verification
    evidence: Evidence | None = None
    finish_reason: str = ""
    cost_usd: float | None = None
    error_message: str | None = None
    title: str = ""


class Approval(Entry, frozen=True, kw_only=True):
    """A person is asked about a call (without `call_id`: about the turn); written again with the answer.
    `because`: why it was answered without them."""

    approval_id: str
    call_id: str | None = None
    tool: str
    subject: str
    reasons: list[str]
    answer: str = ""
    reason: str | None = None
    because: str = ""


class Verify(Entry, frozen=True, kw_only=True):
    """A verification run ended, or (without `command`) there was none. `state`: `passed`, `failed`,
    `skipped`, `gave_up`. `refused`: commands that the person named and that are not on the allowlist."""

    command: str = ""
    exit_code: int | None = None
    attempt: int = 0
    state: str
    reason: str = ""
    refused: list[str] | None = None


class Note(Entry, frozen=True, kw_only=True):
    """A message that the engine added to the conversation."""

    reason: str


class Usage(Entry, frozen=True, kw_only=True):
    """A side request of the engine, outside the conversation."""

    model: str
    tokens: Tokens
    cost_usd: float | None


class Routing(Entry, frozen=True, kw_only=True):
    """The model that was chosen for a turn, or that took over from another."""

    model: str
    tier: str = ""
    instead_of: str = ""
    because: str | None = None


class Compaction(Entry, frozen=True, kw_only=True):
    """The conversation was replaced by its head, a summary (the content) and the newest `kept` messages; or,
    of `kind` `shorten`, the contents of some messages, by index, were `replaced`."""

    kind: str = ""
    replaced: list[tuple[int, str]] = []
    kept: int | None = None
    tokens_before: int
    tokens_after: int
    forced: bool | None = None


class Loop(Entry, frozen=True, kw_only=True):
    """Loop detection fired, for the `strike`th time in the turn."""

    strike: int


class State(Entry, frozen=True, kw_only=True):
    """A setting changed: model, effort, modes, budget, loop guard, the session's title; or a permission was
    revoked."""

    model: str | None = None
    operating_mode: str | None = None
    preset: str | None = None
    budget_usd: float | UnsetType | None = UNSET
    loop_guard: bool | None = None
    effort: str | None = None
    title: str = ""
    revoked: list[str] = []


class Instructions(Entry, frozen=True, kw_only=True):
    """The content is the instructions of person and project at the head of the conversation."""


class RecordedMode(_Part, frozen=True, kw_only=True):
    """An active persistent mode with its explicit values."""

    mode_id: str
    variables: dict[str, Any]


class ModeState(Entry, frozen=True, kw_only=True):
    """As `instructions`, with the active custom modes."""

    server_rev: int
    modes: list[RecordedMode]
    session_values: dict[str, Any]


class Command(Entry, frozen=True, kw_only=True):
    """A `/` or `!` command and its output. The fields of a `!` command's result follow; those that readers
    use are declared here."""

    kind: str
    input: str
    command: str
    ok: bool | None = None
    exit_code: int | None = None
    stdout: str | None = None
    stderr: str | None = None


class Undo(Entry, frozen=True, kw_only=True):
    """The file changes of a turn, or some `hunks` of them, were undone or redone; paths by outcome
    (`shared` and `unsure` are empty)."""

    action: str
    undone_turn: int | None = None
    redone_turn: int | None = None
    restored: list[str]
    removed: list[str]
    merged: list[str]
    kept: list[str]
    uncovered: list[str]
    kept_copies: list[str]
    shared: list[str]
    unsure: list[str]
    forced: bool
    hunks: list[str] = []


class Rewind(Entry, frozen=True, kw_only=True):
    """The conversation was taken back to before the input of turn `before`, which stays in the record.
    `undone`: turns whose file changes were undone with it. `back`: the last rewind was itself taken back."""

    before: int
    undone: list[int] = []
    back: bool = False


class Citation(Entry, frozen=True, kw_only=True):
    """A source that the provider named."""


class Job(Entry, frozen=True, kw_only=True):
    """A background job ended. `stopped_by`: `model`, `person`, `session`."""

    job_id: str
    state: str
    command: str
    exit_code: int | UnsetType | None = UNSET
    stopped_by: str = ""


class Inner(_Part, frozen=True, kw_only=True):
    """A line of a subagent's record."""

    type: str
    step: int
    role: str | None
    meta: dict[str, Any]


class Subagent(Entry, frozen=True, kw_only=True):
    """Wraps a line of a subagent's record; the content is that line's."""

    task_id: str
    agent: str
    event: Inner


class Hook(Entry, frozen=True, kw_only=True):
    """A hook was run; the content is what it said. `outcome`: `ok`, `context`, `allowed`, `asked`, `blocked`,
    `changed` (to `input`), `stopped`, `failed`."""

    event: str
    command: str
    outcome: str
    duration_ms: int
    tool: str | None = None
    call_id: str | None = None
    input: dict[str, Any] | None = None


class Accepted(Entry, frozen=True, kw_only=True):
    """The person accepted a foreign record as trusted."""

    seal: str


# fmt: off
AnyEntry = (
    SessionStart | SessionEnd | Image | TurnStart | Assistant | Action | Observation | Final | TurnEnd
    | Approval | Verify | Note | Usage | Routing | Compaction | Loop | State | Instructions | ModeState
    | Command | Undo | Rewind | Citation | Job | Subagent | Hook | Accepted
)
# fmt: on

NAMES: dict[type[Entry], str] = {form: snake(form.__name__) for form in get_args(AnyEntry)}
_FORMS = {name: form for form, name in NAMES.items()}


def entry_of(kind: str, meta: dict[str, Any]) -> AnyEntry | None:
    """Decode; None for an unknown type. Unknown fields are skipped."""
    form = _FORMS.get(kind)
    if form is None:
        return None
    try:
        entry = msgspec.convert(meta, form)
    except msgspec.ValidationError:
        entry = lenient(meta, form)
    return entry  # type: ignore[return-value] # one of the union's
