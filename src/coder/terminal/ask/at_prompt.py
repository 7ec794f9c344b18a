"""Approval questions at the prompt: the draft is stashed, and restored once the question is answered.

Keys meant for something else are never taken as an answer: an open form keeps the focus, and input is ignored
for a moment if somebody was typing when the question appeared; so is a yes to one that took the place of
another.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from coder.protocol.events import ApprovalRequested
from coder.protocol.ops import ApprovalReply
from coder.terminal.ask.question import answer_echo, approval_question, reply_to
from coder.terminal.input.actions import Actions
from coder.terminal.render.width import Line
from coder.terminal.state import PromptState
from coder.texts import Texts

_READING_SECONDS = 1.0  # input is ignored for this long if the person was busy with something else
_FOLLOWING_SECONDS = 0.5  # a yes this soon after another question was answered is for that one, typed twice
_NO_DELAY = float("-inf")


class ApprovalPrompt:
    """`show` adds the question to the transcript, `say` a line; `send` submits the answer. `follows`: whether
    the question took the place of another one."""

    def __init__(
        self,
        state: PromptState,
        actions: Actions,
        texts: Texts,
        *,
        show: Callable[[ApprovalRequested], None],
        say: Callable[[Line], None],
        send: Callable[[ApprovalReply], None],
        follows: Callable[[], bool],
    ) -> None:
        self._state, self._actions, self._texts = state, actions, texts
        self._show_question, self._echo, self._send, self._follows = show, say, send, follows
        self._current: ApprovalRequested | None = None  # the question at the prompt
        self._bar_had_focus = False  # at the last key
        self._accepts_from = self._yes_from = _NO_DELAY

    def update(self) -> None:
        """Show the pending question if it is new; restore the draft if there is none."""
        event = self._state.approval
        if event is self._current:
            return
        self._current = event
        if event is None:
            self._actions.editor.unstash()
            return
        self._show_question(event)
        occupied = self._actions.occupied
        if not self._actions.bar.editing:
            self._actions.leave_bar()
        self._bar_had_focus = self._actions.editor.in_bar
        self._accepts_from = time.monotonic() + _READING_SECONDS if occupied else _NO_DELAY
        self._yes_from = time.monotonic() + _FOLLOWING_SECONDS if self._follows() else _NO_DELAY
        self._actions.make_room()

    def key_pressed(self) -> None:
        """Restart the delay when a form is left: the question was not in view."""
        bar_has_focus = self._current is not None and self._actions.editor.in_bar
        if self._bar_had_focus and not bar_has_focus:
            self._accepts_from = time.monotonic() + _READING_SECONDS
        self._bar_had_focus = bar_has_focus

    def answer(self, event: ApprovalRequested, text: str) -> bool:
        """False if the text was not accepted."""
        if time.monotonic() < self._accepts_from:
            return False
        question = approval_question(event, self._texts)
        parsed = question.parse(text)
        if parsed is None:
            self._echo([("ask", question.objection)])
            return not text.strip()
        if parsed.answer != "no" and time.monotonic() < self._yes_from:
            return False
        self._echo([("dim", answer_echo(parsed, self._texts))])
        self._send(reply_to(event, parsed))
        return True
