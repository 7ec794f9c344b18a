"""The prompt's text: a prompt_toolkit buffer, the pastes it stands for, and the menu that is open."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.history import History

from coder.terminal.editing import (
    Caret,
    collapses,
    continued,
    expanded,
    menu_request,
    paste_label,
    replaced,
    without_label,
)
from coder.terminal.menu import Menu, Menus
from coder.terminal.safe import safe


class Editor:
    """Holds no rules: what a key does to the text is in `editing`."""

    def __init__(self, history: History, menus: Menus, label: Callable[[int], str]) -> None:
        """`label` names a paste of so many lines."""
        self.menus = menus
        self.menu: Menu | None = None
        self.pastes: dict[str, str] = {}
        self.in_bar = False
        self._label = label
        self._dismissed: int | None = None  # where the token begins whose menu was closed with Esc
        self._stashed: Document | None = None
        self.buffer = Buffer(
            history=history, multiline=True, on_text_insert=self._typed, tempfile_suffix=".md"
        )
        self.buffer.on_text_changed += self._changed

    # the text

    @property
    def caret(self) -> Caret:
        return Caret(self.buffer.text, self.buffer.cursor_position)

    @caret.setter
    def caret(self, caret: Caret) -> None:
        self.buffer.document = Document(caret.text, caret.at)

    @property
    def message(self) -> str:
        """What would be sent: pastes in full."""
        return expanded(self.buffer.text, self.pastes)

    @property
    def empty(self) -> bool:
        return not self.buffer.text

    def clear(self, *, remember: bool = False) -> None:
        """An empty prompt; what was there joins the history if it was sent."""
        if remember and self.message.strip():
            self.buffer.history.append_string(self.message)
        self.pastes.clear()
        self.menu = None
        self.buffer.reset()

    def put(self, text: str) -> None:
        self.caret = Caret(text, len(text))
        self.menu = None

    def stash(self) -> None:
        """Make room for a question; `unstash` gives back what was being typed."""
        if self._stashed is None:
            self._stashed = self.buffer.document
            self.menu = None
            self.buffer.reset()

    def unstash(self) -> None:
        if self._stashed is not None:
            document, self._stashed = self._stashed, None
            self.buffer.reset(document)

    # what keys do

    def continue_line(self) -> bool:
        caret = continued(self.caret)
        if caret is not None:
            self.caret = caret
        return caret is not None

    def paste(self, data: str) -> None:
        text = data.replace("\r\n", "\n").replace("\r", "\n")
        if not collapses(text):
            self.buffer.insert_text(safe(text.rstrip("\n")))
            return
        text = text.rstrip("\n")
        label = paste_label(self._label(text.count("\n") + 1), self.pastes)
        self.pastes[label] = text
        self.buffer.insert_text(label)

    def backspace(self) -> None:
        caret = without_label(self.caret, self.pastes)
        if caret is None:
            self.buffer.delete_before_cursor()
        else:
            self.caret = caret

    # the menu

    def open_menu(self) -> None:
        """For what stands before the caret, unless the person has closed it there."""
        request = menu_request(self.caret)
        if request is None or request.start != self._dismissed:
            self._dismissed = None
            self.menu = self.menus.find(request)

    def refresh_menu(self) -> None:
        """There is more to choose from; what was chosen stays."""
        if self.menu is not None or menu_request(self.caret) is not None:
            chosen = self.menu.chosen if self.menu else None
            self.open_menu()
            if self.menu is not None and chosen is not None and chosen < len(self.menu.items):
                self.menu.chosen = chosen

    def close_menu(self) -> None:
        if self.menu is not None:
            self._dismissed, self.menu = self.menu.start, None

    def accept(self) -> None:
        """Put the chosen entry (the first, where none is) into the text."""
        menu = self.menu
        if menu is None:
            return
        item = menu.items[max(0, menu.chosen)]
        self.menu = None
        self.caret = replaced(self.caret, menu.start, item.insert)
        if item.insert.endswith("/"):  # a folder: go on choosing inside it
            self.buffer.delete_before_cursor()
        self.open_menu()

    def _typed(self, _buffer: Buffer) -> None:
        self.open_menu()

    def _changed(self, _buffer: Buffer) -> None:
        if self.menu is not None or menu_request(self.caret) is None:
            self.open_menu()
