"""One line of the record.

The file is the source of truth of a session; readers skip unknown types.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec

from coder.base.text import one_line
from coder.protocol.entries import Action, AnyEntry, Assistant, Observation, Subagent, entry_of

# The answer to a call that never got one.
INTERRUPTED = (
    "error: interrupted: the session was cut off before this call was answered; "
    "it may or may not have run. Check before repeating it."
)


def verified_note(command: str) -> str:
    """What the model hears with the next message of a check that passed."""
    return f"After your last answer `{command}` ran and passed."


def title_of(text: str) -> str:
    """A session's title: the first line of its first input, short enough for a list."""
    return one_line(text, 60)


class HistoryEvent(msgspec.Struct, frozen=True, dict=True):
    """`turn` counts from 1 (0: outside any turn), `step` from 0 within its turn. `meta` is JSON, for sinks;
    readers use the typed `entry`."""

    ts: str
    session_id: str
    type: str
    turn: int = 0
    step: int = 0
    content: str = ""
    role: str | None = None
    meta: dict[str, Any] = {}

    @cached_property
    def entry(self) -> AnyEntry | None:
        """`meta`, typed; None for an unknown type."""
        return entry_of(self.type, self.meta)

    @property
    def inner(self) -> HistoryEvent:
        """The event that a subagent's event wraps; otherwise the event itself."""
        entry = self.entry
        if not isinstance(entry, Subagent):
            return self
        own = entry.event
        return msgspec.structs.replace(self, type=own.type, step=own.step, role=own.role, meta=own.meta)

    @property
    def said(self) -> str:
        """An answer's text in the conversation. `content` is the raw text, with calls and tags."""
        entry = self.entry
        message = entry.message if isinstance(entry, Assistant) else None
        return self.content if message is None else message

    @property
    def for_model_alone(self) -> bool:
        """The engine's todo list of one item, or its call: it only repeats the person's message."""
        match self.entry:
            case Action(tool="todowrite", call_id=call_id, input={"todos": list(todos)}):
                pass
            case Observation(tool="todowrite", call_id=call_id, todos=list(todos)):
                pass
            case _:
                return False
        return call_id == f"todo_{self.turn}" and len(todos) == 1


_DECODER = msgspec.json.Decoder(HistoryEvent)


def decode_event(line: bytes) -> HistoryEvent | None:
    """None for a line that is no event: torn, damaged, or nested deeper than can be read."""
    try:
        return _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class StreamLine(msgspec.Struct, frozen=True):
    """A line of `--output stream-json` that is not recorded: `assistant_chunk`, `thought_chunk`,
    `assistant_restart`, `command_result`, `error`, `notice`."""

    ts: str
    session_id: str
    type: str
    content: str
    meta: dict[str, Any] = {}
