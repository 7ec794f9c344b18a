"""Serializes questions: concurrent tasks may ask at the same time, but only one question is open at once."""

from __future__ import annotations

from collections.abc import Sequence

from coder.protocol.events import AnyEvent, ApprovalRequested, ApprovalResolved


class QuestionQueue:
    """Queues questions while another one is open."""

    def __init__(self) -> None:
        self._open = ""
        self._waiting: list[ApprovalRequested] = []

    def take(self, event: AnyEvent) -> Sequence[AnyEvent]:
        """The events to show now."""
        if isinstance(event, ApprovalRequested):
            if self._open:
                self._waiting.append(event)
                return ()
            self._open = event.approval_id
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
        self._open = following[0].approval_id if following else ""
        return (event, *following)
