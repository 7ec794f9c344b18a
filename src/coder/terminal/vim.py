"""What prompt_toolkit's vi lacks: `.`, and a `cw` that leaves the space after the word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prompt_toolkit.filters import vi_navigation_mode
from prompt_toolkit.key_binding.key_bindings import Binding
from prompt_toolkit.key_binding.key_processor import KeyPress, KeyProcessor
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.keys import Keys

if TYPE_CHECKING:
    from prompt_toolkit.application import Application
    from prompt_toolkit.buffer import Buffer
    from prompt_toolkit.key_binding import KeyPressEvent

_NOT_CHANGES = {"u", Keys.ControlR, Keys.Up, Keys.Down, "j", "k", Keys.ControlM}


class ChangeRecorder(KeyProcessor):
    """Hears every key that was handled. A change is what was pressed from one rest in navigation mode to the
    next, if the text is another afterwards."""

    def __init__(self, app: Application[None], buffer: Buffer) -> None:
        super().__init__(app.key_processor._bindings)
        self._buffer = buffer
        self._pressed: list[KeyPress] = []
        self._before: str | None = None  # the text when the keys began; None: they began elsewhere
        self._last: list[KeyPress] = []
        self._repeating = 0

    def repeat(self) -> None:
        """Press the keys of the last change again."""
        self._repeating = len(self._last)
        self.feed_multiple(list(self._last), first=True)

    def _call_handler(self, handler: Binding, key_sequence: list[KeyPress]) -> None:
        if not self._pressed:
            self._before = self._buffer.text if vi_navigation_mode() else None
        was_repeating = self._repeating > 0
        super()._call_handler(handler, key_sequence)
        if was_repeating or key_sequence[0].key == ".":
            self._repeating = max(0, self._repeating - len(key_sequence) * was_repeating)
            self._pressed.clear()
            return
        self._pressed += key_sequence
        if self.arg is None and vi_navigation_mode():
            changed = self._before is not None and self._buffer.text != self._before
            if changed and self._pressed[0].key not in _NOT_CHANGES:
                self._last = self._pressed[:]
            self._pressed.clear()


def change_word(event: KeyPressEvent) -> None:
    """`cw` on a word changes it to its end, as `ce` would; on a space, up to the next word."""
    buffer = event.current_buffer
    document = buffer.document
    if document.current_char.isspace():
        size = document.find_next_word_beginning(count=event.arg)
    else:
        size = document.find_next_word_ending(include_current_position=True, count=event.arg)
    deleted = buffer.delete(len(document.text_after_cursor) if size is None else size)
    event.app.clipboard.set_text(deleted)
    event.app.vi_state.input_mode = InputMode.INSERT
