"""The interactive REPL: connects editor, transcript and live region to one engine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from prompt_toolkit.filters import Condition

from coder.base.process.own_process import on_signals
from coder.base.process.programs import end_running
from coder.config.schema import key_names
from coder.engine.engine import Engine
from coder.engine.setup import Options, Settings, is_read_only_command
from coder.policy.visible import visible
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
from coder.protocol.modes import CustomModesListed, InstantModeExecuted, TriggerInstantMode
from coder.protocol.ops import ApprovalReply, Cancel, Query, SetOperatingMode, UserInput
from coder.tools.text.hunks import Hunk
from coder.ui.terminal import transcript_pager as pager
from coder.ui.terminal.ask.at_prompt import ApprovalPrompt
from coder.ui.terminal.ask.question import QuestionQueue
from coder.ui.terminal.ask.question_rows import hunk_lines
from coder.ui.terminal.input.actions import Actions
from coder.ui.terminal.input.keys import bindings
from coder.ui.terminal.local_commands import meant, run_local, with_local_help
from coder.ui.terminal.modes.wiring import ModeOp, Modes
from coder.ui.terminal.parts import make_editor, make_live_region
from coder.ui.terminal.pick import Picker
from coder.ui.terminal.render.escapes import flat, safe
from coder.ui.terminal.render.event_lines import command_lines, diff_rows
from coder.ui.terminal.render.frame_output import Throttle, terminal_output
from coder.ui.terminal.render.live_region import LiveRegion, may_ask
from coder.ui.terminal.render.live_rows import LiveRows, live_limit
from coder.ui.terminal.render.recorded import message_lines, session_lines
from coder.ui.terminal.render.theme import theme_for
from coder.ui.terminal.render.transcript import Transcript
from coder.ui.terminal.render.width import Line, wrap
from coder.ui.terminal.screen_state import (
    Mode,
    Outbox,
    PromptState,
    apply_event,
    input_sent,
    mode_named,
    without_seen_diff,
)
from coder.ui.terminal.statusline import Notifier, StatusLine
from coder.ui.terminal.transcript_pager import CHOOSING, LookBack, pick_source, with_choice


class Unhandled:
    """The event loop's exception handler. An error that comes again ends the session: it may be the drawing
    of what is to be told."""

    def __init__(self, tell: Callable[[BaseException], None], leave: Callable[[], None]) -> None:
        self._tell, self._leave = tell, leave
        self._told: set[str] = set()

    def once(self, error: Exception) -> bool:
        """Tell of it; False if it was told of before."""
        if repr(error) in self._told:
            return False
        self._told.add(repr(error))
        self._tell(error)
        return True

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, Exception):
            loop.default_exception_handler(context)
        elif not self.once(error):
            self._leave()


_ROWS_FOR_STATUS = 6  # of the terminal
_SLICE_SECONDS = 0.004  # time spent on events before yielding to the event loop, so that keys are handled


class Repl:
    """Routes events to the parts and keys to the engine."""

    def __init__(self, options: Options, settings: Settings, engine: Engine) -> None:
        self.options, self.settings, self.engine = options, settings, engine
        self.texts, self.ui = settings.texts, settings.loaded.config.ui
        self.theme = theme_for(self.ui.theme, options.environ)
        self.state = PromptState(model=engine.view.model, mode=engine.view.mode)
        self.loop = asyncio.get_running_loop()
        self.output = terminal_output()
        self.modes = Modes(
            self.texts, self.theme, self._size, self._send_op, self._echo_line, plain=self.ui.plain
        )
        self.editor = make_editor(
            options, settings, engine, self.modes, lambda: self.state.model, self._menu_changed
        )
        self.transcript = Transcript(self.texts, lambda: self._size()[0], self._transcript_rows)
        self.transcript.folds = not self.ui.plain
        self.transcript.pages = lambda: pager.pager_command(os.environ, engine.view.root) is not None
        self.transcript.thinking, self.transcript.output_lines = self.ui.thinking, self.ui.output_lines
        self.status_line = StatusLine(self.ui.statusline, engine, self.texts, self._draw_soon)
        self.picker = Picker(self.editor, self.texts, self._size, self._draw_soon)
        self.live_rows = self._new_live_rows()
        self.actions = Actions(self.editor, self.state, self, self.modes.bar)
        self.actions.workspace = engine.view.root
        self.live_region = self._new_live_region()
        self.status_line.vim_mode = self.actions.vim_mode
        self.approval_prompt = ApprovalPrompt(
            self.state, self.actions, self.texts, self, lambda delay, do: self.loop.call_later(delay, do)
        )
        self.live_rows.question_rows = lambda columns: self.approval_prompt.rows(columns, self._size()[1])
        self.live_rows.question_prompt = lambda columns: self.approval_prompt.prompt(columns, self._size()[1])
        name = f"coder · {options.cwd.name or options.cwd}"
        self.notifier = Notifier(self.ui, options.environ, name, self.live_region.send)
        self.look_back = LookBack(engine, self.texts, self.theme, self.live_region)
        self._retelling = False  # a resumed session's conversation is being written
        self.throttle = Throttle(self._draw)
        self.questions = QuestionQueue()
        self._first_input = ""  # given on the command line; sent below the session's heading
        self.outbox = Outbox(self.state, self.editor, engine.submit, self._send, self._echo_prompt)
        engine.lend_terminal(partial(self.live_region.lent, self.draw_now))
        self._last_input = ""  # put back into the editor if the engine refuses it
        self._beside: list[str] = []  # commands asked while a turn runs
        self._leaving = False
        self.unhandled = Unhandled(engine.failed, self.leave)
        self._redraw_pending = False  # a frame was skipped while an editor or pager had the terminal

    # the parts

    def _size(self) -> tuple[int, int]:
        size = self.output.get_size()
        return size.columns, size.rows

    def _transcript_rows(self) -> int:
        """The rows a question leaves for the transcript: its choices, the prompt (a draft may still be
        there), the queue and the bar are below."""
        columns, rows = self._size()
        below = len(self.live_rows.queue()) + len(self.live_rows.bar()) + self.live_rows.input_rows()
        return max(1, rows - below - max(1, len(self.approval_prompt.rows(columns, rows))))

    def _new_live_rows(self) -> LiveRows:
        rows = LiveRows(self.state, self.editor, self.transcript, self.texts, self.theme, self.options.cwd)
        rows.plain = self.ui.plain
        rows.size = self._size
        rows.redraw_after = lambda seconds: self.loop.call_later(seconds, self._draw_soon)
        rows.bar = self._bar_rows
        rows.key_names = key_names(self.ui.keys)
        self.transcript.unfold_key = rows.key_names["transcript"].lower().replace("–", "")
        picker = self.picker
        rows.pick_rows, rows.pick_prompt, rows.pick_title = picker.rows, picker.prompt, picker.title
        return rows

    def _bar_rows(self) -> list[str]:
        columns = self._size()[0]
        below = self.status_line.rows(columns) if self._size()[1] >= _ROWS_FOR_STATUS else []
        return [*self.modes.bar.rows(columns), *map(self.theme.line, below)]

    def _new_live_region(self) -> LiveRegion:
        keys = bindings(self.actions, self.picker, self.ui.keys)
        region = make_live_region(
            self.output, self.editor.buffer, self.live_rows, keys, self.texts, vim=self.ui.vim
        )
        self.actions.attach(region.app)
        region.app.after_render += lambda _app: self._after_render()
        if may_ask(self.ui.theme, self.options.environ):
            region.follow_background(self.theme, self._draw_soon)
        region.app.key_processor.after_key_press += lambda _processor: self._key_pressed()
        region.input.always_hide_cursor = Condition(lambda: self.editor.in_bar)
        return region

    # running

    async def run(self, question: str, *, pick: bool = False) -> int:
        """`pick`: choose a session to resume first; the question is then a draft."""
        reader = asyncio.create_task(self._read_events())
        reader.add_done_callback(lambda _: self.leave())  # the engine has ended
        self.loop.set_exception_handler(self.unhandled)
        on_signals(self._stop)
        self.notifier.opened()
        if self.engine.view.is_waiting:
            input_sent(self.state)
        elif pick:
            self.editor.put_draft(question)
            self.live_region.app.pre_run_callables.append(lambda: self._choose("/resume"))
        else:
            self._first_input = question
        self._draw_soon()
        try:
            with contextlib.suppress(EOFError, KeyboardInterrupt):
                await self.live_region.app.run_async(handle_sigint=True, set_exception_handler=False)
        finally:
            self.throttle.stop()
            await self._close(reader)
        return 0

    async def _read_events(self) -> None:
        """Handle events in time slices, so that a fast stream does not starve the keyboard."""
        spent = 0.0
        async for event in self.engine.events():
            started = time.monotonic()
            try:
                for one in self.questions.take(event):
                    self._handle(one)
                if isinstance(event, SessionStarted) and event.resumed:
                    await self._retell()
            except Exception as error:  # the events after it still count
                self.unhandled.once(error)
            spent += time.monotonic() - started
            if spent > _SLICE_SECONDS:
                await asyncio.sleep(0)
                spent = 0.0

    async def _retell(self) -> None:
        """What is sent meanwhile waits: it belongs below."""
        self._retelling = True
        try:
            await self.look_back.retell(self.transcript, self.throttle.now)
        finally:
            self._retelling = False
        if not self.state.busy:
            self.outbox.send_next()

    def _handle(self, event: AnyEvent) -> None:
        apply_event(self.state, event)
        self.look_back.take(event)
        self.status_line.take(event)
        if self.modes.take(event):
            self.editor.refresh_menu()
            if isinstance(event, CustomModesListed):  # what is already typed may match a mode
                self.editor.open_menu()
            self._draw_soon()
            return
        match event:
            case SessionStarted():
                self.transcript.echo(session_lines(event, self.texts, self.live_region.columns))
                if first := self._first_input:
                    self._first_input = ""
                    self._send(first)
            case CommandDone():
                self._show_reply(event)
            case ToolCallChanged():
                self.transcript.handle(without_seen_diff(self.state, event))
            case ApprovalRequested() | ApprovalResolved():
                self.approval_prompt.update()
            case Steered():
                self.outbox.steered(event)
            case InputDone(op="user_input" | "trigger_instant_mode"):
                self._input_done(event)
            case _:
                self.transcript.handle(event)
        if isinstance(event, CommandDone | InstantModeExecuted):
            self._offer_leftover(event)
        self.throttle.spin(self.state.busy and self.state.approval is None and not self.live_rows.plain)
        if isinstance(event, TurnEnded):
            self.throttle.now()  # what follows (counting tokens) may block the loop
        else:
            self._draw_soon()

    def _show_reply(self, event: CommandDone) -> None:
        columns = self.live_region.columns
        if event.command.startswith("/diff") and (lines := self.look_back.page_reply(event)):
            self.transcript.echo([[("dim", self.texts.say("terminal.paged", n=lines))]])
            return
        if event.command.split() == ["/help"]:
            event = with_local_help(event, self.texts, columns)
        if event.command in self._beside:
            self._beside.remove(event.command)
            self.transcript.echo(command_lines(event, self.texts, columns), apart=True)
        else:
            self.transcript.handle(event)

    def _input_done(self, event: InputDone) -> None:
        self.notifier.idle()
        if event.exit:
            self.leave()
            return
        self._beside.clear()
        if not self.state.queue or self.state.cancelled:
            self.notifier.alert(self.texts.say("terminal.call_done"))
        self.outbox.input_done(event, self._last_input)

    def _offer_leftover(self, event: CommandDone | InstantModeExecuted) -> None:
        """Put unused text of the line back into the editor, or open the form for missing values. Not if the
        person has gone on typing."""
        if not self.editor.empty or self.state.queue:
            return
        data = event.data if isinstance(event, CommandDone) else {"leftover": event.leftover}
        if draft := data.get("draft"):
            self.editor.put(str(draft))
        elif leftover := data.get("leftover"):
            self.editor.put(str(leftover))
            self.live_rows.hint = self.texts.say("terminal.leftover_hint")
        else:
            self.editor.in_bar = self.modes.fill(data) or self.editor.in_bar

    # SessionControl

    def submit(self, text: str) -> None:
        self.live_rows.hint = ""
        if self.state.approval is not None and self.state.answering:
            self.approval_prompt.answer(self.state.approval, text)
            return
        if not text.strip():
            if not self.state.busy:
                self.outbox.send_next()
            return
        text = meant(text)
        if (command := " ".join(text.split())) in CHOOSING and not self.state.busy:
            self._choose(command)
        elif (reply := run_local(text, self, self.texts)) is not None:
            self._echo_prompt(text)
            self.transcript.echo([[("", line)] for line in safe(reply).split("\n")], apart=self.state.busy)
        elif self.state.busy and (mode := mode_named(text)):
            self._echo_apart(text, self.texts.say(f"mode.set.{mode}"))
            self.set_mode(mode)
        elif self.state.busy and is_read_only_command(text):
            self._echo_apart(text)
            self._beside.append(text)
            self.engine.submit(Query(text))
        elif self.state.busy or self._retelling:
            self.state.queue.append(text)
            if self.live_rows.plain:
                self.transcript.echo([self.live_rows.queued(text)], apart=True)
        else:
            self._send(text)
        self._draw_soon()

    def _echo_apart(self, text: str, reply: str = "") -> None:
        """What was typed while a turn runs, without ending the answer that streams."""
        columns = self.live_region.columns
        said = message_lines(self.editor.as_typed(text), columns)
        self.transcript.echo([[], *said, *(wrap([("", reply)], columns) if reply else [])], apart=True)

    def steer(self, text: str) -> None:
        self.outbox.steer(text)
        self._draw_soon()

    def show_transcript(self) -> None:
        if not self.look_back.open_transcript():
            self._say_no_pager()

    def rewind(self) -> None:
        if not self._retelling:
            self._choose("/rewind")

    def _choose(self, command: str) -> None:
        """Its argument, from a list; where there is nothing to choose, the command says so."""
        source = pick_source(command, self.engine, self.texts)
        self.picker.show(source, lambda key: self._send(with_choice(command, key)))

    def set_mode(self, mode: Mode) -> None:
        self.engine.submit(SetOperatingMode(mode))

    def question_takes(self, key: str) -> bool:
        return self.approval_prompt.word_rest.takes(key) or self.approval_prompt.takes(key)

    def question_key(self, key: str) -> None:
        prompt = self.approval_prompt
        (prompt.word_rest.key if prompt.word_rest.takes(key) else prompt.key)(key)
        self._draw_soon()

    def question_backspace(self) -> bool:
        return self.approval_prompt.backspace()

    def _echo_line(self, text: str) -> None:
        self.transcript.echo([[("dim", text)]])

    def _send_op(self, op: ModeOp) -> bool:
        """False for an instant mode while a turn runs: it is a turn itself."""
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
        input_sent(self.state)
        self._last_input = text
        self.engine.submit(op or UserInput(text, pasted=self.editor.pasted_in(text)))
        self.notifier.busy()
        self.throttle.spin(not self.live_rows.plain)
        self._draw_soon()

    # ask.at_prompt.Surroundings

    def show_question(self, event: ApprovalRequested) -> None:
        self.transcript.handle(event)
        self.notifier.alert(self.texts.say("terminal.call_approval"))

    def show_hunk(self, hunk: Hunk, number: int, count: int) -> None:
        self.transcript.echo(hunk_lines(hunk, number, count, self.texts, self.live_region.columns))
        self.draw_now()  # no key may answer what is not on the screen yet

    def say_answer(self, line: Line) -> None:
        margin: Line = [("", "  ")]
        self.transcript.echo(wrap(line, self.live_region.columns, margin, margin))
        self._draw_soon()

    def send_reply(self, op: ApprovalReply | SetOperatingMode) -> None:
        self.engine.submit(op)

    def draw_now(self) -> None:
        self.throttle.now()

    def page_diff(self, text: str) -> None:
        if not self.look_back.page_lines(diff_rows(safe(visible(text).text))):
            self._say_no_pager()

    def _say_no_pager(self) -> None:
        self.say_answer([("bad", self.texts.say("terminal.no_pager"))])

    def edit_diff(self, text: str, done: Callable[[str | None], None]) -> None:
        self.actions.edit_diff(text, done)

    @property
    def question_follows(self) -> bool:
        return self.questions.follows

    @property
    def is_away(self) -> bool:
        return self.live_region.away

    @property
    def has_unread_keys(self) -> bool:
        return self.live_region.has_unread_keys

    def cancel(self) -> None:
        if self.state.busy:
            self.state.phase = "stopping"
            self.engine.submit(Cancel())

    def _stop(self, _number: int) -> None:
        """SIGTERM or SIGHUP: also where an editor, a pager or a `!` command has the terminal."""
        end_running()
        self.engine.submit(Cancel())
        self.leave()

    def leave(self) -> None:
        if not self._leaving and self.live_region.app.is_running:
            self._leaving = True
            self.live_region.app.exit()

    # local_commands.Terminal

    @property
    def last_answer(self) -> str:
        return "".join(self.transcript.answer)

    def toggle_vim(self) -> bool:
        from prompt_toolkit.enums import EditingMode

        on = self.live_region.app.editing_mode != EditingMode.VI
        self.actions.set_vim(on)
        return on

    def send(self, sequence: str) -> None:
        self.live_region.send(sequence)

    # drawing

    def _echo_prompt(self, text: str) -> None:
        """Copy the typed text into the transcript."""
        said = message_lines(self.editor.as_typed(text), self.live_region.columns)
        self.transcript.echo([[], *said])

    def _draw_soon(self) -> None:
        self.throttle.request()

    def _draw(self) -> None:
        if self.live_region.away:
            self._redraw_pending = True
            return
        rows = self.transcript.drain(0 if self.live_rows.plain else live_limit(self.live_region.rows))
        self.live_rows.update_tail()
        if rows:
            self.live_region.commit([self.theme.line(row) for row in rows])
        else:
            self.live_region.redraw()
        self.modes.prompt_drawn()

    def _after_render(self) -> None:
        """Draw the frame that was skipped while an editor or pager had the terminal."""
        self.modes.prompt_drawn()
        if self._redraw_pending:
            self._redraw_pending = False
            self._draw_soon()

    def _key_pressed(self) -> None:
        self.notifier.key_pressed()
        self.approval_prompt.key_pressed()
        if not self.live_region.app.key_processor.key_buffer:  # else it is an Esc that may begin another key
            self.editor.keys_shown, self.actions.keys_asked = self.actions.keys_asked, False
        self.live_rows.hint = self.texts.say(self.actions.hint) if self.actions.hint else ""

    def _menu_changed(self) -> None:
        self.editor.refresh_menu()
        self._draw_soon()

    async def _close(self, reader: asyncio.Task[None]) -> None:
        """Complete the record; the last rows are written directly, as the application has ended."""
        await self.status_line.close()
        await self.engine.close()
        await reader
        if self.engine.view.is_recorded:
            goodbye = self.texts.say("view.bye", id=self.engine.view.session_id)
            self.transcript.echo([[("dim", flat(goodbye))]])
        lines = [self.theme.line(row) for row in self.transcript.drain(0)]
        self.live_region.send("".join(f"{line}\r\n" for line in lines))
        self.notifier.closed()
