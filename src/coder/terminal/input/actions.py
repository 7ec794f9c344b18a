"""What the keys of the prompt do, in terms of the editor, the talk with the engine, and the screen."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Protocol

from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import vi_navigation_mode
from prompt_toolkit.formatted_text import fragment_list_width, to_formatted_text
from prompt_toolkit.key_binding.bindings.named_commands import get_by_name
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.search import SearchDirection, start_search, stop_search

from coder.terminal.input.editor import Editor
from coder.terminal.input.rows import Shape, moved, text_rows
from coder.terminal.modes.slot import ModeBar, key_name
from coder.terminal.state import PromptState
from coder.terminal.vim.mode import Vim

if TYPE_CHECKING:
    from prompt_toolkit.application import Application
    from prompt_toolkit.key_binding import KeyPressEvent

DOUBLE_ESCAPE_SECONDS = 0.5
_NEVER = float("-inf")


class Doing(Protocol):
    """What the person can want of the session."""

    def submit(self, text: str) -> bool:
        """False where the text was not taken (an answer that is none)."""
        ...

    def cancel(self) -> None: ...

    def leave(self) -> None: ...


class Actions:
    """One method for each key that is ours."""

    def __init__(self, editor: Editor, state: PromptState, doing: Doing, bar: ModeBar) -> None:
        self.editor = editor
        self.state = state
        self.doing = doing
        self.bar = bar
        self.app: Application[None]
        self.vim: Vim
        self.asked_to_leave = False  # Ctrl+C was pressed on an empty line, and nothing since
        self._escaped = _NEVER
        self._aimed = (-1, 0)  # where Up or Down has put the caret, and the column that it came from
        self._searched_from = (0, 0)
        editor.stashing = self._ready_to_type

    def attach(self, app: Application[None]) -> None:
        """What the keys act on, once there is one."""
        self.app = app
        self.vim = Vim(app, self.editor, lambda by: self.older() if by < 0 else self.newer())
        app.key_processor.after_key_press += lambda _processor: self.vim.key_handled()

    # sending and stopping

    def enter(self) -> None:
        editor = self.editor
        if editor.menu is not None and not editor.menu.complete():
            editor.accept()
        elif not editor.continue_line():
            self.send()

    def send(self) -> None:
        self.asked_to_leave = False
        approving = self.state.approval is not None
        text = self.editor.message
        self.editor.clear(remember=not approving)
        if not self.doing.submit(text):
            self.editor.put(text)
        self._ready_to_type()

    def _ready_to_type(self) -> None:
        """A new prompt, or a question in its place, begins in insert mode."""
        self.app.vi_state.input_mode = InputMode.INSERT

    def end_of_input(self) -> None:
        if self.editor.empty:
            self.doing.leave()
        else:
            self.send()

    def escape(self) -> None:
        if self.vim.break_off():
            return
        now = time.monotonic()
        twice = now - self._escaped < DOUBLE_ESCAPE_SECONDS
        self._escaped = now
        if self.editor.menu is not None:
            self.editor.close_menu()
        elif self.state.busy:
            self._escaped = _NEVER  # a second one that comes when all has stopped clears nothing
            self.doing.cancel()
        elif twice:
            self.clear_text()

    def clear_text(self) -> None:
        """Ctrl+Y brings back what was there."""
        if self.editor.message.strip():
            self.app.clipboard.set_text(self.editor.message)
        self.editor.clear()

    def escape_is_vims(self) -> bool:
        """In vim mode Esc leaves insert mode first; on an empty line there is nothing to leave it for."""
        if self.app.editing_mode != EditingMode.VI or self.editor.menu is not None:
            return False
        idle_or_typing = not self.state.busy or not self.editor.empty
        return idle_or_typing and not vi_navigation_mode()

    def interrupt(self) -> None:
        if self.state.busy:
            self.doing.cancel()
        elif self.editor.in_bar:
            self.leave_bar()
        elif not self.editor.empty:
            self.clear_text()
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
        elif not self._move_row(-1):
            self.older()

    def down(self) -> None:
        if self.editor.menu is not None:
            self.editor.menu.move(1)
        elif not self._move_row(1):
            self.newer()

    def older(self) -> None:
        """What lies above the text: what is queued, what was said before. A question has only its answer."""
        if self.state.approval is not None:
            return
        if self.state.queue:
            self.take_back()
        else:
            self.editor.buffer.history_backward()

    def newer(self) -> None:
        """What lies below it: what was said since, then the bar."""
        buffer = self.editor.buffer
        if buffer.working_index < len(buffer._working_lines) - 1:
            buffer.history_forward()
        else:
            self.editor.in_bar = self.bar.enter()

    def _move_row(self, by: int) -> bool:
        """By a row of the screen, as long as there is one."""
        buffer = self.editor.buffer
        at = buffer.cursor_position
        goal = self._aimed[1] if self._aimed[0] == at else None
        place = moved(text_rows(buffer.text, self._shape()), at, by, goal)
        if place is None:
            return False
        buffer.cursor_position = place[0]
        self._aimed = buffer.cursor_position, place[1]
        return True

    def _shape(self) -> Shape:
        """How the window breaks the text."""
        prefix = self.app.layout.current_window.get_line_prefix
        widths = [fragment_list_width(to_formatted_text(prefix(0, at))) if prefix else 0 for at in (0, 1)]
        return Shape(self.app.output.get_size().columns, *widths)

    def search(self) -> None:
        """Back through the history, for what is typed next."""
        buffer = self.editor.buffer
        self._searched_from = buffer.working_index, buffer.cursor_position
        start_search(direction=SearchDirection.BACKWARD)

    def stop_search(self) -> None:
        """Back to where it began: going on to a further match has left that."""
        buffer = self.editor.buffer
        stop_search()
        buffer.working_index, buffer.cursor_position = self._searched_from

    def take_back(self) -> None:
        """The newest of what is queued, to be edited; what was being typed stays behind it."""
        text = self.state.queue.pop()
        draft = self.editor.buffer.text
        self.editor.put(f"{text}\n{draft}" if draft else text)

    def bar_key(self, key: str, data: str) -> None:
        answer = self.bar.key(key_name(key), data)
        self.editor.in_bar = answer == "stay"
        if answer == "pass":
            self.editor.paste(data) if len(data) > 1 else self.editor.buffer.insert_text(data)

    def leave_bar(self) -> None:
        self.bar.leave()
        self.editor.in_bar = False

    @property
    def occupied(self) -> bool:
        """Whether the person is in the middle of something that keys are pressed for."""
        return not self.editor.empty or self.app.layout.is_searching or self.bar.editing

    def make_room(self) -> None:
        """For a question: what was being typed, or searched for, stands aside."""
        if self.app.layout.is_searching:
            with set_app(self.app):  # it is an event that asks for it, not a key
                self.stop_search()
        self.editor.stash()

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
        self.editor.ask_for_menu()

    def kill_word(self, event: KeyPressEvent, name: str) -> None:
        """A placeholder is one word, which a yank brings back as a whole."""
        label = self.editor.cut_label()
        if label:
            self.app.clipboard.set_text(label)
        else:
            get_by_name(name).call(event)

    def open_editor(self) -> None:
        """All of it in the person's own editor: placeholders become the text they stand for."""
        self.app.create_background_task(self._edit_outside(self.editor.message))

    async def _edit_outside(self, text: str) -> None:
        from coder.terminal.input.external import edited_text

        edited = await run_in_terminal(lambda: edited_text(text, os.environ), in_executor=True)
        if edited is None:
            self.app.output.bell()
        elif edited != text:
            self.editor.put_draft(edited)

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
