"""Rebuild a session from its log alone.

The only place that knows which events carry messages of the conversation and how.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from coder.history.turn_so_far import request_of
from coder.protocol import entries, messages
from coder.protocol.history import INTERRUPTED, HistoryEvent, title_of, verified_note
from coder.protocol.messages import (
    Message,
    ToolCall,
    Usage,
    head_length,
    tool_call,
    tool_message,
    with_instructions,
)


class _Point(msgspec.Struct, frozen=True):
    """The conversation at some point: the first `length` of `messages`, which is only appended to."""

    messages: list[Message]
    length: int
    todos: list[dict[str, Any]]
    engine_todos: list[dict[str, Any]]
    notes: list[str]
    undos: int


class Replay:
    """A session's state after its last complete event."""

    def __init__(self) -> None:
        self.session_id = ""
        self.created_at = ""
        self.title = ""
        self.renamed = ""
        self.turn = 0
        self.messages: list[Message] = []
        self.todos: list[dict[str, Any]] = []
        self.engine_todos: list[dict[str, Any]] = []  # the newest list made by the engine
        self.usage = Usage()
        self.model = ""
        self.mode = ""  # `plan` or empty: a record shipped with a project must not loosen permissions
        self.preset = ""
        self.mode_state: entries.ModeState | None = None
        self.cost = 0.0
        self.notes: list[str] = []  # to prepend to the next message
        self.turn_open = False
        self.pending_approval: entries.Approval | None = None
        self.images: dict[str, messages.Image] = {}  # by id
        self.rewinds: list[entries.Rewind] = []  # that no input followed: they can be taken back
        self._open_calls: dict[str, ToolCall] = {}
        self._before_turn: dict[int, _Point] = {}
        self._before_rewind: list[_Point] = []
        self._undos: list[tuple[int, str]] = []  # the turn, and the note

    @property
    def unanswered(self) -> list[ToolCall]:
        """Calls of the last assistant message that no `tool` message answers."""
        return list(self._open_calls.values())

    def take(self, event: HistoryEvent) -> None:
        """Apply one event; unknown types are ignored."""
        if not self.session_id:
            self.session_id, self.created_at = event.session_id, event.ts
        self.turn = max(self.turn, event.turn)
        if request := request_of(event):
            self.cost += request.cost
            self.usage = self.usage.plus(request.usage)
        match event.entry:
            case entries.Assistant() as entry:
                self._assistant(event, entry)
            case entries.Observation() as entry:
                self._observation(event, entry)
            case entries.Action():
                pass
            case entries.TurnStart() as entry:
                self._turn_start(event, entry)
            case entries.TurnEnd():
                self.turn_open = False
                self.close_open_calls()
            case entries.Note():
                self._message(Message(role="user", content=event.content))
            case entries.Command() if (
                event.role == "user"
            ):  # a `!` command's result is part of the conversation
                self._message(Message(role="user", content=event.content))
            case entries.Compaction() as entry:
                self._compaction(event, entry)
            case entries.Approval() as entry:
                self.pending_approval = None if entry.answer else entry
            case _:
                self._session_event(event)

    def _session_event(self, event: HistoryEvent) -> None:
        match event.entry:
            case entries.SessionStart() as entry:
                if event.content and not self.messages:
                    self.messages.append(Message(role="system", content=event.content))
                self._state(entry)
            case entries.State() as entry:
                self.renamed = entry.title or self.renamed
                self.title = self.renamed or self.title
                self._state(entry)
            case entries.Instructions():
                self.messages = with_instructions(self.messages, event.content)
            case entries.ModeState() as entry:
                self.messages = with_instructions(self.messages, event.content)
                self.mode_state = entry
            case entries.Image() as entry:
                self.images[entry.image_id] = messages.Image(
                    entry.media_type, event.content, entry.name, entry.width, entry.height
                )
            case entries.Accepted():
                # A foreign record's pending calls were never approved by this person.
                self.close_open_calls()
            case entries.Undo() as entry if event.content:
                self.notes.append(event.content)
                if turn := entry.undone_turn or entry.redone_turn:
                    self._undos.append((turn, event.content))
            case entries.Verify(state="passed", command=command):
                self.notes.append(verified_note(command))
            case entries.Rewind() as entry:
                self._rewind(event, entry)

    def _state(self, entry: entries.SessionStart | entries.State) -> None:
        self.model = entry.model or self.model
        mode = entry.operating_mode or self.mode
        self.mode = mode if mode == "plan" else ""
        self.preset = entry.preset or self.preset

    def _turn_start(self, event: HistoryEvent, entry: entries.TurnStart) -> None:
        self.title = self.title or title_of(event.content)
        self.turn_open = True
        self.close_open_calls()
        self._before_turn[event.turn] = self._point()
        self.rewinds, self._before_rewind = [], []
        if not entry.refused:
            self.notes = []
            images = self._images_of(entry)
            self._message(Message(role="user", content=entry.message or event.content, images=images))

    def _point(self) -> _Point:
        length, notes = len(self.messages), list(self.notes)
        return _Point(self.messages, length, self.todos, self.engine_todos, notes, len(self._undos))

    def _rewind(self, event: HistoryEvent, entry: entries.Rewind) -> None:
        """The instructions at the head stay as they are now: they are settings."""
        self.close_open_calls()
        if entry.back and self.rewinds:
            point = self._before_rewind.pop()
            self.rewinds.pop()
        elif not entry.back and entry.before in self._before_turn:
            point = self._before_turn[entry.before]
            self._before_rewind.append(self._point())
            self.rewinds.append(entry)
        else:
            return
        then = point.messages[: point.length]
        self.messages = [*self.messages[: head_length(self.messages)], *then[head_length(then) :]]
        self.todos, self.engine_todos = point.todos, point.engine_todos
        since = [note for turn, note in self._undos[point.undos :] if turn < entry.before]
        self.notes = [*point.notes, *since, *([event.content] if event.content else [])]

    def _images_of(self, entry: entries.TurnStart | entries.Observation) -> list[messages.Image]:
        return [self.images[name] for name in entry.images if name in self.images]

    def _assistant(self, event: HistoryEvent, entry: entries.Assistant) -> None:
        whole = (c for c in entry.tool_calls if c.id and c.name and c.arguments is not None)
        calls = [tool_call(c.id, c.name, _json_text(c.arguments)) for c in whole]
        self._message(
            Message(
                role="assistant",
                content=event.said,
                tool_calls=calls,
                reasoning=entry.reasoning,
                opaque=entry.opaque,
            )
        )
        self._open_calls = {c.id: c for c in calls}

    def _observation(self, event: HistoryEvent, entry: entries.Observation) -> None:
        call = self._open_calls.pop(entry.call_id, None)
        if call is None:
            return
        self.messages.append(tool_message(call, event.content, self._images_of(entry)))
        if entry.tool == "todowrite" and entry.ok:
            self.todos = entry.todos or []
            if entry.by == "engine":
                self.engine_todos = self.todos
        if self.pending_approval and self.pending_approval.call_id == call.id:
            self.pending_approval = None

    def _compaction(self, event: HistoryEvent, entry: entries.Compaction) -> None:
        if entry.kind == "shorten":
            self.messages = with_replaced(self.messages, entry.replaced)
        elif entry.kept is not None:
            self.messages = compacted(self.messages, event.content, entry.kept)

    def _message(self, message: Message) -> None:
        self.close_open_calls()
        self.messages.append(message)

    def close_open_calls(self) -> list[Message]:
        """Answer unanswered calls with `INTERRUPTED`; returns those answers."""
        made_up = [tool_message(call, INTERRUPTED) for call in self._open_calls.values()]
        self.messages += made_up
        self._open_calls = {}
        self.pending_approval = None
        return made_up


def _json_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode("utf-8")


def replay(events: Iterable[HistoryEvent]) -> Replay:
    state = Replay()
    for event in events:
        state.take(event)
    return state


def compacted(messages: list[Message], summary: str, kept: int) -> list[Message]:
    """The conversation after compaction: its head, the summary, the newest `kept` messages."""
    head = messages[: head_length(messages)]
    tail = messages[max(len(head), len(messages) - kept) :] if kept else []
    return [*head, Message(role="user", content=summary), *tail]


def with_replaced(messages: list[Message], replaced: list[tuple[int, str]]) -> list[Message]:
    """The conversation with the contents of some messages, by index, replaced."""
    contents = dict(replaced)
    return [
        msgspec.structs.replace(m, content=contents[at]) if at in contents else m
        for at, m in enumerate(messages)
    ]
