"""A question at the prompt: it takes the place of what is being typed, and gives it back when it is answered.

A key is never taken for an answer that was pressed for something else: a form that is open keeps the keys,
and the end of what somebody was typing when the question came does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from coder.protocol.events import ApprovalRequested
from coder.protocol.ops import ApprovalReply
from coder.terminal.ask.question import approval_question, reply_to, said_back
from coder.terminal.input.actions import Actions
from coder.terminal.render.width import Line
from coder.terminal.state import PromptState
from coder.texts import Texts

_READING_SECONDS = 1.0  # after which whoever was at something else has seen that there is a question
_AT_ONCE = float("-inf")


class Approving:
    """`show` puts a question into the stream, `say` a line; `send` gives the engine its answer."""

    def __init__(
        self,
        state: PromptState,
        actions: Actions,
        texts: Texts,
        *,
        show: Callable[[ApprovalRequested], None],
        say: Callable[[Line], None],
        send: Callable[[ApprovalReply], None],
    ) -> None:
        self._state, self._actions, self._texts = state, actions, texts
        self._show, self._say, self._send = show, say, send
        self._put: ApprovalRequested | None = None  # the question that stands at the prompt
        self._elsewhere = False  # the keys are the bar's
        self._heard_from = _AT_ONCE

    def follow(self) -> None:
        """Put the question that waits, if it is another than before; or give the prompt back."""
        event = self._state.approval
        if event is self._put:
            return
        self._put = event
        if event is None:
            self._actions.editor.unstash()
            return
        self._show(event)
        occupied = self._actions.occupied
        if not self._actions.bar.editing:
            self._actions.leave_bar()
        self._elsewhere = self._actions.editor.in_bar
        self._heard_from = time.monotonic() + _READING_SECONDS if occupied else _AT_ONCE
        self._actions.make_room()

    def key_pressed(self) -> None:
        """Whoever has just left a form has not had the question before their eyes."""
        elsewhere = self._put is not None and self._actions.editor.in_bar
        if self._elsewhere and not elsewhere:
            self._heard_from = time.monotonic() + _READING_SECONDS
        self._elsewhere = elsewhere

    def answer(self, event: ApprovalRequested, text: str) -> bool:
        """False where the text was not taken."""
        if time.monotonic() < self._heard_from:
            return False
        question = approval_question(event, self._texts)
        heard = question.hear(text)
        if heard is None:
            self._say([("note", question.objection)])
            return not text.strip()
        self._say([("dim", said_back(heard, self._texts))])
        self._send(reply_to(event, heard))
        return True
