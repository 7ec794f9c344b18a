"""Ops: the commands of front ends to the engine."""

from __future__ import annotations

from typing import Literal

import msgspec

from coder.protocol.messages import Image
from coder.protocol.modes import ListCustomModes, SetModeState, TriggerInstantMode
from coder.protocol.structs import Op


class UserInput(Op, frozen=True):
    """Anything a person could type: a message, `!command` or `/command`. `attached`: literal text sent with
    the message, such as piped input; `@` and `!` in it are not expanded. `pasted`: parts of `text` that were
    not typed; they are ignored when judging whether a task is complex. `images`: of a message, beside its
    text."""

    text: str
    attached: str = ""
    pasted: list[str] = msgspec.field(default_factory=list)
    images: list[Image] = msgspec.field(default_factory=list)


class Cancel(Op, frozen=True):
    """Stop what is running now. Side effects that happened stay."""


class ApprovalReply(Op, frozen=True):
    """The person's answer to an `ApprovalRequested`. `reason` goes to the model after a `no`. `amended`, with
    a `yes` to a change of files: a unified diff of what the person took of it, which is applied instead;
    `reason` then tells the model what was left or changed."""

    approval_id: str
    answer: Literal["yes", "no", "always"]
    reason: str = ""
    amended: str = ""


class SetOperatingMode(Op, frozen=True):
    """Change the operating mode from the next tool call on, also within a turn."""

    mode: Literal["plan", "default", "auto-edit", "yolo"]


class Query(Op, frozen=True):
    """A `/` command that only reads (`/status`), answered at once, also while a turn runs."""

    text: str


class Steer(Op, frozen=True):
    """A message for the running turn; `Steered` says whether the model got it. `pasted`: see `UserInput`."""

    text: str
    pasted: list[str] = msgspec.field(default_factory=list)


class Close(Op, frozen=True):
    """End the session: the record is completed and every child process ended."""


# fmt: off
AnyOp = (
    UserInput | Cancel | ApprovalReply | SetOperatingMode | Query | Steer | Close | ListCustomModes
    | SetModeState | TriggerInstantMode
)
# fmt: on
