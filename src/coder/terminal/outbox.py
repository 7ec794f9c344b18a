"""Messages typed while a turn runs: queued for its end, or sent to the model with its next step."""

from __future__ import annotations

from collections.abc import Callable

from coder.protocol.events import InputDone, Steered
from coder.protocol.ops import Steer
from coder.terminal.input.editing import batches, restored_draft
from coder.terminal.input.editor import Editor
from coder.terminal.state import PromptState


class Outbox:
    """Keeps `state.queue` and `state.steered`."""

    def __init__(
        self,
        state: PromptState,
        editor: Editor,
        submit: Callable[[Steer], None],
        send: Callable[[str], None],
        echo: Callable[[str], None],
    ) -> None:
        """`send`: as an input of its own; `echo`: into the transcript."""
        self._state, self._editor = state, editor
        self._submit, self._send, self._echo = submit, send, echo

    def steer(self, text: str) -> None:
        self._state.steered.append(text)
        self._submit(Steer(text, pasted=self._editor.pasted_in(text)))

    def steered(self, event: Steered) -> None:
        """It was heard; otherwise it is a message like any other."""
        state = self._state
        if event.text in state.steered:
            state.steered.remove(event.text)
        if event.heard:
            self._echo(event.text)
        elif state.busy:
            state.queue.append(event.text)
        else:
            self._send(event.text)

    def input_done(self, event: InputDone, last: str) -> None:
        """Go on with the queue. After a cancel it waits for the person: the first message comes back into an
        empty editor, the others stay queued. `last`: the input that is done."""
        state, editor = self._state, self._editor
        if event.refused:
            editor.put(restored_draft([last], editor.buffer.text))
        elif not state.cancelled:
            self.send_next()
        elif state.queue and not editor.message.strip():
            editor.put(state.queue.pop(0))

    def send_next(self) -> None:
        if self._state.queue:
            first, *rest = batches(self._state.queue)
            self._state.queue[:] = rest
            self._send(first)
