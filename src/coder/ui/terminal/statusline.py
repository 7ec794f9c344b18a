"""The row below the prompt: vim's mode, and the output of the `ui.statusline` command.

The command runs when its input has changed, once at a time, and is never awaited.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from coder import __version__
from coder.base.process.programs import Runs
from coder.base.process.run import run_process
from coder.config.schema import UiSection
from coder.engine.engine import Engine
from coder.protocol.events import AnyEvent, StateChanged
from coder.texts import Catalog
from coder.ui.terminal.render.escapes import coloured_lines, flat
from coder.ui.terminal.render.width import Line, clip

_TIMEOUT_MS = 3000
_KEPT_BYTES = 4096
_PAUSE_SECONDS = 0.2  # debounce: several things change at the end of a turn


class StatusLine:
    """`take` events; `rows` shows the newest line."""

    def __init__(self, command: str, engine: Engine, texts: Catalog, draw: Callable[[], None]) -> None:
        """An empty command shows nothing."""
        self._command, self._view = command, engine.view
        self._texts, self._draw = texts, draw
        self.vim_mode: Callable[[], str] = str  # its text key; empty without vim
        self._line: Line = []
        self._told: dict[str, Any] = {}  # input of the newest run
        self._next: dict[str, Any] = {}
        self._due: asyncio.TimerHandle | None = None
        self._running: asyncio.Task[None] | None = None

    def handle(self, event: AnyEvent) -> None:
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
            elif not (done.timed_out and self._line):  # keep the previous line if the command is slow
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
        """The command's JSON input."""
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
        if self._due is not None:
            self._due.cancel()
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])


_CLIPBOARD_BYTES = 74_994  # limit of one OSC 52 (tmux, xterm: 100,000 in base64)
_BELL = "\a"
_PUSH_TITLE, _POP_TITLE = "\x1b[22;2t", "\x1b[23;2t"
_TITLE_CHARS = 80
# Terminals that support OSC 777 (urxvt's) but not OSC 9.
_KNOW_777 = ("rxvt", "foot")


class Notifier:
    """Keeps the window title, and alerts an absent person, as configured in `ui`."""

    def __init__(
        self, ui: UiSection, environ: Mapping[str, str], name: str, send: Callable[[str], None]
    ) -> None:
        self._ui, self._environ, self._send = ui, environ, send
        self._name = name
        self._last_key = time.monotonic()

    def key_pressed(self) -> None:
        """A typing person needs no bell."""
        self._last_key = time.monotonic()

    def opened(self) -> None:
        if self._ui.title:
            self._send(_PUSH_TITLE + _title(self._name))

    def busy(self) -> None:
        if self._ui.title:
            self._send(_title(f"● {self._name}"))

    def idle(self) -> None:
        if self._ui.title:
            self._send(_title(self._name))

    def closed(self) -> None:
        if self._ui.title:
            self._send(_POP_TITLE)

    def alert(self, text: str) -> None:
        """Ring and notify, unless a key was pressed recently."""
        if time.monotonic() - self._last_key < self._ui.bell_seconds:
            return
        if self._ui.bell:
            self._send(_BELL)
        if self._ui.notify:
            self._send(notification_sequence(self._name, text, self._environ))


def _title(text: str) -> str:
    return f"\x1b]2;{flat(text)[:_TITLE_CHARS]}\a"


def notification_sequence(name: str, text: str, environ: Mapping[str, str]) -> str:
    """A desktop notification, wrapped for tmux passthrough; terminals without support ignore it."""
    name, text = (flat(part).replace(";", ",") for part in (name, text))
    if environ.get("VTE_VERSION") or environ.get("TERM", "").startswith(_KNOW_777):
        sequence = f"\x1b]777;notify;{name};{text}\a"
    else:
        sequence = f"\x1b]9;{name}: {text}\a"
    return f"\x1bPtmux;\x1b{sequence}\x1b\\" if environ.get("TMUX") else sequence


def clipboard(text: str) -> str | None:
    """OSC 52; None for text that terminals would refuse or truncate."""
    data = text.encode("utf-8", errors="replace")
    if not data or len(data) > _CLIPBOARD_BYTES:
        return None
    return f"\x1b]52;c;{base64.b64encode(data).decode('ascii')}\a"
