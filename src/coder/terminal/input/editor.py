"""The prompt's text: a prompt_toolkit buffer, the pastes it stands for, and the menu that is open."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from coder.terminal.input.editing import (
    Caret,
    collapses,
    continued,
    expanded,
    menu_request,
    paste_label,
    replaced,
    without_label,
)
from coder.terminal.input.history import LONGEST, ProjectHistory, is_private
from coder.terminal.input.menu import Menu, Menus
from coder.terminal.input.paste_labels import label_before, outside_label, whole_labels

_SAID = 20


class Editor:
    """Holds no rules: what a key does to the text is in `editing`."""

    def __init__(self, history: ProjectHistory, menus: Menus, label: Callable[[int], str]) -> None:
        """`label` names a paste of so many lines."""
        self.menus = menus
        self.menu: Menu | None = None
        self.pastes: dict[str, str] = {}
        self.in_bar = False
        self.prompts = 0  # how many there have been: another one has another past
        self.stashing: Callable[[], None] = lambda: None  # called when a question takes the prompt
        self._history = history
        self._label = label
        self._recalled: dict[str, str] = {}  # pastes too long for the history, as long as the session lasts
        self._said: deque[tuple[str, str]] = deque(maxlen=_SAID)  # placeholders of late, and their pastes
        self._before = Caret("", 0)
        self._entry = 0  # which entry of the history is being edited
        self._dismissed: int | None = None  # where the token begins whose menu was closed with Esc
        self._stashed: tuple[Document, dict[str, str]] | None = None
        self.buffer = Buffer(history=history, multiline=True, on_text_insert=self._typed)
        self.buffer.on_text_changed += self._changed
        self.buffer.on_cursor_position_changed += self._moved

    # the text

    @property
    def caret(self) -> Caret:
        return Caret(self.buffer.text, self.buffer.cursor_position)

    @caret.setter
    def caret(self, caret: Caret) -> None:
        self.buffer.document = Document(caret.text, caret.at)

    @property
    def labels(self) -> dict[str, str]:
        """What every placeholder stands for."""
        return {**self._recalled, **self.pastes}

    @property
    def message(self) -> str:
        """What would be sent: pastes in full."""
        return expanded(self.buffer.text, self.labels)

    @property
    def empty(self) -> bool:
        return not self.buffer.text

    def clear(self, *, remember: bool = False) -> None:
        """An empty prompt; what was there joins the history if it was sent."""
        if remember and self.message.strip():
            self._remember(self.message)
            self._said.extend(self.pastes.items())
        self.pastes.clear()
        self._begin(Document())

    def _remember(self, message: str) -> None:
        if len(message) <= LONGEST:
            self._history.append_string(message)
        elif not is_private(message):
            self._recalled |= self.pastes
            self._history.remember(self.buffer.text)

    def as_typed(self, message: str) -> str:
        """How a message of late looked before it was sent: with placeholders."""
        for label, pasted in self._said:
            message = message.replace(pasted, label)
        return message

    def pasted_in(self, message: str) -> list[str]:
        """The pieces of a message of late that were pasted."""
        return list(dict.fromkeys(pasted for _, pasted in self._said if pasted in message))

    def put(self, text: str) -> None:
        """In place of what is there. Much of it becomes a placeholder: each key would draw it anew."""
        if len(text) > LONGEST:
            text = self._named(expanded(text, self.labels))
        self.caret = Caret(text, len(text))
        self.menu = None

    def stash(self) -> None:
        """Make room for a question; `unstash` gives back what was being typed."""
        if self._stashed is None:
            self._stashed = self.buffer.document, self.pastes
            self.pastes = {}
            self._begin(Document())
            self.stashing()

    def unstash(self) -> None:
        if self._stashed is not None:
            document, self.pastes = self._stashed
            self._stashed = None
            self._begin(document)

    def put_draft(self, text: str) -> None:
        """In place of what is being typed, also where a question stands before it."""
        self.pastes.clear()
        if self._stashed is None:
            self.put(text)
            return
        pastes, self.pastes = self.pastes, {}
        shown = self._named(text) if len(text) > LONGEST else text
        self._stashed = Document(shown), self.pastes
        self.pastes = pastes

    def _begin(self, document: Document) -> None:
        self.prompts += 1
        self.menu = self._dismissed = None
        self.buffer.reset(document)
        self._before, self._entry = self.caret, self.buffer.working_index

    # what keys do

    def continue_line(self) -> bool:
        caret = continued(self.caret)
        if caret is not None:
            self.caret = caret
        return caret is not None

    def paste(self, data: str) -> None:
        """A line goes in as it is, without the end that came with it; more becomes a placeholder."""
        text = data.replace("\r\n", "\n").replace("\r", "\n")
        self.buffer.insert_text(self._named(text) if collapses(text) else text.rstrip("\n"))

    def _named(self, text: str) -> str:
        """The placeholder of what is pasted."""
        lines = text.rstrip("\n").count("\n") + 1
        label = paste_label(self._label(lines), self.labels)
        self.pastes[label] = text
        return label

    def backspace(self) -> None:
        caret = without_label(self.caret, self.labels)
        if caret is None:
            self.buffer.delete_before_cursor()
        else:
            self.caret = caret

    def cut_label(self) -> str:
        """Take away the placeholder before the caret, if one stands there."""
        label = label_before(self.caret, self.labels)
        if label:
            self.backspace()
        return label

    # the menu

    def open_menu(self) -> None:
        """For what stands before the caret, unless the person has closed it there."""
        request = menu_request(self.caret)
        if self.menu is not None and self.menu.answers(request):
            return
        if request is None or request.start != self._dismissed:
            self._dismissed = None
            self.menu = self.menus.find(request)

    def ask_for_menu(self) -> None:
        """The person wants it, whether or not it was closed."""
        self._dismissed = None
        self.open_menu()

    def refresh_menu(self) -> None:
        """There is more to choose from; what the person chose stays."""
        request = menu_request(self.caret)
        wanted = request is not None and request.kind != "command" and request.start != self._dismissed
        if self.menu is not None or wanted:
            fresh = self.menus.find(request)
            if fresh is not None and self.menu is not None and self.menu.moved:
                fresh.choose(self.menu.chosen_item)
            self.menu = fresh

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

    # what the buffer tells

    def _typed(self, _buffer: Buffer) -> None:
        self.open_menu()

    def _changed(self, _buffer: Buffer) -> None:
        same = self._entry == self.buffer.working_index
        repaired = whole_labels(self._before.text, self.caret, self.labels) if same and self.pastes else None
        self._before, self._entry = self.caret, self.buffer.working_index
        if repaired is not None:
            self.caret = repaired
        elif self.menu is not None or menu_request(self.caret) is None:
            self.open_menu()

    def _moved(self, _buffer: Buffer) -> None:
        at = outside_label(self.caret, self._before.at, self.labels)
        self._before = self.caret
        if at != self.caret.at:
            self.buffer.cursor_position = at
        elif self.menu is not None:
            self.open_menu()
