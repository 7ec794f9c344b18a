"""The REPL for terminals without cursor movement (`TERM=dumb`): reads a line, runs its turn, repeats."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import shutil
import signal
import sys

from coder.base.process.own_process import on_signals
from coder.engine.engine import Engine
from coder.engine.setup import Options, Settings
from coder.history.entries_to_events import entries_to_events, typed_text
from coder.protocol.events import AnyEvent, ApprovalRequested, InputDone, SessionStarted, StateChanged
from coder.protocol.modes import ModeStateChanged
from coder.protocol.ops import Cancel, UserInput
from coder.ui.terminal.ask.question import QuestionQueue, ask_approval
from coder.ui.terminal.local_commands import resolve_command
from coder.ui.terminal.modes.mode_bar import ModeAnnouncer
from coder.ui.terminal.render.escapes import flat, redirect_to_devnull
from coder.ui.terminal.render.event_lines import brief_reply, message_lines, session_lines
from coder.ui.terminal.render.plain import PlainRenderer
from coder.ui.terminal.render.width import plain
from coder.ui.terminal.screen_state import PromptState, apply_event, context_line, display_path, prompt_line


class LineRepl:
    def __init__(self, options: Options, settings: Settings, engine: Engine, renderer: PlainRenderer) -> None:
        self.options = options
        self.settings = settings
        self.renderer = renderer
        self.say = settings.texts.say
        self.engine = engine
        self.state = PromptState(model=engine.view.model, mode=engine.view.mode)
        self.modes = ModeAnnouncer(settings.texts)
        self.questions = QuestionQueue()
        self.running = False
        self.hung_up = False
        self.interrupts = 0
        self.typed = bytearray()
        self.waiting: asyncio.Future[None] | None = None

    async def run(self, question: str) -> int:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupted)
        on_signals(self._hang_up)
        await self._opened()
        if self.engine.view.is_waiting:
            await self._until_idle()
        elif question:
            await self._send(question)
        while (text := await self._read_input()) is not None:
            self.interrupts = 0
            if text.strip() and not await self._send(resolve_command(text)):
                break
        await self._close()
        return 0

    async def _opened(self) -> None:
        """Print the events of session start, before the first prompt."""
        last: type[AnyEvent] = SessionStarted
        async for event in self.engine.events():
            self._show(event)
            if isinstance(event, SessionStarted) and event.resumed:
                last = StateChanged
            if isinstance(event, last):
                return

    async def _send(self, text: str) -> bool:
        """False if the session should end."""
        self.engine.submit(UserInput(text))
        return await self._until_idle()

    async def _until_idle(self) -> bool:
        self.running = True
        try:
            async for event in self.engine.events():
                for one in self.questions.visible(event):
                    self._show(one)
                    if isinstance(one, ApprovalRequested):
                        await self._answer(one)
                if isinstance(event, InputDone):
                    return not event.exit
        finally:
            self.running = False
        return False

    def _show(self, event: AnyEvent) -> None:
        apply_event(self.state, event)
        try:
            self._put(event)
        except OSError:  # the terminal is gone, before SIGHUP arrived
            self._hang_up(signal.SIGHUP)

    def _put(self, event: AnyEvent) -> None:
        if isinstance(event, SessionStarted):
            for line in session_lines(event, self.settings.texts, shutil.get_terminal_size().columns):
                self.renderer.line(plain(line))
            if event.resumed:
                self._retell()
        elif isinstance(event, ModeStateChanged):
            if summary := self.modes.handle(event):
                self.renderer.line(summary)
        else:
            self.renderer.handle(event)

    def _retell(self) -> None:
        """The conversation of a resumed session."""
        for event in entries_to_events(self.engine.view.history(), replaced_reply=brief_reply):
            if text := typed_text(event):
                for line in message_lines(text, shutil.get_terminal_size().columns):
                    self.renderer.line(plain(line).rstrip())
            self.renderer.handle(event)

    async def _answer(self, event: ApprovalRequested) -> None:
        """Text typed before the question appeared does not answer it: it is kept as the next input."""
        ahead = self._typed_ahead()
        try:
            reply = await ask_approval(event, self.settings.texts, self._read_line, self.renderer.paragraph)
            self.engine.submit(reply)
        finally:
            self.typed[:0] = ahead

    # reading

    async def _read_input(self) -> str | None:
        self.renderer.line("\n" + plain(context_line(self.state, self.renderer.texts)))
        lines: list[str] = []
        prompt = prompt_line(self.state, display_path(self.options.cwd))
        while True:
            line = await self._read_line(prompt)
            if line is None:
                return None
            if not line.endswith("\\"):
                return "\n".join([*lines, line])
            lines.append(line[:-1])
            prompt = "… "

    async def _read_line(self, prompt: str) -> str | None:
        """A line without its newline; None at end of input. Waits on the event loop, as a blocking read
        cannot be cancelled."""
        if self.hung_up:
            return None
        try:
            sys.stdout.write(prompt)
            sys.stdout.flush()
        except OSError:
            self._hang_up(signal.SIGHUP)
            return None
        loop = asyncio.get_running_loop()
        fd = sys.stdin.fileno()
        while b"\n" not in self.typed:
            self.waiting = loop.create_future()
            loop.add_reader(fd, _resolve, self.waiting)
            try:
                await self.waiting
            except asyncio.CancelledError:
                self.typed.clear()
                return None if self._leaving() else ""
            finally:
                loop.remove_reader(fd)
            data = _read(fd)
            if not data:
                line = bytes(self.typed).decode("utf-8", errors="replace")
                self.typed.clear()
                with contextlib.suppress(OSError):
                    sys.stdout.write("\n")  # Ctrl+D echoes none
                return line or None
            self.typed += data
        first, _, rest = bytes(self.typed).partition(b"\n")
        self.typed = bytearray(rest)
        return first.decode("utf-8", errors="replace")

    def _typed_ahead(self) -> bytes:
        fd = sys.stdin.fileno()
        while os.isatty(fd) and select.select([fd], [], [], 0)[0] and (data := _read(fd)):
            self.typed += data
        ahead, self.typed = bytes(self.typed), bytearray()
        return ahead

    def _leaving(self) -> bool:
        return self.interrupts > 1 or self.running or self.hung_up

    def _interrupted(self) -> None:
        """Ctrl+C: cancels the turn; at the prompt clears the line, and leaves when pressed twice."""
        self.interrupts += 1
        sys.stdout.write("\n")
        sys.stdout.flush()
        if self.running:
            self.engine.submit(Cancel())
        if self.waiting is not None and not self.waiting.done():
            self.waiting.cancel()

    def _hang_up(self, number: int) -> None:
        """SIGHUP or SIGTERM: cancel the turn and complete the record."""
        self.hung_up = True
        if number == signal.SIGHUP:
            redirect_to_devnull(sys.stdout)
        if self.running:
            self.engine.submit(Cancel())
        if self.waiting is not None and not self.waiting.done():
            self.waiting.cancel()

    async def _close(self) -> None:
        closing = asyncio.create_task(self.engine.close())
        async for event in self.engine.events():
            self._show(event)
        with contextlib.suppress(asyncio.CancelledError):
            await closing
        if self.engine.view.is_recorded:
            self.renderer.line(flat(self.say("view.bye", id=self.engine.view.session_id)))


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 65536)
    except OSError:  # the terminal is gone
        return b""


def _resolve(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
