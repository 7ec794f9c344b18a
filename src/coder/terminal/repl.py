"""The interactive session: editor, stream and screen around one engine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time

from coder.config.allowlist import project_folder
from coder.engine.engine import Engine
from coder.engine.setup import Options, Settings
from coder.protocol.events import (
    AnyEvent,
    ApprovalRequested,
    ApprovalResolved,
    CommandDone,
    InputDone,
    SessionStarted,
    TurnEnded,
)
from coder.protocol.ops import ApprovalReply, Cancel, UserInput
from coder.terminal import notify, pager
from coder.terminal.actions import Actions
from coder.terminal.bar import ModeBar, NoBar
from coder.terminal.commands import BuiltIn, argument_menus, run_local
from coder.terminal.display import Display, context_line, live_limit, prompt_text
from coder.terminal.editing import approval_answer, batches, given_back
from coder.terminal.editor import Editor
from coder.terminal.files import FileIndex
from coder.terminal.history import ProjectHistory
from coder.terminal.keys import bindings
from coder.terminal.menu import Menus, MenuSource
from coder.terminal.output import terminal_output
from coder.terminal.pacing import Pacer
from coder.terminal.safe import safe
from coder.terminal.screen import Parts, Screen
from coder.terminal.stream import Stream, command_lines
from coder.terminal.talk import Talk, begin, follow
from coder.terminal.theme import Theme, chosen_theme
from coder.terminal.vim import ChangeRecorder
from coder.terminal.width import Line

_AWAY_SECONDS = 0.1
_SLICE_SECONDS = 0.004  # of events taken in a row before keys get their turn


class Repl:
    """Connects the parts; each does its own work."""

    def __init__(
        self,
        options: Options,
        settings: Settings,
        engine: Engine,
        sources: list[MenuSource] | None = None,
        bar: ModeBar | None = None,
    ) -> None:
        self.options, self.settings, self.engine = options, settings, engine
        self.texts = settings.texts
        ui = settings.loaded.config.ui
        desk = engine.desk
        self.theme = Theme(chosen_theme(ui.theme, options.environ))
        self.talk = Talk(model=desk.model_name, mode=desk.mode)
        self.loop = asyncio.get_running_loop()
        files = FileIndex(
            desk.root, options.environ, lambda: self.loop.call_soon_threadsafe(self._more_files)
        )
        sessions = argument_menus(
            lambda: list(dict.fromkeys([self.talk.model, *self.models])),
            lambda: [(info.session_id, info.title) for info in desk.store.infos(30)],
        )
        self.models: list[str] = []
        self.editor = Editor(
            ProjectHistory(project_folder(settings.home, desk.root) / "history"),
            Menus([BuiltIn(self.texts), *(sources or [])], sessions, files.search),
            lambda n: self.texts.say("terminal.pasted", n=n),
        )
        output = terminal_output()
        self.stream = Stream(self.texts, lambda: output.get_size().columns)
        self.display = Display(self.talk, self.editor, self.stream, self.texts, self.theme, options.cwd)
        self.display.plain = ui.plain
        self.display.size = lambda: (output.get_size().columns, output.get_size().rows)
        self.bar = bar or NoBar()
        self.actions = Actions(self.editor, self.talk, self, self.bar)
        shown = self.display
        parts = Parts(
            live=shown.live,
            status=shown.status,
            queue=shown.queue,
            menu=shown.menu,
            bar=lambda: self.bar.rows(self.screen.columns),
            prompt=shown.prompt,
        )
        self.screen = Screen(output, self.editor.buffer, parts, bindings(self.actions), vim=ui.vim)
        app = self.screen.app
        app.key_processor = self.actions.vim = ChangeRecorder(app, self.editor.buffer)
        app.after_render += lambda _app: None
        app.key_processor.after_key_press += lambda _processor: self._key_pressed()
        self.actions.app = app
        self.pacer = Pacer(self._draw)
        self._leaving = False

    # running

    async def run(self, question: str) -> int:
        """Until the person leaves."""
        reading = asyncio.create_task(self._read_events())
        for number in (signal.SIGTERM, signal.SIGHUP):
            self.loop.add_signal_handler(number, self.leave)
        self.screen.send(notify.PUSH_TITLE + notify.title(self._title()))
        if self.engine.desk.session.pending is not None:
            begin(self.talk)
        elif question:
            self._send(question)
        self._draw_soon()
        try:
            with contextlib.suppress(EOFError, KeyboardInterrupt):
                await self.screen.app.run_async(handle_sigint=True)
        finally:
            self.pacer.stop()
            await self._close(reading)
        return 0

    async def _read_events(self) -> None:
        """Events come in faster than anyone reads; between slices of them keys are handled and drawn."""
        spent = 0.0
        async for event in self.engine.events():
            begun = time.monotonic()
            self._take(event)
            spent += time.monotonic() - begun
            if spent > _SLICE_SECONDS:
                await asyncio.sleep(0)
                spent = 0.0

    def _take(self, event: AnyEvent) -> None:
        follow(self.talk, event)
        match event:
            case SessionStarted(session_id):
                self.stream.echo([[("dim", self.texts.say("view.session", id=session_id))]])
            case CommandDone(command) if command.startswith("/diff") and self._pages(event):
                pass
            case ApprovalRequested():
                self.stream.take(event)
                self.editor.stash()
                self.screen.send(notify.BELL if self._long() else "")
            case ApprovalResolved():
                self.editor.unstash()
            case InputDone():
                self._idle(event)
            case _:
                self.stream.take(event)
        self.pacer.spin(self.talk.busy and self.talk.approval is None and not self.display.plain)
        if isinstance(event, TurnEnded):
            self.pacer.now()  # what comes next (counting tokens) may keep the loop busy for a while
        else:
            self._draw_soon()

    def _idle(self, event: InputDone) -> None:
        self.screen.send((notify.BELL if self._long() else "") + notify.title(self._title()))
        if event.exit:
            self.leave()
        elif self.talk.cancelled and self.talk.queue:
            self.editor.put(given_back(self.talk.queue, self.editor.buffer.text))
            self.talk.queue.clear()
        elif self.talk.queue:
            first, *rest = batches(self.talk.queue)
            self.talk.queue[:] = rest
            self._send(first)

    # what the keys ask for

    def submit(self, text: str) -> bool:
        self.display.hint = ""
        if self.talk.approval is not None:
            return self._answer(self.talk.approval, text)
        if not text.strip():
            return True
        said = run_local(text, self, self.texts)
        if said is not None:
            self._echo_prompt(text)
            self.stream.echo([[("", line)] for line in safe(said).split("\n")])
        elif self.talk.busy:
            self.talk.queue.append(text)
        else:
            self._send(text)
        self._draw_soon()
        return True

    def _send(self, text: str) -> None:
        self._echo_prompt(text)
        begin(self.talk)
        self.engine.submit(UserInput(text))
        self.screen.send(notify.title(f"● {self._title()}"))
        self.pacer.spin(not self.display.plain)
        self._draw_soon()

    def _answer(self, event: ApprovalRequested, text: str) -> bool:
        found = approval_answer(text, can_always=event.can_always)
        if found is None:
            return not text.strip()
        answer, reason = found
        said = " ".join([self.texts.say(f"terminal.answer_{answer}"), *([safe(reason)] if reason else [])])
        self.stream.echo([[("dim", f"  → {said}")]])
        self.engine.submit(ApprovalReply(event.approval_id, answer, reason))
        return True

    def cancel(self) -> None:
        if self.talk.busy:
            self.talk.phase = "stopping"
            self.engine.submit(Cancel())

    def leave(self) -> None:
        if not self._leaving and self.screen.app.is_running:
            self._leaving = True
            self.screen.app.exit()

    # what local commands ask for

    @property
    def last_answer(self) -> str:
        return "".join(self.stream.answer)

    def toggle_vim(self) -> bool:
        from prompt_toolkit.enums import EditingMode

        on = self.screen.app.editing_mode != EditingMode.VI
        self.actions.set_vim(on)
        return on

    def send(self, sequence: str) -> None:
        self.screen.send(sequence)

    # drawing

    def _echo_prompt(self, text: str) -> None:
        """The prompt as it stood, with what was typed there: it stays in scrollback."""
        first, *others = safe(text).split("\n")
        prompt = ("prompt", prompt_text(self.talk, self.display.cwd))
        lines: list[Line] = [[], context_line(self.talk), [prompt, ("strong", first)]]
        self.stream.echo([*lines, *([("", f"  {line}")] for line in others)])

    def _draw_soon(self) -> None:
        self.pacer.request()

    def _draw(self) -> None:
        if self.screen.away:
            if self.screen.app.is_running:  # an editor or pager has the terminal: when it is back
                self.loop.call_later(_AWAY_SECONDS, self._draw_soon)
            return
        rows = self.stream.drain(0 if self.display.plain else live_limit(self.screen.rows))
        self.display.freeze()
        if rows:
            self.screen.commit([self.theme.line(row) for row in rows])
        else:
            self.screen.redraw()

    def _key_pressed(self) -> None:
        self.display.hint = self.texts.say("terminal.leave_hint") if self.actions.asked_to_leave else ""
        if not self.editor.empty:
            self.actions.asked_to_leave = False

    def _more_files(self) -> None:
        self.editor.refresh_menu()
        self._draw_soon()

    def _pages(self, event: CommandDone) -> bool:
        """Show a difference that is longer than the screen in the pager. False where it is not, or cannot."""
        lines = command_lines(event)
        command = pager.pager_command(os.environ)
        if len(lines) < self.screen.rows - 3 or command is None:
            return False
        from prompt_toolkit.application import run_in_terminal

        text = "".join(f"{self.theme.line(line)}\n" for line in lines)
        shown = self.screen.app.context
        if shown is None:
            return False
        shown.copy().run(run_in_terminal, lambda: pager.page(command, text), in_executor=True)
        self.stream.echo([[("dim", self.texts.say("terminal.paged", n=len(lines)))]])
        return True

    def _title(self) -> str:
        return f"coder · {self.options.cwd.name or self.options.cwd}"

    def _long(self) -> bool:
        return time.monotonic() - self.talk.since > notify.LONG_TURN_SECONDS

    async def _close(self, reading: asyncio.Task[None]) -> None:
        """Complete the record; what is still to be said goes straight to the terminal."""
        for number in (signal.SIGTERM, signal.SIGHUP):
            self.loop.remove_signal_handler(number)
        await self.engine.close()
        await reading
        self.stream.echo([[("dim", self.texts.say("view.bye", id=self.engine.desk.session.id))]])
        lines = [self.theme.line(row) for row in self.stream.drain(0)]
        with contextlib.suppress(OSError):
            self.screen.send("".join(f"{line}\r\n" for line in lines) + notify.POP_TITLE)
