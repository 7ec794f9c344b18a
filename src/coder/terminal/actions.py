"""What the keys of the prompt do, in terms of the editor, the talk with the engine, and the screen."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import vi_navigation_mode
from prompt_toolkit.key_binding.vi_state import InputMode

from coder.terminal.bar import ModeBar
from coder.terminal.editor import Editor
from coder.terminal.talk import Talk

if TYPE_CHECKING:
    from prompt_toolkit.application import Application

    from coder.terminal.vim import ChangeRecorder

DOUBLE_ESCAPE_SECONDS = 0.5


class Doing(Protocol):
    """What the person can want of the session."""

    def submit(self, text: str) -> bool:
        """False where the text was not taken (an answer that is none)."""
        ...

    def cancel(self) -> None: ...

    def leave(self) -> None: ...


class Actions:
    """One method for each key that is ours."""

    def __init__(self, editor: Editor, talk: Talk, doing: Doing, bar: ModeBar) -> None:
        self.editor = editor
        self.talk = talk
        self.doing = doing
        self.bar = bar
        self.app: Application[None]
        self.vim: ChangeRecorder
        self.asked_to_leave = False  # Ctrl+C was pressed on an empty line, and nothing since
        self._escaped = float("-inf")

    # sending and stopping

    def enter(self) -> None:
        editor = self.editor
        if editor.menu is not None and not editor.menu.complete():
            editor.accept()
        elif not editor.continue_line():
            self.send()

    def send(self) -> None:
        self.asked_to_leave = False
        approving = self.talk.approval is not None
        text = self.editor.message
        self.editor.clear(remember=not approving)
        if not self.doing.submit(text):
            self.editor.put(text)
        self.app.vi_state.input_mode = InputMode.INSERT

    def end_of_input(self) -> None:
        if self.editor.empty:
            self.doing.leave()
        else:
            self.send()

    def escape(self) -> None:
        now = time.monotonic()
        if self.editor.menu is not None:
            self.editor.close_menu()
        elif self.talk.busy:
            self.doing.cancel()
        elif now - self._escaped < DOUBLE_ESCAPE_SECONDS:
            self.editor.clear()
        self._escaped = now

    def escape_is_vims(self) -> bool:
        """In vim mode Esc leaves insert mode first; on an empty line there is nothing to leave it for."""
        if self.app.editing_mode != EditingMode.VI or self.editor.menu is not None:
            return False
        idle_or_typing = not self.talk.busy or not self.editor.empty
        return idle_or_typing and not vi_navigation_mode()

    def interrupt(self) -> None:
        if self.talk.busy:
            self.doing.cancel()
        elif not self.editor.empty:
            self.editor.clear()
        elif self.asked_to_leave:
            self.doing.leave()
        else:
            self.asked_to_leave = True
            return
        self.asked_to_leave = False

    # moving

    def up(self) -> None:
        editor = self.editor
        if editor.menu is not None:
            editor.menu.move(-1)
        elif self.talk.queue and editor.buffer.document.cursor_position_row == 0:
            self.take_back()
        else:
            editor.buffer.auto_up()

    def down(self) -> None:
        editor, buffer = self.editor, self.editor.buffer
        if editor.menu is not None:
            editor.menu.move(1)
        elif buffer.document.on_last_line and buffer.working_index == len(buffer._working_lines) - 1:
            editor.in_bar = self.bar.enter()
        else:
            buffer.auto_down()

    def take_back(self) -> None:
        """The newest of what is queued, to be edited; what was being typed stays behind it."""
        text = self.talk.queue.pop()
        draft = self.editor.buffer.text
        self.editor.put(f"{text}\n{draft}" if draft else text)

    def bar_key(self, name: str, data: str) -> None:
        self.editor.in_bar = self.bar.key(str(getattr(name, "value", name)), data)

    # editing

    def newline(self) -> None:
        self.editor.buffer.newline(copy_margin=False)

    def backspace(self) -> None:
        self.editor.backspace()

    def paste(self, data: str) -> None:
        self.editor.paste(data)

    def accept(self) -> None:
        self.editor.accept()

    def complete(self) -> None:
        self.editor.open_menu()

    def open_editor(self) -> None:
        """All of it in the person's own editor: placeholders become the text they stand for."""
        self.editor.put(self.editor.message)
        self.editor.pastes.clear()
        self.editor.buffer.open_in_editor()

    def resting_in_vim(self) -> bool:
        return vi_navigation_mode()

    # the terminal

    def suspend(self) -> None:
        self.app.suspend_to_background()

    def clear_screen(self) -> None:
        """The screen, not the scrollback: what is on it is pushed up, not lost."""
        rows = self.app.output.get_size().rows
        self.app.renderer.erase()
        self.app.output.write_raw("\n" * (rows - 1) + "\x1b[H")
        self.app.output.flush()
        self.app.invalidate()

    def set_vim(self, on: bool) -> None:
        self.app.editing_mode = EditingMode.VI if on else EditingMode.EMACS
        self.app.vi_state.input_mode = InputMode.INSERT
