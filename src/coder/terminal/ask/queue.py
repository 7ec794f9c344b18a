"""Serializes questions: concurrent tasks may ask at the same time, but only one question is open at once."""

from __future__ import annotations

from collections.abc import Sequence

from coder.protocol.events import AnyEvent, ApprovalRequested, ApprovalResolved


class QuestionQueue:
    """Queues questions while another one is open."""

    def __init__(self) -> None:
        self._open = ""
        self._waiting: list[ApprovalRequested] = []
        self.follows = False  # the open question replaced another one at once

    def take(self, event: AnyEvent) -> Sequence[AnyEvent]:
        """The events to show now."""
        if isinstance(event, ApprovalRequested):
            if self._open:
                self._waiting.append(event)
                return ()
            self._open, self.follows = event.approval_id, False
        elif isinstance(event, ApprovalResolved):
            return self._resolved(event)
        return (event,)

    def _resolved(self, event: ApprovalResolved) -> Sequence[AnyEvent]:
        self._waiting = [one for one in self._waiting if one.approval_id != event.approval_id]
        if event.approval_id != self._open:
            return ()  # it was never shown
        if event.answer == "cancelled":
            self._waiting.clear()  # with the turn that they belong to
        following = self._waiting[:1]
        del self._waiting[:1]
        self._open, self.follows = (following[0].approval_id, True) if following else ("", False)
        return (event, *following)
