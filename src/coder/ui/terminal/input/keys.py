"""Key bindings; the actions are in `actions`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prompt_toolkit.filters import (
    Always,
    Condition,
    emacs_mode,
    has_focus,
    is_searching,
    vi_insert_mode,
    vi_navigation_mode,
)
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from coder.config.schema import bound_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from prompt_toolkit.filters import Filter

    from coder.config.schema import KeyAction
    from coder.ui.terminal.ask.approval_prompt import ApprovalPrompt
    from coder.ui.terminal.input.actions import Actions
    from coder.ui.terminal.pick import Picker

# Global keys, and Esc, which may start another key.
_NOT_THE_BARS = {Keys.ControlC, Keys.ControlZ, Keys.ControlL, Keys.SIGINT, Keys.CPRResponse, Keys.Escape}


class _Table:
    """The bindings under construction, and the focus filters they use."""

    def __init__(self, actions: Actions, chosen: Mapping[KeyAction, str]) -> None:
        self.actions = actions
        self.bound = bound_keys(chosen)
        self.keys = KeyBindings()
        in_bar = Condition(lambda: actions.editor.in_bar)
        self.editing = has_focus(actions.editor.buffer) & ~is_searching
        self.in_bar = self.editing & in_bar
        self.at_prompt = self.editing & ~in_bar
        self.typing = self.at_prompt & (emacs_mode | vi_insert_mode)
        self.anywhere: Filter = Always()

    def on(self, *names: str, do: Callable[[], object], when: Filter | None = None) -> None:
        self.keys.add(*names, filter=self.at_prompt if when is None else when)(lambda _event: do())

    def named(self, action: KeyAction, do: Callable[[], object], when: Filter | None = None) -> None:
        """Bind an action with a configurable key."""
        for keys in self.bound[action]:
            self.on(*toolkit_keys(keys), do=do, when=when)

    @property
    def pressed(self) -> str:
        """The key being looked up."""
        buffer = self.actions.app.key_processor.key_buffer
        return buffer[0].key if buffer else ""


def toolkit_keys(keys: str) -> list[str]:
    """`alt+x ctrl+e` as prompt_toolkit names it."""
    named: list[str] = []
    for key in keys.split():
        modifier, _, name = key.rpartition("+")
        prefix = {"ctrl": "c-", "shift": "s-"}.get(modifier, "")
        named += ["escape", name] if modifier == "alt" else [prefix + name]
    return named


def bindings(
    actions: Actions, picker: Picker, question: ApprovalPrompt, chosen: Mapping[KeyAction, str]
) -> KeyBindings:
    """`chosen`: keys by action (`ui.keys`)."""
    table = _Table(actions, chosen)
    _bind_sending(table)
    _bind_moving(table)
    _bind_editing(table)
    _bind_vim(table)
    _bind_question(table, question)
    _bind_bar(table)
    _bind_picker(table, picker)
    return table.keys


def _bind_sending(table: _Table) -> None:
    actions, on = table.actions, table.on
    on("enter", do=actions.enter)
    on("escape", do=actions.escape, when=table.at_prompt & ~Condition(actions.escape_is_vims))
    on("c-c", do=actions.interrupt, when=~is_searching)
    on("<sigint>", do=actions.interrupt, when=table.anywhere)
    on("c-d", do=actions.end_of_input)
    table.named("suspend", lambda: actions.app.suspend_to_background(), table.anywhere)
    table.named("clear_screen", actions.clear_screen, table.anywhere)
    table.named("rewind", actions.session.rewind)


def _bind_moving(table: _Table) -> None:
    """Through the text, the menu and the history."""
    actions, on = table.actions, table.on
    menu = Condition(lambda: actions.editor.menu is not None)
    for up, down in (("up", "down"), ("c-p", "c-n")):
        on(up, do=actions.up)
        on(down, do=actions.down)
    on("?", do=actions.show_keys, when=table.typing & Condition(actions.may_show_keys))
    on("tab", do=actions.editor.accept, when=table.editing & menu)
    on("tab", do=actions.editor.ask_for_menu, when=table.editing & ~menu)
    on("s-tab", do=actions.up, when=table.editing & menu)
    table.named("mode", actions.cycle_mode, table.at_prompt & ~menu)
    table.named("search", actions.focus.search, table.typing)
    on("c-c", do=actions.focus.stop_search, when=is_searching)
    on("c-g", do=actions.focus.stop_search, when=is_searching)


def _bind_editing(table: _Table) -> None:
    actions, on, keys = table.actions, table.on, table.keys
    editor = actions.editor
    table.named("newline", lambda: editor.buffer.newline(copy_margin=False))
    on("escape", "c-j", do=lambda: editor.buffer.newline(copy_margin=False))
    on("backspace", do=editor.backspace)
    on("delete", do=editor.delete, when=table.typing)
    for left, right in (("left", "right"), ("c-b", "c-f")):
        on(left, do=lambda: editor.move(-1), when=table.typing)
        on(right, do=lambda: editor.move(1), when=table.typing)
    table.named("editor", actions.open_editor)
    table.named("steer", actions.steer)
    table.named("transcript", actions.session.show_transcript)
    # A flow-control key (XON) must not quote the next one.
    on("c-q", do=lambda: None, when=table.anywhere)
    keys.add("c-w", filter=table.typing)(lambda event: actions.kill_word(event, "unix-word-rubout"))
    keys.add("escape", "backspace", filter=table.typing & emacs_mode)(
        lambda event: actions.kill_word(event, "backward-kill-word")
    )
    keys.add(Keys.BracketedPaste, filter=table.editing)(lambda event: editor.paste(event.data))


def _bind_vim(table: _Table) -> None:
    """History, mode bar and redo in vim's normal mode, which prompt_toolkit lacks."""
    actions, buffer = table.actions, table.actions.editor.buffer
    navigating = table.at_prompt & vi_navigation_mode
    first = Condition(lambda: buffer.document.on_first_line)
    last = Condition(lambda: buffer.document.on_last_line)
    table.on("k", do=actions.older, when=navigating & first)
    table.on("j", do=actions.newer, when=navigating & last)
    table.keys.add("c-r", filter=navigating, save_before=lambda _event: False)(lambda _event: buffer.redo())


def _bind_question(table: _Table, question: ApprovalPrompt) -> None:
    decides = Condition(lambda: question.takes("\r" if table.pressed == Keys.ControlM else table.pressed))
    # Eager: self-insert takes precedence over "<any>".
    table.keys.add("<any>", filter=table.at_prompt & decides, eager=True)(
        lambda event: question.key(event.data)
    )
    table.on(
        "backspace", do=question.leave_reason, when=table.at_prompt & Condition(question.is_reason_empty)
    )


def _bind_bar(table: _Table) -> None:
    """Bound last, to take precedence over the prompt's bindings."""
    actions, keys = table.actions, table.keys

    def in_bar_key(event: KeyPressEvent) -> None:
        actions.focus.bar_key(event.key_sequence[0].key, event.data)

    for_bar = Condition(lambda: bool(table.pressed) and table.pressed not in _NOT_THE_BARS)
    # Eager: vim's and the editor's bindings take precedence over "<any>".
    keys.add("<any>", filter=table.in_bar & for_bar, eager=True)(in_bar_key)
    keys.add("escape", filter=table.in_bar)(in_bar_key)
    keys.add("escape", "enter", filter=table.in_bar)(lambda _event: actions.focus.bar_key("newline", ""))


def _bind_picker(table: _Table, picker: Picker) -> None:
    """An open list takes the keys, except those that edit its search."""
    picking = table.editing & Condition(lambda: picker.open)

    def on(*names: str, do: Callable[[], object]) -> None:
        for name in names:
            table.on(name, do=do, when=picking)

    on("up", "c-p", "s-tab", do=lambda: picker.move(-1))
    on("down", "c-n", "tab", do=lambda: picker.move(1))
    on("pageup", do=lambda: picker.page(-1))
    on("pagedown", do=lambda: picker.page(1))
    on("enter", do=picker.accept)
    on("escape", "c-c", "c-d", do=picker.close)
    on("c-j", "c-r", "c-s", "c-o", "?", do=lambda: None)
