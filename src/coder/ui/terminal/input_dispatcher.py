"""Routes submitted text: answers, local commands, queries, messages, and the queue of waiting ones."""

from __future__ import annotations

from collections.abc import Callable

from coder.engine.engine import Engine
from coder.engine.setup import is_read_only_command
from coder.protocol.events import ApprovalRequested, CommandDone, InputDone, Steered
from coder.protocol.modes import InstantModeExecuted, ListCustomModes, SetModeState, TriggerInstantMode
from coder.protocol.ops import Cancel, Query, SetOperatingMode, Steer, UserInput
from coder.texts import Catalog
from coder.ui.terminal.input.editing import batches, restored_draft
from coder.ui.terminal.input.editor import Editor
from coder.ui.terminal.local_commands import resolve_command, run_local
from coder.ui.terminal.pick import Picker
from coder.ui.terminal.render.escapes import safe
from coder.ui.terminal.screen import Screen
from coder.ui.terminal.screen_state import Mode, PromptState, input_sent, mode_named
from coder.ui.terminal.transcript_pager import CHOOSING, pick_source, with_choice


class InputDispatcher:
    """The session as the prompt controls it; keeps `state.queue` and `state.steered`."""

    def __init__(
        self,
        engine: Engine,
        state: PromptState,
        editor: Editor,
        screen: Screen,
        picker: Picker,
        answer: Callable[[ApprovalRequested, str], None],
        texts: Catalog,
    ) -> None:
        """`answer`: of the open question."""
        self._engine, self._state, self._editor = engine, state, editor
        self._screen, self._picker, self._answer, self._texts = screen, picker, answer, texts
        self._last = ""  # put back into the editor if the engine refuses it
        self._queries: list[str] = []  # commands run beside the current turn
        self._replaying = False

    def submit(self, text: str) -> None:
        state = self._state
        self._screen.rows.hint = ""
        if state.approval is not None and state.answering:
            self._answer(state.approval, text)
            return
        if not text.strip():
            if not state.busy:
                self.send_next()
            return
        text = resolve_command(text)
        if (command := " ".join(text.split())) in CHOOSING and not state.busy:
            self._choose(command)
        elif (reply := run_local(text, self._screen, self._texts)) is not None:
            self._screen.echo_message(text)
            self._screen.transcript.echo([[("", line)] for line in safe(reply).split("\n")], apart=state.busy)
        elif state.busy and (mode := mode_named(text)):
            self._screen.echo_message(text, apart=True, reply=self._texts.say(f"mode.set.{mode}"))
            self.set_mode(mode)
        elif state.busy and is_read_only_command(text):
            self._screen.echo_message(text, apart=True)
            self._queries.append(text)
            self._engine.submit(Query(text))
        elif state.busy or self._replaying:
            state.queue.append(text)
            if self._screen.rows.plain:
                self._screen.transcript.echo([self._screen.rows.queued(text)], apart=True)
        else:
            self.send(text)
        self._screen.draw_soon()

    def send(self, text: str, op: TriggerInstantMode | None = None) -> None:
        self._screen.echo_message(text)
        input_sent(self._state)
        self._last = text
        self._engine.submit(op or UserInput(text, pasted=self._editor.pastes.pasted_in(text)))
        self._screen.notifier.busy()
        self._screen.spin(True)
        self._screen.draw_soon()

    def send_next(self) -> None:
        """Send the next part of the queue, if any."""
        if self._state.queue:
            first, *rest = batches(self._state.queue)
            self._state.queue[:] = rest
            self.send(first)

    def send_mode_op(self, op: ListCustomModes | SetModeState | TriggerInstantMode) -> bool:
        """False for an instant mode while a turn runs: it is a turn itself."""
        if not isinstance(op, TriggerInstantMode):
            self._engine.submit(op)
            return True
        if self._state.busy:
            return False
        given = [f"{name}={v.value}" for name, v in op.variables.items() if not isinstance(v, str)]
        self.send(" ".join([op.mode_id, *given]), op)
        return True

    def steer(self, text: str) -> None:
        self._state.steered.append(text)
        self._engine.submit(Steer(text, pasted=self._editor.pastes.pasted_in(text)))
        self._screen.draw_soon()

    def set_mode(self, mode: Mode) -> None:
        self._engine.submit(SetOperatingMode(mode))

    def cancel(self) -> None:
        if self._state.busy:
            self._state.phase = "stopping"
            self._engine.submit(Cancel())

    def leave(self) -> None:
        self._screen.leave()

    def show_transcript(self) -> None:
        self._screen.show_transcript()

    def rewind(self) -> None:
        if not self._replaying:
            self._choose("/rewind")

    def _choose(self, command: str) -> None:
        """Choose the command's argument from a list; if that is empty, the command reports it."""
        source = pick_source(command, self._engine, self._texts)
        self._picker.show(source, lambda key: self.send(with_choice(command, key)))

    # events

    async def replay(self) -> None:
        """Show a resumed conversation; input is queued meanwhile, to appear below it."""
        self._replaying = True
        try:
            await self._screen.pager.replay(self._screen.transcript, self._screen.draw_now)
        finally:
            self._replaying = False
        if not self._state.busy:
            self.send_next()

    def is_query(self, command: str) -> bool:
        """Whether a reply belongs to a command run beside the turn."""
        found = command in self._queries
        if found:
            self._queries.remove(command)
        return found

    def steered(self, event: Steered) -> None:
        """Send a message that the model did not read like any other."""
        state = self._state
        if event.text in state.steered:
            state.steered.remove(event.text)
        if event.heard:
            self._screen.echo_message(event.text)
        elif state.busy:
            state.queue.append(event.text)
        else:
            self.send(event.text)

    def input_done(self, event: InputDone) -> None:
        """Continue with the queue. After a cancel it waits for the person: the first message returns to an
        empty editor, the others stay queued."""
        state, editor = self._state, self._editor
        self._queries.clear()
        if event.refused:
            editor.put(restored_draft([self._last], editor.buffer.text))
        elif not state.cancelled:
            self.send_next()
        elif state.queue and not editor.message.strip():
            editor.put(state.queue.pop(0))

    def restore_leftover(self, event: CommandDone | InstantModeExecuted, fill: Callable[..., bool]) -> None:
        """Put unused text of the line back into the editor, or `fill` the form for missing values, unless the
        person has typed more."""
        if not self._editor.empty or self._state.queue:
            return
        data = event.data if isinstance(event, CommandDone) else {"leftover": event.leftover}
        if draft := data.get("draft"):
            self._editor.put(str(draft))
        elif leftover := data.get("leftover"):
            self._editor.put(str(leftover))
            self._screen.rows.hint = self._texts.say("terminal.leftover_hint")
        else:
            self._editor.in_bar = fill(data) or self._editor.in_bar
