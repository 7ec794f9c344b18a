"""The interactive session: editor, stream and screen around one engine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time

from prompt_toolkit.filters import Condition

from coder.config.allowlist import project_folder
from coder.engine.engine import Engine
from coder.engine.setup import Options, Settings, listed_models, provider_of
from coder.protocol.events import (
    AnyEvent,
    ApprovalRequested,
    ApprovalResolved,
    CommandDone,
    InputDone,
    SessionStarted,
    ToolCallChanged,
    TurnEnded,
)
from coder.protocol.modes import CustomModesListed, InstantModeExecuted, TriggerInstantMode
from coder.protocol.ops import Cancel, UserInput
from coder.terminal import pager
from coder.terminal.ask.at_prompt import Approving
from coder.terminal.ask.queue import QuestionQueue
from coder.terminal.input.actions import Actions
from coder.terminal.input.editing import batches, given_back
from coder.terminal.input.editor import Editor
from coder.terminal.input.file_index import FileIndex
from coder.terminal.input.history import ProjectHistory
from coder.terminal.input.keys import bindings
from coder.terminal.input.menu import Arguments, Menus
from coder.terminal.local_commands import BuiltIn, argument_menus, run_local, with_local_help
from coder.terminal.models import ModelNames
from coder.terminal.modes.wiring import ModeOp, Modes
from coder.terminal.notify import Beacon
from coder.terminal.render.event_lines import command_lines
from coder.terminal.render.frame_output import terminal_output
from coder.terminal.render.live_region import LiveRegion, Parts
from coder.terminal.render.live_rows import LiveRows, live_limit
from coder.terminal.render.recap import session_lines
from coder.terminal.render.sanitize import flat, safe
from coder.terminal.render.theme import Theme, chosen_theme
from coder.terminal.render.throttle import Throttle
from coder.terminal.render.transcript import Transcript
from coder.terminal.render.width import Line, wrap
from coder.terminal.state import PromptState, begin, context_line, follow, prompt_text, without_seen_diff

_SLICE_SECONDS = 0.004  # of events taken in a row before keys get their turn


class Repl:
    """Connects the parts; each does its own work."""

    def __init__(self, options: Options, settings: Settings, engine: Engine) -> None:
        self.options, self.settings, self.engine = options, settings, engine
        self.texts, self.ui = settings.texts, settings.loaded.config.ui
        self.theme = Theme(chosen_theme(self.ui.theme, options.environ))
        self.state = PromptState(model=engine.view.model, mode=engine.view.mode)
        self.loop = asyncio.get_running_loop()
        self.output = terminal_output()
        self.modes = Modes(self.texts, self.theme, self._size, self._send_op, self._say, plain=self.ui.plain)
        self.editor = self._new_editor()
        self.stream = Transcript(self.texts, lambda: self._size()[0], self._rows_above)
        self.display = self._new_display()
        self.actions = Actions(self.editor, self.state, self, self.modes.bar)
        self.screen = self._new_screen()
        self.approving = Approving(
            self.state,
            self.actions,
            self.texts,
            show=self._put_question,
            say=self._say_of_question,
            send=engine.submit,
        )
        name = f"coder · {options.cwd.name or options.cwd}"
        self.beacon = Beacon(self.ui, options.environ, name, self.screen.send)
        self.pacer = Throttle(self._draw)
        self.in_turn = QuestionQueue()
        self._sent = ""  # the newest input, to be given back where it is refused
        self._leaving = False
        self._held = False  # there is something to draw that an editor or a pager was in the way of

    # the parts

    def _size(self) -> tuple[int, int]:
        size = self.output.get_size()
        return size.columns, size.rows

    def _rows_above(self) -> int:
        """What a question leaves for the stream: its own row, the queue and the bar stand below."""
        below = 1 + len(self.display.queue()) + len(self.display.bar())
        return max(1, self._size()[1] - below)

    def _new_editor(self) -> Editor:
        view, home = self.engine.view, self.settings.home
        files = FileIndex(
            view.root, view.environment, lambda: self.loop.call_soon_threadsafe(self._more_to_choose)
        )
        return Editor(
            ProjectHistory(project_folder(home, view.root) / "history"),
            Menus([BuiltIn(self.texts), self.modes.menu], self._arguments(), files.search),
            lambda n: self.texts.say("terminal.pasted", n=n),
        )

    def _arguments(self) -> dict[str, Arguments]:
        """What can be completed after a command's name."""
        options, settings, view = self.options, self.settings, self.engine.view
        models = ModelNames(
            view.configured_models,
            lambda: listed_models(provider_of(options, settings)),
            self._more_to_choose,
        )
        menus = argument_menus(
            lambda: models.names(self.state.model),
            lambda: [(info.session_id, info.title) for info in view.sessions(30)],
            view.allowed_commands,
        )
        return {**menus, "modes": self.modes.menu.arguments}

    def _new_display(self) -> LiveRows:
        display = LiveRows(self.state, self.editor, self.stream, self.texts, self.theme, self.options.cwd)
        display.plain = self.ui.plain
        display.size = self._size
        display.bar = lambda: self.modes.bar.rows(self._size()[0])
        return display

    def _new_screen(self) -> LiveRegion:
        shown, say = self.display, self.texts.say
        parts = Parts(
            live=shown.live,
            status=shown.status,
            queue=shown.queue,
            menu=shown.menu,
            bar=shown.bar,
            prompt=shown.prompt,
        )
        keys = bindings(self.actions)
        search = say("terminal.search"), say("terminal.search_back")
        screen = LiveRegion(self.output, self.editor.buffer, parts, keys, vim=self.ui.vim, search=search)
        self.actions.attach(screen.app)
        screen.app.after_render += lambda _app: self._rendered()
        screen.app.key_processor.after_key_press += lambda _processor: self._key_pressed()
        screen.input.always_hide_cursor = Condition(lambda: self.editor.in_bar)
        return screen

    # running

    async def run(self, question: str) -> int:
        """Until the person leaves."""
        reading = asyncio.create_task(self._read_events())
        for number in (signal.SIGTERM, signal.SIGHUP):
            self.loop.add_signal_handler(number, self.leave)
        self.beacon.opened()
        if self.engine.view.is_waiting:
            begin(self.state)
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
            for one in self.in_turn.take(event):
                self._take(one)
            spent += time.monotonic() - begun
            if spent > _SLICE_SECONDS:
                await asyncio.sleep(0)
                spent = 0.0

    def _take(self, event: AnyEvent) -> None:
        follow(self.state, event)
        if self.modes.take(event):
            self.editor.refresh_menu()
            if isinstance(event, CustomModesListed):  # what is typed already may fit one of them
                self.editor.open_menu()
            self._draw_soon()
            return
        match event:
            case SessionStarted():
                self.stream.echo(session_lines(event, self.texts, self.screen.columns))
            case CommandDone(command) if command.startswith("/diff") and self._pages(event):
                pass
            case CommandDone(command) if command.split() == ["/help"]:
                self.stream.take(with_local_help(event, self.texts, self.screen.columns))
            case ToolCallChanged():
                self.stream.take(without_seen_diff(self.state, event))
            case ApprovalRequested() | ApprovalResolved():
                self.approving.follow()
            case InputDone(op="user_input" | "trigger_instant_mode"):
                self._idle(event)
            case _:
                self.stream.take(event)
        if isinstance(event, CommandDone | InstantModeExecuted):
            self._offer(event)
        self.pacer.spin(self.state.busy and self.state.approval is None and not self.display.plain)
        if isinstance(event, TurnEnded):
            self.pacer.now()  # what comes next (counting tokens) may keep the loop busy for a while
        else:
            self._draw_soon()

    def _idle(self, event: InputDone) -> None:
        self.beacon.idle()
        if event.exit:
            self.leave()
            return
        if not self.state.queue or self.state.cancelled:
            self.beacon.call(self.texts.say("terminal.call_done"))
        waiting = [self._sent, *self.state.queue] if event.refused else self.state.queue
        if (self.state.cancelled or event.refused) and waiting:
            self.editor.put(given_back(waiting, self.editor.buffer.text))
            self.state.queue.clear()
        elif self.state.queue:
            first, *rest = batches(self.state.queue)
            self.state.queue[:] = rest
            self._send(first)

    def _offer(self, event: CommandDone | InstantModeExecuted) -> None:
        """What a line left over, to be sent as a message; or the form for what it lacked. Not where
        the person has gone on typing."""
        if not self.editor.empty or self.state.queue:
            return
        data = event.data if isinstance(event, CommandDone) else {"leftover": event.leftover}
        if leftover := data.get("leftover"):
            self.editor.put(str(leftover))
            self.display.hint = self.texts.say("terminal.leftover_hint")
        else:
            self.editor.in_bar = self.modes.fill(data) or self.editor.in_bar

    # what the keys ask for

    def submit(self, text: str) -> bool:
        self.display.hint = ""
        if self.state.approval is not None:
            return self.approving.answer(self.state.approval, text)
        if not text.strip():
            return True
        said = run_local(text, self, self.texts)
        if said is not None:
            self._echo_prompt(text)
            self.stream.echo([[("", line)] for line in safe(said).split("\n")], apart=self.state.busy)
        elif self.state.busy:
            self.state.queue.append(text)
            if self.display.plain:
                self.stream.echo([self.display.queued(text)], apart=True)
        else:
            self._send(text)
        self._draw_soon()
        return True

    def _say(self, text: str) -> None:
        self.stream.echo([[("dim", text)]])

    def _send_op(self, op: ModeOp) -> bool:
        """An instant mode is a turn, and has to wait for the one that runs."""
        if not isinstance(op, TriggerInstantMode):
            self.engine.submit(op)
            return True
        if self.state.busy:
            return False
        given = [f"{name}={v.value}" for name, v in op.variables.items() if not isinstance(v, str)]
        self._send(" ".join([op.mode_id, *given]), op)
        return True

    def _send(self, text: str, op: TriggerInstantMode | None = None) -> None:
        self._echo_prompt(text)
        begin(self.state)
        self._sent = text
        self.engine.submit(op or UserInput(text, pasted=self.editor.pasted_in(text)))
        self.beacon.busy()
        self.pacer.spin(not self.display.plain)
        self._draw_soon()

    def _put_question(self, event: ApprovalRequested) -> None:
        self.stream.take(event)
        self.beacon.call(self.texts.say("terminal.call_approval"))

    def _say_of_question(self, line: Line) -> None:
        margin: Line = [("", "  ")]
        self.stream.echo(wrap(line, self.screen.columns, margin, margin))
        self._draw_soon()

    def cancel(self) -> None:
        if self.state.busy:
            self.state.phase = "stopping"
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
        first, *others = safe(self.editor.as_typed(text)).split("\n")
        prompt = ("prompt", prompt_text(self.state, self.display.cwd))
        lines: list[Line] = [[], context_line(self.state), [prompt, ("strong", first)]]
        self.stream.echo([*lines, *([("", f"  {line}")] for line in others)])

    def _draw_soon(self) -> None:
        self.pacer.request()

    def _draw(self) -> None:
        if self.screen.away:
            self._held = True
            return
        rows = self.stream.drain(0 if self.display.plain else live_limit(self.screen.rows))
        self.display.freeze()
        if rows:
            self.screen.commit([self.theme.line(row) for row in rows])
        else:
            self.screen.redraw()
        self.modes.shown()

    def _rendered(self) -> None:
        """The screen is ours: it was drawn by a key, or because an editor or a pager has been left."""
        self.modes.shown()
        if self._held:
            self._held = False
            self._draw_soon()

    def _key_pressed(self) -> None:
        self.beacon.person_is_here()
        self.approving.key_pressed()
        if not self.editor.empty:
            self.actions.asked_to_leave = False
        self.display.hint = self.texts.say("terminal.leave_hint") if self.actions.asked_to_leave else ""

    def _more_to_choose(self) -> None:
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
        shown.copy().run(
            run_in_terminal,
            lambda: pager.page(command, text, self.engine.view.environment),
            in_executor=True,
        )
        self.stream.echo([[("dim", self.texts.say("terminal.paged", n=len(lines)))]])
        return True

    async def _close(self, reading: asyncio.Task[None]) -> None:
        """Complete the record; what is still to be said goes straight to the terminal."""
        for number in (signal.SIGTERM, signal.SIGHUP):
            self.loop.remove_signal_handler(number)
        await self.engine.close()
        await reading
        if self.engine.view.is_recorded:
            goodbye = self.texts.say("view.bye", id=self.engine.view.session_id)
            self.stream.echo([[("dim", flat(goodbye))]])
        lines = [self.theme.line(row) for row in self.stream.drain(0)]
        self.screen.send("".join(f"{line}\r\n" for line in lines))
        self.beacon.closed()
