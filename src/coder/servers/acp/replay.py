"""A recorded conversation told again, for a client that loads its session."""

from __future__ import annotations

from typing import Any

import msgspec

from coder.protocol.history import HistoryEvent
from coder.servers.acp.tools import (
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
from coder.servers.acp.updates import Updates
from coder.texts import head_and_tail
from coder.tools.registry import built_in


class Retelling:
    """Takes the events of a record in order."""

    def __init__(self, updates: Updates) -> None:
        self._to = updates
        self._open: dict[str, tuple[str, str]] = {}  # calls without their result: id on the line, tool
        self._todos: list[dict[str, Any]] | None = None

    def take(self, event: HistoryEvent) -> None:
        """A line that another version wrote in another shape is passed over."""
        teller = _TELLERS.get(event.type)
        if teller is None:
            return
        try:
            teller(self, event)
        except (KeyError, TypeError, ValueError, AttributeError):
            return

    def done(self) -> dict[str, tuple[str, str]]:
        """The plan as it is now; returns the calls that were never answered."""
        if self._todos is not None:
            self._to.plan(self._todos)
        return self._open

    def _person(self, text: str) -> None:
        self._to.next_message()
        self._to.chunk("user_message_chunk", text)
        self._to.next_message()

    def _turn_start(self, event: HistoryEvent) -> None:
        self._open.clear()
        self._person(event.content)

    def _assistant(self, event: HistoryEvent) -> None:
        self._to.next_message()
        self._to.chunk("agent_thought_chunk", str(event.meta.get("reasoning") or ""))
        self._to.chunk("agent_message_chunk", event.said)
        self._to.next_message()

    def _action(self, event: HistoryEvent) -> None:
        tool, call_id = str(event.meta["tool"]), str(event.meta["call_id"])
        shown_as = f"{event.turn}.{event.step}.{call_id}"
        self._open[call_id] = (shown_as, tool)
        if tool in SILENT:
            return
        args = event.meta.get("input")
        self._to.send(
            {
                "sessionUpdate": "tool_call",
                "toolCallId": shown_as,
                "title": title_of(tool, _argument(tool, args)),
                "kind": kind_of(tool),
                "status": "pending",
                "locations": locations(tool, args, self._to.root),
                "rawInput": bounded(args),
            }
        )

    def _observation(self, event: HistoryEvent) -> None:
        meta = event.meta
        shown_as, tool = self._open.pop(str(meta["call_id"]))
        if tool in SILENT:
            if meta.get("ok") and isinstance(meta.get("todos"), list) and not event.for_model_alone:
                self._todos = meta["todos"]
            return
        update: Update = {
            "sessionUpdate": "tool_call_update",
            "toolCallId": shown_as,
            "status": "completed" if meta.get("ok") else "failed",
            "rawOutput": raw_output(meta),
        }
        diff = meta.get("diff")
        if isinstance(diff, str) and diff:
            update["content"] = content_of(diff, "diff", "", self._to.root)
            update["locations"] = changed_places(diff, self._to.root)
        else:
            update["content"] = [output_block(event.content)] if event.content else []
        if kind := kind_after(meta):
            update["kind"] = kind
        self._to.send(update)

    def _verify(self, event: HistoryEvent) -> None:
        if not event.meta.get("command"):
            return
        self._to.send(
            {
                "sessionUpdate": "tool_call",
                "toolCallId": f"verify.{event.turn}.{event.step}.{event.meta.get('attempt')}",
                "title": title_of("verify", str(event.meta["command"])),
                "kind": "execute",
                "status": "failed" if event.meta.get("exit_code") else "completed",
                "content": [output_block(event.content)] if event.content else [],
            }
        )

    def _command(self, event: HistoryEvent) -> None:
        self._person(str(event.meta.get("input", "")))
        text = event.content.rstrip("\n")
        self._to.chunk("agent_message_chunk", fenced(head_and_tail(text, MAX_TEXT)) if "\n" in text else text)
        self._to.next_message()


_TELLERS = {
    "turn_start": Retelling._turn_start,
    "assistant": Retelling._assistant,
    "action": Retelling._action,
    "observation": Retelling._observation,
    "verify": Retelling._verify,
    "command": Retelling._command,
}


def _argument(tool: str, args: Any) -> str:
    """The record has no summary of a call; it is made again, as far as its arguments could be read."""
    if isinstance(args, str):
        try:
            args = msgspec.json.decode(args)
        except msgspec.DecodeError:
            return ""
    if not isinstance(args, dict):
        return ""
    return built_in(tool).argument(args)
