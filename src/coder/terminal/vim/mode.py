"""Vim mode: takes the keys pressed outside insert mode and keeps what lasts from one command to the next.

What a command does is in `vim_edit`. Insert mode, selections and searching are prompt_toolkit's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
from prompt_toolkit.clipboard import ClipboardData
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.selection import SelectionType

from coder.terminal.input.editing import Caret
from coder.terminal.vim.commands import (
    Command,
    Page,
    Register,
    applied,
    changes,
    command_of,
    repeated,
    typed_into,
    unfinished,
)
from coder.terminal.vim.motions import line_number, line_start, resting

if TYPE_CHECKING:
    from prompt_toolkit.application import Application

    from coder.terminal.input.editor import Editor


class _Insertion(msgspec.Struct, frozen=True):
    """Insert mode was entered by `command`, with this text and caret."""

    command: Command
    begun: Caret


class Vim:
    """The memory of vim mode."""

    def __init__(self, app: Application[None], editor: Editor, beyond: Callable[[int], object]) -> None:
        """`beyond` is asked for what lies above the first line (-1) and below the last one (1)."""
        self._app, self._editor, self._beyond = app, editor, beyond
        self.pending = ""  # the keys of a command that is not complete
        self._heard = False
        self._found = ""
        self._last: tuple[Command, str] | None = (
            None  # the last change, and what was typed in the course of it
        )
        self._insertion: _Insertion | None = None
        self._rested = Caret("", 0)
        self._undone: list[Caret] = []
        self._done: list[Caret] = []
        self._prompt = -1  # the prompt that all this is about

    def key(self, char: str) -> None:
        """A key outside insert mode."""
        self._heard = True
        self._look()
        self.pending += char
        if unfinished(self.pending):
            return
        command, self.pending = command_of(self.pending), ""
        if command is not None:
            self._run(command)

    def key_handled(self) -> None:
        """After each key: one that was not for us breaks off what we were waiting for the rest of."""
        if self._app.key_processor.key_buffer:
            return  # it may be the beginning of a longer one
        if not self._heard:
            self.break_off()
        self._heard = False

    def break_off(self) -> bool:
        """Whether there was something to break off."""
        pending, self.pending = self.pending, ""
        return bool(pending)

    def leave_insert(self) -> None:
        """Esc in insert mode."""
        self._look()
        caret = self._editor.caret
        if self._insertion is not None:
            command = self._insertion.command
            inserted = _inserted(self._insertion, caret)
            self._last = command, inserted
            more = repeated(command, inserted)[len(inserted) :]
            caret = Caret(caret.text[: caret.at] + more + caret.text[caret.at :], caret.at + len(more))
        self._insertion = None
        at = caret.at - (caret.at > line_start(caret.text, caret.at))
        self._app.vi_state.input_mode = InputMode.NAVIGATION
        self._editor.caret = Caret(caret.text, resting(caret.text, at))
        self._rest()

    def undo(self) -> None:
        self._go(self._done, self._undone)

    def redo(self) -> None:
        self._look()
        self._go(self._undone, self._done)

    def _run(self, command: Command) -> None:
        if command.action == "u":
            for _ in range(max(1, command.count)):
                self.undo()
        elif command.action == ".":
            self._repeat(command.count)
        elif command.motion in ("j", "k") and not command.operator and self._at_edge(command.motion):
            self._beyond(-1 if command.motion == "k" else 1)
            self._rested = self._editor.caret
        else:
            self._change(command)

    def _change(self, command: Command) -> None:
        page = applied(self._page(), command)
        if page is None:
            return
        self._show(page)
        if page.inserting:
            self._insertion = _Insertion(command, self._editor.caret)
            self._app.vi_state.input_mode = InputMode.INSERT
        else:
            if changes(command):
                self._last = command, ""
            self._rest()

    def _repeat(self, count: int) -> None:
        if self._last is None:
            return
        command, inserted = self._last
        if count:
            command = msgspec.structs.replace(command, count=count)
            self._last = command, inserted
        page = applied(self._page(), command)
        if page is None:
            return
        if page.inserting:
            page = typed_into(page, repeated(command, inserted))
        self._show(page)
        self._rest()

    # what lasts

    def _look(self) -> None:
        """Another prompt has another past."""
        if self._prompt != self._editor.prompts:
            self._prompt = self._editor.prompts
            self._rested, self._insertion, self.pending = Caret("", 0), None, ""
            self._done, self._undone = [], []

    def _page(self) -> Page:
        data = self._app.clipboard.get_data()
        register = Register(data.text, data.type == SelectionType.LINES)
        caret = self._editor.caret
        return Page(caret.text, resting(caret.text, caret.at), register, found=self._found)

    def _show(self, page: Page) -> None:
        kind = SelectionType.LINES if page.register.lines else SelectionType.CHARACTERS
        data = self._app.clipboard.get_data()
        if (data.text, data.type) != (page.register.text, kind):
            self._app.clipboard.set_data(ClipboardData(page.register.text, kind))
        self._found = page.found
        self._editor.caret = Caret(page.text, page.at)

    def _rest(self) -> None:
        caret = self._editor.caret
        if caret.text != self._rested.text:
            self._done.append(self._rested)
            self._undone.clear()
        self._rested = caret

    def _go(self, back: list[Caret], forth: list[Caret]) -> None:
        self._rest()
        if back:
            forth.append(self._rested)
            to = back.pop()
            self._editor.caret = Caret(to.text, resting(to.text, to.at))
            self._rested = self._editor.caret

    def _at_edge(self, motion: str) -> bool:
        caret = self._editor.caret
        last = caret.text.count("\n") if motion == "j" else 0
        return line_number(caret.text, caret.at) == last


def _inserted(insertion: _Insertion, now: Caret) -> str:
    """What was typed, if all of it stands where typing began."""
    before, after = insertion.begun.text[: insertion.begun.at], insertion.begun.text[insertion.begun.at :]
    whole = len(now.text) >= len(before) + len(after)
    if whole and now.text.startswith(before) and now.text.endswith(after):
        return now.text[len(before) : len(now.text) - len(after)]
    return ""
