"""The row below the prompt: vim's mode, and the line of the person's own `ui.statusline` command.

The command is run when what it is told has changed, one run at a time, and never waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from coder import __version__
from coder.engine.engine import Engine
from coder.protocol.events import AnyEvent, StateChanged
from coder.terminal.render.sgr import coloured_lines
from coder.terminal.render.width import Line, clip
from coder.texts import Texts

_TIMEOUT_MS = 3000
_KEPT_BYTES = 4096
_PAUSE_SECONDS = 0.2  # debounce: several things change at the end of a turn


class StatusLine:
    """`take` events; `rows` shows the newest line."""

    def __init__(self, command: str, engine: Engine, texts: Texts, draw: Callable[[], None]) -> None:
        """An empty command shows nothing."""
        self._command, self._view = command, engine.view
        self._texts, self._draw = texts, draw
        self.vim_mode: Callable[[], str] = str  # its text key; empty without vim
        self._line: Line = []
        self._told: dict[str, Any] = {}  # what the newest run was told
        self._next: dict[str, Any] = {}
        self._due: asyncio.TimerHandle | None = None
        self._running: asyncio.Task[None] | None = None

    def take(self, event: AnyEvent) -> None:
        if self._command and isinstance(event, StateChanged):
            self._next = self._facts(event)
            self._run_soon()

    def _run_soon(self) -> None:
        if self._due is None and self._running is None and self._next != self._told:
            self._due = asyncio.get_running_loop().call_later(_PAUSE_SECONDS, self._start)

    def _start(self) -> None:
        self._due = None
        self._running = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        from coder.process.programs import Runs  # most people have no such command
        from coder.process.run import run_process

        self._told = self._next
        try:
            done = await run_process(
                ["/bin/sh", "-c", self._command],
                runs=Runs.FOR_PERSON,
                cwd=self._view.root,
                environment=self._view.environment,
                timeout_ms=_TIMEOUT_MS,
                keep_bytes=_KEPT_BYTES,
                spill_to=self._view.outputs / "statusline.txt",
                spill_limit=0,
                on_output=lambda _text: None,
                stdin=msgspec.json.encode(self._told),
            )
            first = done.stdout.strip().partition("\n")[0]
            if done.exit_code == 0:
                self._line = coloured_lines(first, "dim")[0]
            elif not (done.timed_out and self._line):  # what it said before is better than that it is slow
                self._line = self._failed(done.exit_code)
        except OSError as error:
            self._line = self._failed(error.strerror or error)
        finally:
            self._running = None
        self._draw()
        self._run_soon()  # if something changed meanwhile

    def _failed(self, why: object) -> Line:
        return [("dim", self._texts.say("terminal.statusline_failed", code=why))]

    def _facts(self, event: StateChanged) -> dict[str, Any]:
        """What the command gets as JSON."""
        return {
            "session_id": self._view.session_id,
            "cwd": str(self._view.root),
            "model": event.model,
            "mode": event.mode,
            "preset": event.preset,
            "context_tokens": event.context_tokens,
            "context_window": event.context_window,
            "tokens": msgspec.to_builtins(event.usage),
            "cost_usd": event.cost_usd,
            "budget_usd": event.budget_usd,
            "version": __version__,
        }

    def rows(self, width: int) -> list[Line]:
        mode = self.vim_mode()
        parts: Line = [("dim", self._texts.say(mode))] if mode else []
        if parts and self._line:
            parts.append(("dim", "  "))
        parts += self._line
        return [clip(parts, width)] if parts else []

    async def close(self) -> None:
        """Ends a run that is under way."""
        if self._due is not None:
            self._due.cancel()
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
