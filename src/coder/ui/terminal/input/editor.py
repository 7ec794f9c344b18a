"""The line editor: a prompt_toolkit buffer, collapsed pastes, and the open completion menu."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prompt_toolkit.application.current import set_app
from prompt_toolkit.search import SearchDirection, start_search, stop_search

from coder.ui.terminal.modes.mode_bar import ModeBar, key_name

if TYPE_CHECKING:
    from prompt_toolkit.application import Application

from collections.abc import Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from coder.ui.terminal.input.editing import (
    Caret,
    MenuRequest,
    Pastes,
    cluster_end,
    cluster_start,
    collapses,
    completed_text,
    continued_line,
    expanded,
    label_before,
    menu_request,
    outside_label,
    whole_labels,
    without_label,
)
from coder.ui.terminal.input.input_history import LONGEST, ProjectHistory, is_private
from coder.ui.terminal.input.menu import Menu, Menus


class Editor:
    """Holds the state; the editing operations are pure functions in `editing`."""

    def __init__(self, history: ProjectHistory, menus: Menus, label: Callable[[int], str]) -> None:
        """`label` names a paste by its number of lines."""
        self.menus = menus
        self.menu: Menu | None = None
        self.keys_shown = False  # until the next key
        self.pastes = Pastes(label)
        self.in_bar = False
        self.on_stash: Callable[[], None] = lambda: None  # called when a question replaces the draft
        self._history = history
        self._before = Caret("", 0)
        self._entry = 1  # place of the history entry being edited
        self._dismissed: int | None = None  # start of the token whose menu was closed with Esc
        self._stashed: tuple[Document, dict[str, str]] | None = None
        self.buffer = Buffer(history=history, multiline=True, on_text_insert=lambda _buffer: self.open_menu())
        self.buffer.on_text_changed += self._on_text_changed
        self.buffer.on_cursor_position_changed += self._on_cursor_moved

    # the text

    @property
    def caret(self) -> Caret:
        return Caret(self.buffer.text, self.buffer.cursor_position)

    @caret.setter
    def caret(self, caret: Caret) -> None:
        self.buffer.document = Document(caret.text, caret.at)

    @property
    def message(self) -> str:
        """The text with pastes expanded."""
        return expanded(self.buffer.text, self.pastes.labels)

    @property
    def empty(self) -> bool:
        return not self.buffer.text

    def clear(self, *, remember: bool = False) -> None:
        """Empty the prompt; `remember` adds its text to the history."""
        if remember and self.message.strip():
            self._remember(self.message)
            self.pastes.recent.extend(self.pastes.current.items())
        self.pastes.current.clear()
        self._begin(Document())

    def _remember(self, message: str) -> None:
        if len(message) <= LONGEST:
            if pasted := [text for label, text in self.pastes.labels.items() if label in self.buffer.text]:
                self._history.pastes[message] = pasted
            self._history.append_string(message)
        elif not is_private(message):
            self.pastes.recalled |= self.pastes.current
            self._history.remember(self.buffer.text)

    def put(self, text: str) -> None:
        """Replace the text. Long text becomes a placeholder: every key would redraw it."""
        text = self._with_labels(text)
        if len(text) > LONGEST:
            text = self.pastes.collapse(expanded(text, self.pastes.labels))
        self.caret = Caret(text, len(text))
        self.menu = None

    def _with_labels(self, text: str) -> str:
        return self.pastes.collapse_again(text, self._history.pastes.get(text, ()))

    def stash(self) -> None:
        """Set the draft aside for a question; `unstash` restores it."""
        if self._stashed is None:
            self._stashed = self.buffer.document, self.pastes.current
            self.pastes.current = {}
            self._begin(Document())
            self.on_stash()

    def unstash(self) -> None:
        if self._stashed is not None:
            document, self.pastes.current = self._stashed
            self._stashed = None
            self._begin(document)

    def put_draft(self, text: str) -> None:
        """Replace the draft, even while it is stashed."""
        pastes = self.pastes
        pastes.current.clear()
        if self._stashed is None:
            self.put(text)
            return
        current, pastes.current = pastes.current, {}
        shown = pastes.collapse(text) if len(text) > LONGEST else text
        self._stashed = Document(shown), pastes.current
        pastes.current = current

    def type_into_draft(self, text: str) -> None:
        """Add typed text to the draft, even while it is stashed."""
        if self._stashed is None:
            self.buffer.insert_text(text)
            return
        document, pastes = self._stashed
        at = document.cursor_position
        changed = document.text[:at] + text + document.text[at:]
        self._stashed = Document(changed, at + len(text)), pastes

    @property
    def _place(self) -> int:
        """The history entry being edited, counted from the end, since older ones are loaded later."""
        return len(self.buffer._working_lines) - self.buffer.working_index

    def _begin(self, document: Document) -> None:
        self.menu = self._dismissed = None
        self.buffer.reset(document)
        self._before, self._entry = self.caret, self._place

    # keys

    def continue_line(self) -> bool:
        caret = continued_line(self.caret)
        if caret is not None:
            self.caret = caret
        return caret is not None

    def paste(self, data: str) -> None:
        """Insert a single line without its newline; collapse more into a placeholder."""
        text = data.replace("\r\n", "\n").replace("\r", "\n")
        self.buffer.insert_text(self.pastes.collapse(text) if collapses(text) else text.rstrip("\n"))

    def backspace(self) -> None:
        caret = without_label(self.caret, self.pastes.labels)
        if caret is None:
            here = self.caret
            self.buffer.delete_before_cursor(here.at - cluster_start(here.text, here.at))
        else:
            self.caret = caret

    def delete(self) -> None:
        """Delete the character at the caret; `_on_text_changed` extends it to a whole placeholder."""
        here = self.caret
        self.buffer.delete(cluster_end(here.text, here.at) - here.at)

    def move(self, by: int) -> None:
        """Move the caret by one user-perceived character within its line."""
        here = self.caret
        if by < 0 and here.text[here.at - 1 : here.at] not in ("", "\n"):
            self.buffer.cursor_position = cluster_start(here.text, here.at)
        elif by > 0 and here.text[here.at : here.at + 1] not in ("", "\n"):
            self.buffer.cursor_position = cluster_end(here.text, here.at)

    def cut_label(self) -> str:
        """Delete the placeholder before the caret, if any."""
        label = label_before(self.caret, self.pastes.labels)
        if label:
            self.backspace()
        return label

    # the menu

    def open_menu(self) -> None:
        """Complete the text before the caret, unless its menu was dismissed."""
        request = self._menu_request()
        if self.menu is not None and self.menu.answers(request):
            return
        if request is None or request.start != self._dismissed:
            self._dismissed = None
            self.menu = self.menus.find(request)

    def _menu_request(self) -> MenuRequest | None:
        """None in the answer to a question and the search in a list, which nothing completes."""
        return menu_request(self.caret) if self._stashed is None else None

    def ask_for_menu(self) -> None:
        """Open the menu even if it was dismissed."""
        self._dismissed = None
        self.open_menu()

    def refresh_menu(self) -> None:
        """Reload the entries, keeping the selection."""
        request = self._menu_request()
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
        """Insert the selected entry, or the first one."""
        menu = self.menu
        if menu is None:
            return
        item = menu.items[max(0, menu.chosen)]
        self.menu = None
        self.caret = completed_text(self.caret, menu.start, item.insert)
        if item.insert.endswith("/"):  # a directory: continue inside it
            self.buffer.delete_before_cursor()
        self.open_menu()

    # buffer events

    def _on_text_changed(self, _buffer: Buffer) -> None:
        same = self._entry == self._place
        if not same and (folded := self._with_labels(self.buffer.text)) != self.buffer.text:
            self._entry = self._place
            self._before = self.caret = Caret(folded, len(folded))
            return
        repaired = (
            whole_labels(self._before.text, self.caret, self.pastes.labels)
            if same and self.pastes.current
            else None
        )
        self._before, self._entry = self.caret, self._place
        if repaired is not None:
            self.caret = repaired
        elif self.menu is not None or menu_request(self.caret) is None:
            self.open_menu()

    def _on_cursor_moved(self, _buffer: Buffer) -> None:
        at = outside_label(self.caret, self._before.at, self.pastes.labels)
        self._before = self.caret
        if at != self.caret.at:
            self.buffer.cursor_position = at
        elif self.menu is not None:
            self.open_menu()


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

    def leave_bar(self) -> None:
        self.bar.leave()
        self.editor.in_bar = False

    def bar_key(self, key: str, data: str) -> None:
        answer = self.bar.key(key_name(key), data)
        self.editor.in_bar = answer == "stay"
        if answer == "pass":
            self.editor.paste(data) if len(data) > 1 else self.editor.buffer.insert_text(data)
