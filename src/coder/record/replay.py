"""Rebuild a session from its log alone.

The only place that knows which events carry messages of the conversation and how.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import msgspec

from coder.protocol.history import HistoryEvent
from coder.protocol.messages import (
    Message,
    ToolCall,
    head_length,
    tool_call,
    tool_message,
    with_instructions,
)
from coder.protocol.usage import Usage
from coder.record.turn_so_far import cost_of, tokens_of
from coder.texts import one_line

INTERRUPTED = (
    "error: interrupted: the session was cut off before this call was answered; "
    "it may or may not have run. Check before repeating it."
)


class Replay:
    """A session's state after its last whole event."""

    def __init__(self) -> None:
        self.session_id = ""
        self.created_at = ""
        self.title = ""
        self.turn = 0
        self.messages: list[Message] = []
        self.todos: list[dict[str, Any]] = []
        self.engine_todos: list[dict[str, Any]] = []  # the list that the engine made last
        self.usage = Usage()
        self.model = ""
        self.mode = ""  # `plan` or nothing: a record may have come with the project, and can loosen nothing
        self.preset = ""
        self.mode_state: dict[str, Any] = {}
        self.cost = 0.0
        self.notes: list[str] = []  # what the model is to be told with the next message
        self.turn_open = False
        self.pending_approval: dict[str, Any] | None = None
        self._open_calls: dict[str, ToolCall] = {}

    @property
    def unanswered(self) -> list[ToolCall]:
        """Calls of the last assistant message that no `tool` message answers."""
        return list(self._open_calls.values())

    def take(self, event: HistoryEvent) -> None:
        """Apply one event; a type nobody here knows changes nothing."""
        if not self.session_id:
            self.session_id, self.created_at = event.session_id, event.ts
        self.turn = max(self.turn, event.turn)
        handler = _HANDLERS.get(event.type)
        # A line that another version wrote in another shape is passed over like one of an unknown type.
        with contextlib.suppress(*_OF_ANOTHER_SHAPE):
            self.cost += cost_of(event)
            self.usage = self.usage.plus(tokens_of(event))
        with contextlib.suppress(*_OF_ANOTHER_SHAPE):
            if handler is not None:
                handler(self, event)

    def _session_start(self, event: HistoryEvent) -> None:
        if event.content and not self.messages:
            self.messages.append(Message(role="system", content=event.content))
        self._state(event)

    def _state(self, event: HistoryEvent) -> None:
        self.model = str(event.meta.get("model") or self.model)
        mode = str(event.meta.get("operating_mode") or self.mode)
        self.mode = mode if mode == "plan" else ""
        self.preset = str(event.meta.get("preset") or self.preset)

    def _turn_start(self, event: HistoryEvent) -> None:
        self.title = self.title or title_of(event.content)
        self.turn_open = True
        if not event.meta.get("refused"):
            self.notes = []
            self._message(Message(role="user", content=str(event.meta.get("message") or event.content)))

    def _assistant(self, event: HistoryEvent) -> None:
        calls = [
            tool_call(str(c["id"]), str(c["name"]), _json_text(c["arguments"]))
            for c in event.meta.get("tool_calls", [])
        ]
        self._message(
            Message(
                role="assistant",
                content=event.said,
                tool_calls=calls,
                reasoning=event.meta.get("reasoning"),
            )
        )
        self._open_calls = {c.id: c for c in calls}

    def _observation(self, event: HistoryEvent) -> None:
        call = self._open_calls.pop(str(event.meta.get("call_id")), None)
        if call is None:
            return
        self.messages.append(tool_message(call, event.content))
        if event.meta.get("tool") == "todowrite" and event.meta.get("ok"):
            self.todos = list(event.meta.get("todos", []))
            if event.meta.get("by") == "engine":
                self.engine_todos = self.todos
        if self.pending_approval and self.pending_approval.get("call_id") == call.id:
            self.pending_approval = None

    def _note(self, event: HistoryEvent) -> None:
        self._message(Message(role="user", content=event.content))

    def _instructions(self, event: HistoryEvent) -> None:
        self.messages = with_instructions(self.messages, event.content)
        self.mode_state = event.meta or self.mode_state

    def _command(self, event: HistoryEvent) -> None:
        if event.role == "user":  # a `!` command's result is part of the conversation
            self._message(Message(role="user", content=event.content))

    def _compaction(self, event: HistoryEvent) -> None:
        if event.meta.get("kind") == "shorten":
            self.messages = with_replaced(self.messages, [(i, t) for i, t in event.meta.get("replaced", [])])
        else:
            self.messages = compacted(self.messages, event.content, int(event.meta.get("kept", 0)))

    def _approval(self, event: HistoryEvent) -> None:
        self.pending_approval = None if event.meta.get("answer") else dict(event.meta)

    def _accepted(self, event: HistoryEvent) -> None:
        """What a record from elsewhere was waiting for, nobody here was asked about: it is not offered."""
        self.close_open_calls()

    def _undo(self, event: HistoryEvent) -> None:
        if event.content:
            self.notes.append(event.content)

    def _turn_end(self, event: HistoryEvent) -> None:
        self.turn_open = False
        self.close_open_calls()

    def _message(self, message: Message) -> None:
        self.close_open_calls()
        self.messages.append(message)

    def close_open_calls(self) -> list[Message]:
        """Answer what was left unanswered; returns the answers that had to be made up."""
        made_up = [tool_message(call, INTERRUPTED) for call in self._open_calls.values()]
        self.messages += made_up
        self._open_calls = {}
        self.pending_approval = None
        return made_up


_OF_ANOTHER_SHAPE = (KeyError, TypeError, ValueError, AttributeError)

_HANDLERS = {
    "session_start": Replay._session_start,
    "state": Replay._state,
    "turn_start": Replay._turn_start,
    "assistant": Replay._assistant,
    "observation": Replay._observation,
    "note": Replay._note,
    "instructions": Replay._instructions,
    "mode_state": Replay._instructions,
    "command": Replay._command,
    "compaction": Replay._compaction,
    "approval": Replay._approval,
    "accepted": Replay._accepted,
    "turn_end": Replay._turn_end,
    "undo": Replay._undo,
}


def _json_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode("utf-8")


def replay(events: Iterable[HistoryEvent]) -> Replay:
    state = Replay()
    for event in events:
        state.take(event)
    return state


def compacted(messages: list[Message], summary: str, kept: int) -> list[Message]:
    """The conversation after a compaction: its head, a summary, and the newest `kept` messages."""
    head = messages[: head_length(messages)]
    tail = messages[max(len(head), len(messages) - kept) :] if kept else []
    return [*head, Message(role="user", content=summary), *tail]


def with_replaced(messages: list[Message], replaced: list[tuple[int, str]]) -> list[Message]:
    """The conversation with the contents of some messages, by index, put in a shorter form."""
    contents = dict(replaced)
    return [
        msgspec.structs.replace(m, content=contents[at]) if at in contents else m
        for at, m in enumerate(messages)
    ]


def title_of(text: str) -> str:
    """The first line of the first input, short enough for a list."""
    return one_line(text, 60)
