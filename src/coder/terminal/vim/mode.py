"""Vim mode: handles normal-mode keys and keeps the state between commands.

The commands are in `commands`. Insert mode, visual mode and search are prompt_toolkit's.
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
    apply_command,
    insert_and_leave,
    is_change,
    is_incomplete,
    parse_command,
    repeat_insertion,
)
from coder.terminal.vim.motions import clamp_caret, line_number, line_start

if TYPE_CHECKING:
    from prompt_toolkit.application import Application

    from coder.terminal.input.editor import Editor


class _Insertion(msgspec.Struct, frozen=True):
    """Insert mode was entered by `command`, with this text and caret."""

    command: Command
    begun: Caret


class Vim:
    """State of vim mode: pending keys, last change, undo and redo stacks."""

    def __init__(self, app: Application[None], editor: Editor, leave_text: Callable[[int], object]) -> None:
        """`leave_text` is called when `k` or `j` moves above the first line (-1) or below the last (1)."""
        self._app, self._editor, self._leave_text = app, editor, leave_text
        self.pending = ""  # keys of an incomplete command
        self._consumed = False
        self._found = ""
        self._last: tuple[Command, str] | None = None  # the last change and the text inserted by it
        self._insertion: _Insertion | None = None
        self._saved = Caret("", 0)
        self._redo_stack: list[Caret] = []
        self._undo_stack: list[Caret] = []
        self._prompt = -1  # the prompt this state belongs to

    def key(self, char: str) -> None:
        """A key outside insert mode."""
        self._consumed = True
        self._reset_on_new_prompt()
        self.pending += char
        if is_incomplete(self.pending):
            return
        command, self.pending = parse_command(self.pending), ""
        if command is not None:
            self._run(command)

    def key_handled(self) -> None:
        """After each key: one that vim mode did not consume aborts the pending command."""
        if self._app.key_processor.key_buffer:
            return  # it may start a longer sequence
        if not self._consumed:
            self.break_off()
        self._consumed = False

    def break_off(self) -> bool:
        """Abort the pending command; returns whether there was one."""
        pending, self.pending = self.pending, ""
        return bool(pending)

    def leave_insert(self) -> None:
        """Esc in insert mode."""
        self._reset_on_new_prompt()
        caret = self._editor.caret
        if self._insertion is not None:
            command = self._insertion.command
            inserted = _inserted(self._insertion, caret)
            self._last = command, inserted
            more = repeat_insertion(command, inserted)[len(inserted) :]
            caret = Caret(caret.text[: caret.at] + more + caret.text[caret.at :], caret.at + len(more))
        self._insertion = None
        at = caret.at - (caret.at > line_start(caret.text, caret.at))
        self._app.vi_state.input_mode = InputMode.NAVIGATION
        self._editor.caret = Caret(caret.text, clamp_caret(caret.text, at))
        self._save_undo_point()

    def undo(self) -> None:
        self._move_between(self._undo_stack, self._redo_stack)

    def redo(self) -> None:
        self._reset_on_new_prompt()
        self._move_between(self._redo_stack, self._undo_stack)

    def _run(self, command: Command) -> None:
        if command.action == "u":
            for _ in range(max(1, command.count)):
                self.undo()
        elif command.action == ".":
            self._repeat(command.count)
        elif command.motion in ("j", "k") and not command.operator and self._at_edge(command.motion):
            self._leave_text(-1 if command.motion == "k" else 1)
            self._saved = self._editor.caret
        else:
            self._change(command)

    def _change(self, command: Command) -> None:
        page = apply_command(self._page(), command)
        if page is None:
            return
        self._show(page)
        if page.inserting:
            self._insertion = _Insertion(command, self._editor.caret)
            self._app.vi_state.input_mode = InputMode.INSERT
        else:
            if is_change(command):
                self._last = command, ""
            self._save_undo_point()

    def _repeat(self, count: int) -> None:
        if self._last is None:
            return
        command, inserted = self._last
        if count:
            command = msgspec.structs.replace(command, count=count)
            self._last = command, inserted
        page = apply_command(self._page(), command)
        if page is None:
            return
        if page.inserting:
            page = insert_and_leave(page, repeat_insertion(command, inserted))
        self._show(page)
        self._save_undo_point()

    # state

    def _reset_on_new_prompt(self) -> None:
        if self._prompt != self._editor.prompt_count:
            self._prompt = self._editor.prompt_count
            self._saved, self._insertion, self.pending = Caret("", 0), None, ""
            self._undo_stack, self._redo_stack = [], []

    def _page(self) -> Page:
        data = self._app.clipboard.get_data()
        register = Register(data.text, data.type == SelectionType.LINES)
        caret = self._editor.caret
        return Page(caret.text, clamp_caret(caret.text, caret.at), register, found=self._found)

    def _show(self, page: Page) -> None:
        kind = SelectionType.LINES if page.register.lines else SelectionType.CHARACTERS
        data = self._app.clipboard.get_data()
        if (data.text, data.type) != (page.register.text, kind):
            self._app.clipboard.set_data(ClipboardData(page.register.text, kind))
        self._found = page.found
        self._editor.caret = Caret(page.text, page.at)

    def _save_undo_point(self) -> None:
        caret = self._editor.caret
        if caret.text != self._saved.text:
            self._undo_stack.append(self._saved)
            self._redo_stack.clear()
        self._saved = caret

    def _move_between(self, back: list[Caret], forth: list[Caret]) -> None:
        self._save_undo_point()
        if back:
            forth.append(self._saved)
            to = back.pop()
            self._editor.caret = Caret(to.text, clamp_caret(to.text, to.at))
            self._saved = self._editor.caret

    def _at_edge(self, motion: str) -> bool:
        caret = self._editor.caret
        last = caret.text.count("\n") if motion == "j" else 0
        return line_number(caret.text, caret.at) == last


def _inserted(insertion: _Insertion, now: Caret) -> str:
    """The inserted text, if it is one contiguous insertion."""
    before, after = insertion.begun.text[: insertion.begun.at], insertion.begun.text[insertion.begun.at :]
    whole = len(now.text) >= len(before) + len(after)
    if whole and now.text.startswith(before) and now.text.endswith(after):
        return now.text[len(before) : len(now.text) - len(after)]
    return ""
