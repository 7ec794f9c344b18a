"""Questions one after the other: tasks that run beside each other may ask at the same time, and an answer
must be to the question that stands above it."""

from __future__ import annotations

from collections.abc import Sequence

from coder.protocol.events import AnyEvent, ApprovalRequested, ApprovalResolved


class QuestionQueue:
    """Holds a question back as long as another one is open."""

    def __init__(self) -> None:
        self._open = ""
        self._held: list[ApprovalRequested] = []

    def take(self, event: AnyEvent) -> Sequence[AnyEvent]:
        """What to show of it now."""
        if isinstance(event, ApprovalRequested):
            if self._open:
                self._held.append(event)
                return ()
            self._open = event.approval_id
        elif isinstance(event, ApprovalResolved):
            return self._resolved(event)
        return (event,)

    def _resolved(self, event: ApprovalResolved) -> Sequence[AnyEvent]:
        self._held = [one for one in self._held if one.approval_id != event.approval_id]
        if event.approval_id != self._open:
            return ()  # it was never shown
        if event.answer == "cancelled":
            self._held.clear()  # with the turn that they belong to
        following = self._held[:1]
        del self._held[:1]
        self._open = following[0].approval_id if following else ""
        return (event, *following)
