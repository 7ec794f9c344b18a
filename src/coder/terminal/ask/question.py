"""A question that a word answers: what is offered, what a line means, what is said back.

Every front end puts it like this: the prompt, the session of lines, `--once`; and before there is a session,
the questions of trust and of a server that was found.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Awaitable, Callable

import msgspec

from coder.protocol.events import ApprovalRequested
from coder.protocol.ops import ApprovalReply, Cancel
from coder.terminal.ask.rows import about_turn
from coder.terminal.input.editing import Answer, approval_answer
from coder.terminal.render.sanitize import safe
from coder.terminal.render.width import text_width
from coder.texts import Texts

_ANSWER_ROOM = 8  # columns for the answer behind the question; where there are fewer it is put more shortly

Read = Callable[[str], Awaitable[str | None]]
"""Puts its text before the caret and gives the line typed there; None at the end of input."""


class Heard(msgspec.Struct, frozen=True):
    """An answer, with the reason that may follow a `no`."""

    answer: Answer
    reason: str = ""


class Question(msgspec.Struct, frozen=True):
    """`choices` are what is offered, `shorter` the same in fewer words; `objection` is said to a line that is
    no answer. `empty`: what Enter alone means, where it means anything."""

    choices: str
    objection: str
    shorter: str = ""
    can_always: bool = False
    empty: Answer | None = None

    def prompt(self, columns: int) -> str:
        fits = not self.shorter or text_width(self.choices) + _ANSWER_ROOM <= columns
        return self.choices if fits else self.shorter

    def hear(self, line: str) -> Heard | None:
        if self.empty is not None and not line.strip():
            return Heard(self.empty)
        found = approval_answer(line, can_always=self.can_always)
        return Heard(*found) if found is not None else None


def approval_question(event: ApprovalRequested, texts: Texts) -> Question:
    choices = "approval.choices" if event.can_always else "approval.choices_once"
    shorter = texts.say(f"{choices}_narrow")
    return Question(
        # Only a refused call has somebody to give a reason to; a question about the turn has not.
        choices=shorter if about_turn(event) else texts.say(choices),
        shorter=shorter,
        objection=texts.say(
            "approval.not_an_answer_always" if event.can_always else "approval.not_an_answer"
        ),
        can_always=event.can_always,
    )


def said_back(heard: Heard, texts: Texts) -> str:
    """Where what was typed does not stay to be seen."""
    reason = [safe(heard.reason).replace("\n", " ")] if heard.reason else []
    return "→ " + " ".join([texts.say(f"terminal.answer_{heard.answer}"), *reason])


def reply_to(event: ApprovalRequested, heard: Heard) -> ApprovalReply:
    return ApprovalReply(event.approval_id, heard.answer, heard.reason)


async def ask_approval(
    event: ApprovalRequested, texts: Texts, read: Read, say: Callable[[str], None]
) -> ApprovalReply | Cancel:
    """Until a line is an answer; the end of input cancels the turn."""
    question = approval_question(event, texts)
    while (line := await read(question.choices)) is not None:
        heard = question.hear(line)
        if heard is not None:
            return reply_to(event, heard)
        say(question.objection)
    return Cancel()


def ask_at_start(prompt: str, texts: Texts) -> bool | None:
    """Yes or no, before anything runs beside it; Enter alone is no. None at Ctrl+C and the end of input."""
    question = Question(prompt, texts.say("terminal.yes_or_no"), empty="no")
    while (line := _line_after(question.choices)) is not None:
        heard = question.hear(line)
        if heard is not None:
            return heard.answer == "yes"
        sys.stdout.write(f"{question.objection}\n")
    sys.stdout.write("\n")
    return None


def _line_after(prompt: str) -> str | None:
    try:  # from the first letter of the prompt on: whoever sees it may press Ctrl+C
        sys.stdout.write(prompt)
        sys.stdout.flush()
        _until_typed()
        return sys.stdin.readline() or None
    except KeyboardInterrupt:
        return None


def _until_typed() -> None:
    """Until the terminal has a line. A signal that arrives just before a blocking read does not interrupt it:
    Python's handler would only run when the read is over. The wakeup fd has no such race."""
    if not sys.stdin.isatty():
        return
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    before = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    try:
        while sys.stdin not in select.select([sys.stdin, woken], [], [])[0]:
            os.read(woken, 1)
    finally:
        signal.set_wakeup_fd(before)
        os.close(woken)
        os.close(wake)
