"""What a front end may ask of the engine. There is no other way in."""

from __future__ import annotations

from typing import Literal

import msgspec

from coder.protocol.base import Op
from coder.protocol.modes import ListCustomModes, SetModeState, TriggerInstantMode


class UserInput(Op, frozen=True):
    """Anything a person could type: a message, `!command` or `/command`.

    `attached` goes with the message as it is: a `@` or `!` in it means nothing (what was piped in).
    `pasted`: pieces of `text` that the person did not type; whether a task is complex is not judged on them.
    """

    text: str
    attached: str = ""
    pasted: list[str] = msgspec.field(default_factory=list)


class Cancel(Op, frozen=True):
    """Stop what is running now. Side effects that happened stay."""


class ApprovalReply(Op, frozen=True):
    """The person's answer to an `ApprovalRequested`. `reason` goes to the model after a `no`."""

    approval_id: str
    answer: Literal["yes", "no", "always"]
    reason: str = ""


class SetOperatingMode(Op, frozen=True):
    """Another operating mode, from the next tool call on, also in the middle of a turn."""

    mode: Literal["plan", "default", "auto-edit", "yolo"]


class Close(Op, frozen=True):
    """End the session: the record is completed and every child process ended."""


AnyOp = (
    UserInput
    | Cancel
    | ApprovalReply
    | SetOperatingMode
    | Close
    | ListCustomModes
    | SetModeState
    | TriggerInstantMode
)
