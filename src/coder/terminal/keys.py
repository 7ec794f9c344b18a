"""Which key does what. What it does is in `actions`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prompt_toolkit.filters import (
    Condition,
    emacs_mode,
    has_focus,
    is_searching,
    vi_insert_mode,
    vi_navigation_mode,
)
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from coder.terminal.vim_edit import STARTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from prompt_toolkit.filters import Filter

    from coder.terminal.actions import Actions

# What these do, they do wherever the focus is; and an Esc may be the beginning of another key.
_NOT_THE_BARS = {Keys.ControlC, Keys.ControlZ, Keys.ControlL, Keys.SIGINT, Keys.CPRResponse, Keys.Escape}


def bindings(actions: Actions) -> KeyBindings:
    keys = KeyBindings()
    editing = has_focus(actions.editor.buffer) & ~is_searching
    menu = Condition(lambda: actions.editor.menu is not None)
    vim_insert = Condition(actions.escape_is_vims)
    in_bar = Condition(lambda: actions.editor.in_bar)

    def on(*names: str, when: Filter = editing & ~in_bar) -> Callable[[Callable[[], object]], None]:
        def bind(do: Callable[[], object]) -> None:
            keys.add(*names, filter=when)(lambda _event: do())

        return bind

    on("enter")(actions.enter)
    on("escape", "enter")(actions.newline)
    on("escape", "c-j")(actions.newline)
    on("c-j")(actions.newline)
    on("escape", when=(editing & ~vim_insert & ~in_bar))(actions.escape)
    on("c-c", when=~is_searching)(actions.interrupt)
    on("c-c", when=is_searching)(actions.stop_search)
    on("c-g", when=is_searching)(actions.stop_search)
    on("c-r", when=editing & ~in_bar & ~vi_navigation_mode)(actions.search)
    on("<sigint>", when=Condition(lambda: True))(actions.interrupt)
    on("c-d")(actions.end_of_input)
    on("c-z", when=Condition(lambda: True))(actions.suspend)
    on("c-l", when=Condition(lambda: True))(actions.clear_screen)
    on("up")(actions.up)
    on("down")(actions.down)
    on("c-p")(actions.up)
    on("c-n")(actions.down)
    on("tab", when=editing & menu)(actions.accept)
    on("tab", when=editing & ~menu)(actions.complete)
    on("s-tab", when=editing & menu)(actions.up)
    on("backspace")(actions.backspace)
    typing = editing & ~in_bar & ~vi_navigation_mode
    keys.add("c-w", filter=typing)(lambda event: actions.kill_word(event, "unix-word-rubout"))
    keys.add("escape", "backspace", filter=typing & emacs_mode)(
        lambda event: actions.kill_word(event, "backward-kill-word")
    )
    on("c-x", "c-e")(actions.open_editor)
    _bind_vim(keys, actions, editing & ~in_bar)
    keys.add(Keys.BracketedPaste, filter=editing)(lambda event: actions.paste(event.data))

    def in_bar_key(event: KeyPressEvent) -> None:
        actions.bar_key(event.key_sequence[0].key, event.data)

    def for_bar() -> bool:
        pressed = actions.app.key_processor.key_buffer
        return bool(pressed) and pressed[0].key not in _NOT_THE_BARS

    # Eager, because vim's keys and the editor's own would come before "any".
    keys.add("<any>", filter=editing & in_bar & Condition(for_bar), eager=True)(in_bar_key)
    keys.add("escape", filter=editing & in_bar)(in_bar_key)
    keys.add("escape", "enter", filter=editing & in_bar)(lambda _event: actions.bar_key("newline", ""))
    return keys


def _bind_vim(keys: KeyBindings, actions: Actions, editing: Filter) -> None:
    def for_vim() -> bool:
        pressed = actions.app.key_processor.key_buffer
        key = pressed[0].key if pressed else ""
        if actions.vim.pending:
            return len(key) == 1 or key == Keys.ControlM
        return len(key) == 1 and key in STARTS

    resting = editing & vi_navigation_mode
    # Eager, because prompt_toolkit's own commands would come before "any".
    keys.add("<any>", filter=resting & Condition(for_vim), eager=True)(
        lambda event: actions.vim.key(event.data.replace("\r", "\n"))
    )
    keys.add("c-r", filter=resting)(lambda _event: actions.vim.redo())
    keys.add("escape", filter=editing & vi_insert_mode & Condition(actions.escape_is_vims))(
        lambda _event: actions.vim.leave_insert()
    )
