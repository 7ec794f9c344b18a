"""Replays a record as updates, for a client that loads a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coder.base.text import head_and_tail
from coder.history.entries_to_events import call_argument
from coder.protocol.entries import Action, Assistant, Command, Image, Note, Observation, TurnStart, Verify
from coder.protocol.history import HistoryEvent
from coder.ui.acp.acp_tools import (
    MAX_TEXT,
    SILENT,
    Update,
    bounded,
    changed_places,
    content_of,
    fenced,
    kind_after,
    kind_of,
    locations,
    output_block,
    raw_output,
    title_of,
)
from coder.ui.acp.updates import Updates


class RecordReplay:
    """Takes the events of a record in order."""

    def __init__(self, updates: Updates) -> None:
        self._to = updates
        self._open: dict[str, tuple[str, str]] = {}  # calls without a result: (id in the protocol, tool)
        self._todos: list[dict[str, Any]] | None = None

    def take(self, event: HistoryEvent) -> None:
        match event.entry:
            case Assistant(reasoning=reasoning):
                self._to.next_message()
                self._to.chunk("agent_thought_chunk", reasoning or "")
                self._to.chunk("agent_message_chunk", event.said)
                self._to.next_message()
            case Action() as entry:
                self._action(event, entry)
            case Observation() as entry:
                self._observation(event, entry)
            case TurnStart(images=images):
                self._open.clear()
                self._person(event.content, images)
            case Note(reason="person"):
                self._person(event.content, [])
            case Image() as image:
                self._to.keep_image(image, event.content)
            case Verify() as entry if entry.command:
                self._verify(event, entry)
            case Command(input=line):
                self._command(line, event.content.rstrip("\n"))

    def done(self) -> dict[str, tuple[str, str]]:
        """Send the current plan; returns the calls without a result."""
        if self._todos is not None:
            self._to.plan(self._todos)
        return self._open

    def _person(self, text: str, images: Sequence[str] = ()) -> None:
        self._to.next_message()
        self._to.chunk("user_message_chunk", text)
        for block in self._to.images(images):
            self._to.send({"sessionUpdate": "user_message_chunk", "content": block})
        self._to.next_message()

    def _action(self, event: HistoryEvent, entry: Action) -> None:
        shown_as = f"{event.turn}.{event.step}.{entry.call_id}"
        self._open[entry.call_id] = (shown_as, entry.tool)
        if entry.tool in SILENT:
            return
        self._to.send(
            {
                "sessionUpdate": "tool_call",
                "toolCallId": shown_as,
                "title": title_of(entry.tool, call_argument(entry.tool, entry.input)),
                "kind": kind_of(entry.tool),
                "status": "pending",
                "locations": locations(entry.tool, entry.input, self._to.root),
                "rawInput": bounded(entry.input),
            }
        )

    def _observation(self, event: HistoryEvent, entry: Observation) -> None:
        if entry.call_id not in self._open:
            return
        shown_as, tool = self._open.pop(entry.call_id)
        if tool in SILENT:
            if entry.ok and entry.todos is not None and not event.for_model_alone:
                self._todos = entry.todos
            return
        update: Update = {
            "sessionUpdate": "tool_call_update",
            "toolCallId": shown_as,
            "status": "completed" if entry.ok else "failed",
            "rawOutput": raw_output(event.meta),
        }
        if entry.diff:
            update["content"] = content_of(entry.diff, "diff", "", self._to.root)
            update["locations"] = changed_places(entry.diff, self._to.root)
        else:
            shown = [{"type": "content", "content": one} for one in self._to.images(entry.images)]
            update["content"] = [*([output_block(event.content)] if event.content else []), *shown]
        if kind := kind_after(entry):
            update["kind"] = kind
        self._to.send(update)

    def _verify(self, event: HistoryEvent, entry: Verify) -> None:
        self._to.send(
            {
                "sessionUpdate": "tool_call",
                "toolCallId": f"verify.{event.turn}.{event.step}.{entry.attempt}",
                "title": title_of("verify", entry.command),
                "kind": "execute",
                "status": "failed" if entry.exit_code else "completed",
                "content": [output_block(event.content)] if event.content else [],
            }
        )

    def _command(self, line: str, answer: str) -> None:
        self._person(line)
        self._to.chunk(
            "agent_message_chunk", fenced(head_and_tail(answer, MAX_TEXT)) if "\n" in answer else answer
        )
        self._to.next_message()
