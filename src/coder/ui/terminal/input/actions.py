"""Actions bound to keys at the prompt."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.application import run_in_terminal

from coder.base.process.programs import Runs, find_chosen, own_environment, run

if TYPE_CHECKING:
    from prompt_toolkit.application import Application

    from coder.ui.terminal.input_dispatcher import InputDispatcher

import time
from typing import TYPE_CHECKING

from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import vi_navigation_mode
from prompt_toolkit.formatted_text import fragment_list_width, to_formatted_text
from prompt_toolkit.key_binding.bindings.named_commands import get_by_name
from prompt_toolkit.key_binding.vi_state import InputMode

from coder.ui.terminal.input.editing import WindowShape, moved_by_rows, text_rows
from coder.ui.terminal.input.editor import Editor, InputFocus
from coder.ui.terminal.screen_state import PromptState, next_mode

if TYPE_CHECKING:
    from prompt_toolkit.application import Application
    from prompt_toolkit.key_binding import KeyPressEvent


DOUBLE_ESCAPE_SECONDS = 0.5
_NEVER = float("-inf")
_LEAVE_HINT = "terminal.leave_hint"  # after Ctrl+C on an empty line: a second one leaves


class Actions:
    """One method per key binding."""

    def __init__(
        self, focus: InputFocus, state: PromptState, session: InputDispatcher, workspace: Path
    ) -> None:
        self.editor, self.focus = focus.editor, focus
        self.state = state
        self.session = session
        self.workspace = workspace
        self.app: Application[None]
        self.hint = ""  # text key of the hint that the last key shows
        self._next_hint = ""  # the same of the key being handled
        self.keys_asked = False  # `?` was the last key, on an empty line
        self._escaped = _NEVER
        self._vertical_goal = (-1, 0)  # caret after the last Up or Down, and its goal column

    def attach(self, app: Application[None]) -> None:
        """Bind to the application, which is created later."""
        self.app = self.focus.app = app
        self.editor.on_stash = lambda: enter_insert_mode(app)
        app.key_processor.after_key_press += lambda _processor: self._key_handled()

    def _key_handled(self) -> None:
        self.hint, self._next_hint = self._next_hint, ""

    # sending and stopping

    def enter(self) -> None:
        editor, menu = self.editor, self.editor.menu
        if editor.buffer.text == "/" and menu is not None and not menu.moved:
            return  # nothing was named or chosen yet
        if menu is not None and not menu.complete():
            runs = menu.runs() and editor.caret.at == len(editor.buffer.text)
            editor.accept()
            if runs:
                self.send()
        elif not editor.continue_line():
            self.send()

    def send(self) -> None:
        text = self.editor.message
        self.editor.clear(remember=not self.state.answering)
        self.session.submit(text)
        enter_insert_mode(self.app)

    def steer(self) -> None:
        """Send the text, or else the queue, to the running turn. Without a turn do nothing: the key is flow
        control (XOFF) to many."""
        text = self.editor.message
        if not self.state.busy or self.state.answering:
            return
        if not text.strip():
            for queued in [one for one in self.state.queue if not one.lstrip().startswith(("/", "!"))]:
                self.state.queue.remove(queued)
                self.session.steer(queued)
        elif text.lstrip().startswith(("/", "!")):
            self.send()
        else:
            self.editor.clear(remember=True)
            self.session.steer(text)

    def cycle_mode(self) -> None:
        """Switch to the next operating mode; while idle, hint at its meaning."""
        if self.state.answering:
            return
        mode = next_mode(self.state.mode)
        self.session.set_mode(mode)
        if not self.state.busy:
            self._next_hint = f"mode.set.{mode}"

    def end_of_input(self) -> None:
        if self.editor.empty:
            self.session.leave()
        else:
            self.send()

    def escape(self) -> None:
        now = time.monotonic()
        twice = now - self._escaped < DOUBLE_ESCAPE_SECONDS
        self._escaped = now
        if self.editor.keys_shown:
            self.editor.keys_shown, self._escaped = False, _NEVER
        elif self.editor.menu is not None:
            self.editor.close_menu()
        elif self.state.busy:
            self._escaped = _NEVER  # a second Esc after the turn has stopped must not clear the text
            self.session.cancel()
        elif twice and self.editor.empty:
            self._escaped = _NEVER
            self.session.rewind()
        elif twice:
            self.clear_text()

    def clear_text(self) -> None:
        """Cut all text; Ctrl+Y yanks it back."""
        if self.editor.message.strip():
            self.app.clipboard.set_text(self.editor.message)
        self.editor.clear()

    def escape_is_vims(self) -> bool:
        """In vim mode Esc first leaves insert mode, except on an empty line while a turn runs."""
        if self.app.editing_mode != EditingMode.VI or self.editor.menu is not None:
            return False
        idle_or_typing = not self.state.busy or not self.editor.empty
        return idle_or_typing and not vi_navigation_mode()

    def interrupt(self) -> None:
        if self.state.busy:
            self.session.cancel()
        elif self.editor.in_bar:
            self.focus.leave_bar()
        elif not self.editor.empty:
            self.clear_text()
        elif self.hint == _LEAVE_HINT:
            self.session.leave()
        else:
            self._next_hint = _LEAVE_HINT

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
        """Recall the queue, then the history. Not at a question."""
        if self.state.answering:
            return
        if self.state.queue:
            self.take_back()
        else:
            self.editor.buffer.history_backward()

    def newer(self) -> None:
        """Newer history, then the mode bar."""
        buffer = self.editor.buffer
        if buffer.working_index < len(buffer._working_lines) - 1:
            buffer.history_forward()
        else:
            self.editor.in_bar = self.focus.bar.enter()

    def _move_row(self, by: int) -> bool:
        """Move by a screen row; False at the edge."""
        buffer = self.editor.buffer
        at = buffer.cursor_position
        goal = self._vertical_goal[1] if self._vertical_goal[0] == at else None
        place = moved_by_rows(text_rows(buffer.text, self._shape()), at, by, goal)
        if place is None:
            return False
        buffer.cursor_position = place[0]
        self._vertical_goal = buffer.cursor_position, place[1]
        return True

    def _shape(self) -> WindowShape:
        """How the window wraps the text."""
        prefix = self.app.layout.current_window.get_line_prefix
        widths = [fragment_list_width(to_formatted_text(prefix(0, at))) if prefix else 0 for at in (0, 1)]
        return WindowShape(self.app.output.get_size().columns, *widths)

    def take_back(self) -> None:
        """Edit the newest queued message, before the current draft."""
        text = self.state.queue.pop()
        draft = self.editor.buffer.text
        self.editor.put(f"{text}\n{draft}" if draft else text)

    def may_show_keys(self) -> bool:
        return self.editor.empty and not self.state.answering and not self.editor.keys_shown

    def show_keys(self) -> None:
        self.keys_asked = True

    # editing

    def newline(self) -> None:
        self.editor.buffer.newline(copy_margin=False)

    def kill_word(self, event: KeyPressEvent, name: str) -> None:
        """A paste placeholder is killed and yanked as one word."""
        label = self.editor.cut_label()
        if label:
            self.app.clipboard.set_text(label)
        else:
            get_by_name(name).call(event)

    def open_editor(self) -> None:
        """Edit the text in `$EDITOR`, with paste placeholders expanded."""
        text = self.editor.message

        def done(edited: str | None) -> None:
            if edited is not None and edited != text:
                self.editor.put_draft(edited)

        edit_outside(self.app, text, ".md", self.workspace, done)

    # the terminal

    def clear_screen(self) -> None:
        """Scroll the screen's content into scrollback."""
        rows = self.app.output.get_size().rows
        self.app.renderer.erase()
        self.app.output.write_raw("\n" * (rows - 1) + "\x1b[H")
        self.app.output.flush()
        self.app.invalidate()


def enter_insert_mode(app: Application[None]) -> None:
    """A new prompt or question starts in vim's insert mode."""
    app.vi_state.input_mode = InputMode.INSERT


def toggle_vim(app: Application[None]) -> bool:
    """Whether vim mode is on now."""
    on = app.editing_mode != EditingMode.VI
    app.editing_mode = EditingMode.VI if on else EditingMode.EMACS
    enter_insert_mode(app)
    return on


def vim_mode(app: Application[None], editor: Editor) -> str:
    """The text key of vim's mode; empty without vim and in insert mode."""
    if app.editing_mode != EditingMode.VI:
        return ""
    if editor.buffer.selection_state is not None:
        return "terminal.vim_visual"
    mode = app.vi_state.input_mode
    if mode == InputMode.NAVIGATION:
        return "terminal.vim_normal"
    return "terminal.vim_replace" if mode in (InputMode.REPLACE, InputMode.REPLACE_SINGLE) else ""


_USUAL = ("editor", "nano", "vi", "emacs")


def edit_outside(
    app: Application[None], text: str, suffix: str, workspace: Path, done: Callable[[str | None], None]
) -> None:
    """Edit in the background; `done` gets the text, or None if there is no editor."""

    async def edit() -> None:
        edited = await run_in_terminal(
            lambda: edited_text(text, os.environ, workspace, suffix), in_executor=True
        )
        if edited is None:
            app.output.bell()
        done(edited)

    app.create_background_task(edit())


def edited_text(text: str, environ: Mapping[str, str], workspace: Path, suffix: str = ".md") -> str | None:
    """The edited text; None if there is no editor or it failed. `suffix` tells the editor the kind of
    text."""
    handle, name = tempfile.mkstemp(prefix="coder-", suffix=suffix)
    path = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="") as file:
            file.write(text)
        if not _ran(path, environ, workspace):
            return None
        return path.read_bytes().decode("utf-8", errors="replace").replace("\r\n", "\n").removesuffix("\n")
    except OSError:
        return None
    finally:
        path.unlink(missing_ok=True)


def _ran(path: Path, environ: Mapping[str, str], workspace: Path) -> bool:
    for first, *rest in filter(None, _commands(environ)):
        program = find_chosen(first, environ.get("PATH"), workspace)
        try:
            if program is not None:
                line, kept = [program, *rest, str(path)], own_environment(environ)
                return run(line, runs=Runs.FOR_PERSON, environment=kept)[0] == 0
        except OSError:
            continue
    return False


def _commands(environ: Mapping[str, str]) -> Iterator[list[str]]:
    for name in ("VISUAL", "EDITOR"):
        if value := environ.get(name, "").strip():
            try:
                yield shlex.split(value)
            except ValueError:  # unbalanced quotes: perhaps a path
                yield [value]
    yield from ([name] for name in _USUAL)
