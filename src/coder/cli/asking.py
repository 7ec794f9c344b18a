"""Approvals in `--once` on a terminal: the question is on the screen, a line answers it."""

from __future__ import annotations

import asyncio
import os
import sys

from coder.engine.engine import Engine
from coder.protocol.events import AnyEvent, ApprovalRequested, ApprovalResolved
from coder.protocol.ops import ApprovalReply, Cancel
from coder.terminal.editing import approval_answer
from coder.texts import Texts


class Asker:
    """Reads beside the stream of events, so that a cancel ends the question as well."""

    def __init__(self, engine: Engine, texts: Texts) -> None:
        self._engine = engine
        self._say = texts.say
        self._asking: asyncio.Task[None] | None = None

    def take(self, event: AnyEvent) -> None:
        if isinstance(event, ApprovalRequested):
            self._asking = asyncio.create_task(self._ask(event))
        elif isinstance(event, ApprovalResolved) and self._asking is not None:
            self._asking.cancel()
            self._asking = None

    async def _ask(self, event: ApprovalRequested) -> None:
        choices = "approval.choices" if event.can_always else "approval.choices_once"
        while True:
            sys.stdout.write(self._say(choices))
            sys.stdout.flush()
            line = await _line()
            if line is None:
                self._engine.submit(Cancel())
                return
            found = approval_answer(line, can_always=event.can_always)
            if found is not None:
                answer, reason = found
                self._engine.submit(ApprovalReply(event.approval_id, answer, reason))
                return
            known = "approval.not_an_answer_always" if event.can_always else "approval.not_an_answer"
            sys.stdout.write(f"{self._say(known)}\n")


async def _line() -> str | None:
    """What the terminal hands over when Enter is pressed; None at the end of input."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(0, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(0)
    data = os.read(0, 65536)
    return data.decode("utf-8", errors="replace").rstrip("\n") if data else None
