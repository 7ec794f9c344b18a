"""Approvals in `--once` on a terminal: a line answers the question."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys

from coder.engine.engine import Engine
from coder.protocol.events import AnyEvent, ApprovalRequested, ApprovalResolved
from coder.texts import Catalog
from coder.ui.streams import show
from coder.ui.terminal.ask.question import QuestionQueue, ask_approval, discard_type_ahead
from coder.ui.terminal.render.plain import line_prompt
from coder.ui.terminal.render.width import plain, wrap


class Asker:
    """Asks in a task beside the event loop, so that a cancel ends the question too."""

    def __init__(self, engine: Engine, texts: Catalog) -> None:
        self._engine = engine
        self._texts = texts
        self._asking: asyncio.Task[None] | None = None
        self.questions = QuestionQueue()

    def take(self, event: AnyEvent) -> None:
        if isinstance(event, ApprovalRequested):
            self._asking = asyncio.create_task(self._ask(event))
        elif isinstance(event, ApprovalResolved) and self._asking is not None:
            if not self._asking.done():  # by Ctrl+C: what follows begins a line
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
