"""The interactive REPL: connects editor, screen and question to one engine."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from coder.base.process.own_process import on_signals
from coder.base.process.programs import end_running
from coder.engine.engine import Engine
from coder.engine.setup import Options, Settings
from coder.protocol.events import (
    AnyEvent,
    ApprovalRequested,
    ApprovalResolved,
    CommandDone,
    InputDone,
    SessionStarted,
    Steered,
    ToolCallChanged,
    TurnEnded,
)
from coder.protocol.modes import CustomModesListed, InstantModeExecuted
from coder.protocol.ops import Cancel
from coder.ui.terminal.ask.approval_prompt import ApprovalPrompt
from coder.ui.terminal.ask.question import QuestionQueue
from coder.ui.terminal.completion import make_editor
from coder.ui.terminal.input.actions import Actions, vim_mode
from coder.ui.terminal.input.editor import InputFocus
from coder.ui.terminal.input.keys import bindings
from coder.ui.terminal.input_dispatcher import InputDispatcher
from coder.ui.terminal.local_commands import with_local_help
from coder.ui.terminal.modes.mode_menu import Modes
from coder.ui.terminal.pick import Picker
from coder.ui.terminal.render.escapes import flat
from coder.ui.terminal.render.event_lines import command_lines, session_lines
from coder.ui.terminal.screen import Screen
from coder.ui.terminal.screen_state import PromptState, apply_event, input_sent, without_seen_diff
from coder.ui.terminal.statusline import StatusLine


class UnhandledErrors:
    """The event loop's exception handler. A repeated error ends the session: reporting it may cause it."""

    def __init__(self, report: Callable[[BaseException], None], leave: Callable[[], None]) -> None:
        self._report, self._leave = report, leave
        self._reported: set[str] = set()

    def report_once(self, error: Exception) -> bool:
        """False if it was reported before."""
        if repr(error) in self._reported:
            return False
        self._reported.add(repr(error))
        self._report(error)
        return True

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, Exception):
            loop.default_exception_handler(context)
        elif not self.report_once(error):
            self._leave()


_ROWS_FOR_STATUS = 6  # of the terminal
_SLICE_SECONDS = 0.004  # time spent on events before yielding to the event loop, so that keys are handled


class Repl:
    """Creates the parts and routes events to them."""

    def __init__(self, options: Options, settings: Settings, engine: Engine) -> None:
        self.engine, self.texts = engine, settings.texts
        ui, loop = settings.loaded.config.ui, asyncio.get_running_loop()
        self.state = PromptState(model=engine.view.model, mode=engine.view.mode)
        self.screen = Screen(options, settings, engine, self.state)
        screen = self.screen
        self.modes = Modes(
            self.texts,
            screen.theme,
            screen.size,
            lambda op: self.inputs.send_mode_op(op),
            screen.echo_dim,
            plain=ui.plain,
        )
        self.editor = make_editor(
            options, settings, engine, self.modes, lambda: self.state.model, self._menu_changed
        )
        picker = Picker(self.editor, self.texts, screen.size, screen.draw_soon)
        focus = InputFocus(self.editor, self.modes.bar)
        self.questions = QuestionQueue()
        self.question = ApprovalPrompt(
            self.state, focus, screen, self.questions, engine.submit, loop.call_later, self.texts
        )
        self.inputs = InputDispatcher(
            engine, self.state, self.editor, screen, picker, self.question.answer, self.texts
        )
        self.actions = Actions(focus, self.state, self.inputs, engine.view.root)
        self.status_line = StatusLine(ui.statusline, engine, self.texts, screen.draw_soon)
        keys = bindings(self.actions, picker, self.question, ui.keys)
        screen.open(self.editor, picker, self.question, self._bar_rows, keys)
        app = screen.region.app
        self.actions.attach(app)
        app.key_processor.after_key_press += lambda _processor: self._key_pressed()
        screen.after_frame = self.modes.after_prompt_drawn
        self.status_line.vim_mode = lambda: vim_mode(app, self.editor)
        engine.lend_terminal(partial(screen.region.lend, screen.draw_now))
        self.unhandled = UnhandledErrors(engine.failed, screen.leave)
        self._first_input = ""  # given on the command line; sent below the session's heading

    def _bar_rows(self) -> list[str]:
        columns, rows = self.screen.size()
        status = self.status_line.rows(columns) if rows >= _ROWS_FOR_STATUS else []
        return [*self.modes.bar.rows(columns), *map(self.screen.theme.line, status)]

    def _menu_changed(self) -> None:
        self.editor.refresh_menu()
        self.screen.draw_soon()

    def _key_pressed(self) -> None:
        actions, screen = self.actions, self.screen
        screen.notifier.key_pressed()
        self.question.key_pressed()
        if not actions.app.key_processor.key_buffer:  # else it is an Esc that may begin another key
            self.editor.keys_shown, actions.keys_asked = actions.keys_asked, False
        screen.rows.hint = self.texts.say(actions.hint) if actions.hint else ""

    async def run(self, question: str, *, pick: bool = False) -> int:
        """`pick`: choose a session to resume first; the question is then a draft."""
        app = self.screen.region.app
        reader = asyncio.create_task(self._read_events())
        reader.add_done_callback(lambda _: self.screen.leave())  # the engine has ended
        asyncio.get_running_loop().set_exception_handler(self.unhandled)
        on_signals(self._stop)
        self.screen.notifier.opened()
        if self.engine.view.is_waiting:
            input_sent(self.state)
        elif pick:
            self.editor.put_draft(question)
            app.pre_run_callables.append(lambda: self.inputs.submit("/resume"))
        else:
            self._first_input = question
        self.screen.draw_soon()
        try:
            with contextlib.suppress(EOFError, KeyboardInterrupt):
                await app.run_async(handle_sigint=True, set_exception_handler=False)
        finally:
            self.screen.throttle.stop()
            await self._close(reader)
        return 0

    def _stop(self, _number: int) -> None:
        """SIGTERM or SIGHUP, also while an editor, a pager or a `!` command has the terminal."""
        end_running()
        self.engine.submit(Cancel())
        self.screen.leave()

    async def _close(self, reader: asyncio.Task[None]) -> None:
        await self.status_line.close()
        await self.engine.close()
        await reader
        if self.engine.view.is_recorded:
            self.screen.echo_dim(flat(self.texts.say("view.bye", id=self.engine.view.session_id)))
        self.screen.write_last_rows()

    # events

    async def _read_events(self) -> None:
        """Handle events in time slices, so that a fast stream does not starve the keyboard."""
        spent = 0.0
        async for event in self.engine.events():
            started = time.monotonic()
            try:
                for one in self.questions.visible(event):
                    self._handle(one)
                if isinstance(event, SessionStarted) and event.resumed:
                    await self.inputs.replay()
            except Exception as error:  # the events after it still count
                self.unhandled.report_once(error)
            spent += time.monotonic() - started
            if spent > _SLICE_SECONDS:
                await asyncio.sleep(0)
                spent = 0.0

    def _handle(self, event: AnyEvent) -> None:
        screen = self.screen
        apply_event(self.state, event)
        screen.pager.handle(event)
        self.status_line.handle(event)
        if self.modes.handle(event):
            self.editor.refresh_menu()
            if isinstance(event, CustomModesListed):  # the typed text may match a mode
                self.editor.open_menu()
            screen.draw_soon()
            return
        match event:
            case SessionStarted():
                screen.transcript.echo(session_lines(event, self.texts, screen.columns))
                if first := self._first_input:
                    self._first_input = ""
                    self.inputs.send(first)
            case CommandDone():
                self._show_reply(event)
            case ToolCallChanged():
                screen.transcript.handle(without_seen_diff(self.state, event))
            case ApprovalRequested() | ApprovalResolved():
                self.question.update()
            case Steered():
                self.inputs.steered(event)
            case InputDone(op="user_input" | "trigger_instant_mode"):
                self._input_done(event)
            case _:
                screen.transcript.handle(event)
        if isinstance(event, CommandDone | InstantModeExecuted):
            self.inputs.restore_leftover(event, self.modes.fill)
        screen.spin(self.state.busy and self.state.approval is None)
        if isinstance(event, TurnEnded):
            screen.draw_now()  # counting tokens may block the loop next
        else:
            screen.draw_soon()

    def _show_reply(self, event: CommandDone) -> None:
        columns, transcript = self.screen.columns, self.screen.transcript
        if event.command.startswith("/diff") and (lines := self.screen.pager.page_reply(event)):
            self.screen.echo_dim(self.texts.say("terminal.paged", n=lines))
            return
        if event.command.split() == ["/help"]:
            event = with_local_help(event, self.texts, columns)
        if self.inputs.is_query(event.command):
            transcript.echo(command_lines(event, self.texts, columns), apart=True)
        else:
            transcript.handle(event)

    def _input_done(self, event: InputDone) -> None:
        notifier = self.screen.notifier
        notifier.idle()
        if event.exit:
            self.screen.leave()
            return
        if not self.state.queue or self.state.cancelled:
            notifier.alert(self.texts.say("terminal.call_done"))
        self.inputs.input_done(event)
