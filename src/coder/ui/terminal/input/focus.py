"""Which part of the prompt has the keyboard: the text, a search, or the mode bar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prompt_toolkit.application.current import set_app
from prompt_toolkit.search import SearchDirection, start_search, stop_search

from coder.ui.terminal.input.editor import Editor
from coder.ui.terminal.modes.bar_interface import ModeBar, key_name

if TYPE_CHECKING:
    from prompt_toolkit.application import Application


class InputFocus:
    """Moves the keyboard between the editor, its search and the mode bar."""

    def __init__(self, editor: Editor, bar: ModeBar) -> None:
        self.editor, self.bar = editor, bar
        self.app: Application[None]
        self._searched_from = (0, 0)

    @property
    def occupied(self) -> bool:
        """Whether the person is typing, searching or editing a mode."""
        return not self.editor.empty or self.app.layout.is_searching or self.bar.editing

    def search(self) -> None:
        """Reverse incremental search."""
        buffer = self.editor.buffer
        self._searched_from = buffer.working_index, buffer.cursor_position
        start_search(direction=SearchDirection.BACKWARD)

    def stop_search(self) -> None:
        """Abort the search and restore where it began."""
        buffer = self.editor.buffer
        stop_search()
        buffer.working_index, buffer.cursor_position = self._searched_from

    def stash_draft(self) -> None:
        """Abort a search and stash the draft, for a question."""
        if self.app.layout.is_searching:
            with set_app(self.app):  # called by an event, not a key
                self.stop_search()
        self.editor.stash()

    def enter_bar(self) -> None:
        self.editor.in_bar = self.bar.enter()

    def leave_bar(self) -> None:
        self.bar.leave()
        self.editor.in_bar = False

    def bar_key(self, key: str, data: str) -> None:
        answer = self.bar.key(key_name(key), data)
        self.editor.in_bar = answer == "stay"
        if answer == "pass":
            self.editor.paste(data) if len(data) > 1 else self.editor.buffer.insert_text(data)
