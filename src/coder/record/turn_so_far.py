"""What the newest turn of a record had come to, for whoever goes on with it or ends it.

Also what is read out of an event here and for the whole session alike: what a request cost in tokens and
money, and which files a tool changed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import msgspec

from coder.protocol.history import HistoryEvent
from coder.protocol.usage import Usage

EDITING = ("write", "edit", "patch")
_CONTINUED = ("truncated", "empty", "announced")  # why a note told the model to go on
_USAGE_FIELDS = ("prompt", "completion", "total", "cached")


class TurnSoFar(msgspec.Struct):
    """A turn as far as it is recorded. `model` is the one that routing chose, where it did."""

    text: str = ""
    steps: int = 0
    usage: Usage = Usage()
    cost: float = 0.0
    edited: set[str] = set()
    verify_attempts: int = 0
    continuations: int = 0
    model: str = ""


class NewestTurn:
    """Takes the events of a record in order; `so_far` is the turn that began last."""

    def __init__(self) -> None:
        self.so_far = TurnSoFar()

    def take(self, event: HistoryEvent) -> None:
        if event.type == "turn_start":
            self.so_far = TurnSoFar(text=event.content)
            return
        # A line that another version wrote in another shape is passed over like one of an unknown type.
        with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
            self._take(event, self.so_far)

    def _take(self, event: HistoryEvent, turn: TurnSoFar) -> None:
        meta = event.meta
        turn.usage = turn.usage.plus(tokens_of(event))
        turn.cost += cost_of(event)
        turn.edited |= edits_of(event)
        if event.type == "assistant" and "by" not in meta:
            turn.steps = event.step + 1
        elif event.type == "verify":
            turn.verify_attempts = max(turn.verify_attempts, int(meta.get("attempt", 0)))
        elif event.type == "note" and meta.get("reason") in _CONTINUED:
            turn.continuations += 1
        elif event.type == "routing":
            turn.model = str(meta.get("model", ""))


def _inner(event: HistoryEvent) -> tuple[str, dict[str, Any]]:
    """The event's type and meta, those of a subagent's event taken out of their wrapping."""
    inner = event.meta.get("event") if event.type == "subagent" else None
    if isinstance(inner, dict):
        return str(inner.get("type")), inner.get("meta") or {}
    return event.type, event.meta


def tokens_of(event: HistoryEvent) -> Usage:
    """Of the request that the event tells of, if it does. Summed request by request: a turn that was cut off
    has no `turn_end` to tell its total."""
    kind, meta = _inner(event)
    tokens = meta.get("tokens") if kind in ("assistant", "usage") else None
    return Usage(**{k: tokens.get(k, 0) for k in _USAGE_FIELDS}) if isinstance(tokens, dict) else Usage()


def cost_of(event: HistoryEvent) -> float:
    """What one request cost, a subagent's as well, where its model had a price."""
    kind, meta = _inner(event)
    # Never less than nothing: a record that came with the project must not fill up the person's budget.
    return max(0.0, float(meta.get("cost_usd") or 0)) if kind in ("assistant", "usage") else 0.0


def edits_of(event: HistoryEvent) -> set[str]:
    """The files that a tool changed, where the event tells of that."""
    kind, meta = _inner(event)
    done = kind == "observation" and meta.get("ok") and meta.get("tool") in EDITING
    return edited_paths(meta) if done else set()


def edited_paths(meta: Mapping[str, Any]) -> set[str]:
    """By the fields that `write`, `edit` and `patch` record."""
    if meta.get("dry_run"):
        return set()
    if "files" in meta:
        return {str(f["path"]) for f in meta["files"]}
    return set() if meta.get("operation") == "unchanged" else {str(meta.get("path", ""))}
