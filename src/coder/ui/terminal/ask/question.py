"""Questions answered by a typed word: prompt, parser and reply, for all terminal front ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import shutil
import signal
import sys
import termios
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from coder.engine.engine import Engine
from coder.policy.visible import visible
from coder.protocol.events import AnyEvent, ApprovalRequested, ApprovalResolved
from coder.protocol.ops import ApprovalReply, Cancel
from coder.texts import Catalog
from coder.ui.streams import show
from coder.ui.terminal.ask.question_rows import is_about_turn
from coder.ui.terminal.input.editing import ApprovalAnswer, approval_answer
from coder.ui.terminal.render.escapes import safe
from coder.ui.terminal.render.plain import line_prompt
from coder.ui.terminal.render.width import plain, text_width, wrap

_ANSWER_ROOM = 8  # columns left for typing the answer; with fewer the short prompt is used

Read = Callable[[str], Awaitable[str | None]]
"""Prompts with its argument and returns the line; None at end of input."""


class ParsedAnswer(msgspec.Struct, frozen=True):
    """The answer, and the reason given with a `no`."""

    answer: ApprovalAnswer
    reason: str = ""


class Question(msgspec.Struct, frozen=True):
    """`choices` is the prompt, `shorter` the narrow one; `objection` replies to an invalid line; `empty` is
    the answer of Enter alone."""

    choices: str
    objection: str
    shorter: str = ""
    can_always: bool = False
    empty: ApprovalAnswer | None = None

    def prompt(self, columns: int) -> str:
        fits = not self.shorter or text_width(self.choices) + _ANSWER_ROOM <= columns
        return self.choices if fits else self.shorter

    def parse(self, line: str) -> ParsedAnswer | None:
        if self.empty is not None and not line.strip():
            return ParsedAnswer(self.empty)
        found = approval_answer(line, can_always=self.can_always)
        return ParsedAnswer(*found) if found is not None else None


def approval_question(event: ApprovalRequested, texts: Catalog) -> Question:
    choices = "approval.choices" if event.can_always else "approval.choices_once"
    objection = "approval.not_an_answer_always" if event.can_always else "approval.not_an_answer"
    shorter = texts.say(f"{choices}_narrow")
    if is_about_turn(event):  # a reason is only passed on for a refused call
        choices, objection = f"{choices}_narrow", "approval.not_an_answer_turn"
    return Question(
        choices=texts.say(choices),
        shorter=shorter,
        objection=texts.say(objection),
        can_always=event.can_always,
    )


def answer_echo(event: ApprovalRequested, parsed: ParsedAnswer, texts: Catalog) -> str:
    reason = safe(parsed.reason).replace("\n", " ")
    if reason:
        return "→ " + texts.say("terminal.answer_because", reason=reason)
    said = "→ " + texts.say(f"terminal.answer_{parsed.answer}")
    if parsed.answer == "always" and event.always_names:
        names = ", ".join(f"`{visible(name).text}`" for name in event.always_names)
        return texts.say("approval.said_because", said=said, reason=names)
    return said


def approval_reply(event: ApprovalRequested, parsed: ParsedAnswer) -> ApprovalReply:
    return ApprovalReply(event.approval_id, parsed.answer, parsed.reason)


async def ask_approval(
    event: ApprovalRequested, texts: Catalog, read: Read, say: Callable[[str], None]
) -> ApprovalReply | Cancel:
    """Ask until a line parses; end of input cancels the turn."""
    question = approval_question(event, texts)
    while (line := await read(question.choices)) is not None:
        parsed = question.parse(line)
        if parsed is not None:
            return approval_reply(event, parsed)
        say(question.objection)
    return Cancel()


def discard_type_ahead() -> None:
    """Drop text typed before the question appeared."""
    with contextlib.suppress(termios.error, ValueError, OSError):
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def ask_at_start(prompt: str, texts: Catalog) -> bool | None:
    """A blocking yes/no question; Enter alone is no. None at Ctrl+C and end of input."""
    question = Question(prompt, texts.say("terminal.yes_or_no"), empty="no")
    discard_type_ahead()
    while (line := _line_after(question.choices)) is not None:
        parsed = question.parse(line)
        if parsed is not None:
            return parsed.answer == "yes"
        sys.stdout.write(f"{question.objection}\n")
    sys.stdout.write("\n")
    return None


def _line_after(prompt: str) -> str | None:
    try:  # includes the write: Ctrl+C may come as soon as the prompt is visible
        sys.stdout.write(prompt)
        sys.stdout.flush()
        _until_typed()
        return sys.stdin.readline() or None
    except KeyboardInterrupt:
        return None


def _until_typed() -> None:
    """Wait for a line on the terminal, with the wakeup fd: a signal just before a blocking read would not
    interrupt it."""
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


class QuestionQueue:
    """Queues questions while another one is open."""

    def __init__(self) -> None:
        self._open = ""
        self._waiting: list[ApprovalRequested] = []
        self.follows = False  # the open question replaced another one at once

    def visible(self, event: AnyEvent) -> Sequence[AnyEvent]:
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
            self._waiting.clear()  # their turn has ended
        following = self._waiting[:1]
        del self._waiting[:1]
        self._open, self.follows = (following[0].approval_id, True) if following else ("", False)
        return (event, *following)


class Asker:
    """Asks in a task beside the event loop, so that a cancel ends the question too."""

    def __init__(self, engine: Engine, texts: Catalog) -> None:
        self._engine = engine
        self._texts = texts
        self._asking: asyncio.Task[None] | None = None
        self.questions = QuestionQueue()

    def handle(self, event: AnyEvent) -> None:
        if isinstance(event, ApprovalRequested):
            self._asking = asyncio.create_task(self._ask(event))
        elif isinstance(event, ApprovalResolved) and self._asking is not None:
            if not self._asking.done():  # Ctrl+C: end the prompt's line
                sys.stdout.write("\n")
            self._asking.cancel()
            self._asking = None

    async def _ask(self, event: ApprovalRequested) -> None:
        discard_type_ahead()
        self._engine.submit(await ask_approval(event, self._texts, self._line, _say))

    async def _line(self, choices: str) -> str | None:
        return await _line(line_prompt(choices, self._texts))


def _say(text: str) -> None:
    for row in wrap([("", text)], shutil.get_terminal_size().columns):
        show(plain(row))


async def _line(prompt: str) -> str | None:
    """A line from the terminal; None at end of input."""
    sys.stdout.write(prompt)
    sys.stdout.flush()
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(0, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(0)
    data = os.read(0, 65536)
    return data.decode("utf-8", errors="replace").rstrip("\n") if data else None
