"""Which key does what. What it does is in `actions`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prompt_toolkit.filters import Condition, has_focus, is_searching
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from coder.terminal.vim import change_word

if TYPE_CHECKING:
    from collections.abc import Callable

    from prompt_toolkit.filters import Filter

    from coder.terminal.actions import Actions

_BAR_KEYS = ("left", "right", "up", "down", "enter", "escape", "tab", "s-tab", "backspace", "delete", "<any>")


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
    on("c-j")(actions.newline)
    on("escape", when=(editing & ~vim_insert & ~in_bar))(actions.escape)
    on("c-c", when=Condition(lambda: True))(actions.interrupt)
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
    on("c-x", "c-e")(actions.open_editor)
    on(".", when=editing & Condition(actions.resting_in_vim))(lambda: actions.vim.repeat())
    keys.add("c", "w", filter=editing & Condition(actions.resting_in_vim))(change_word)
    keys.add(Keys.BracketedPaste, filter=editing)(lambda event: actions.paste(event.data))

    def in_bar_key(event: KeyPressEvent) -> None:
        actions.bar_key(event.key_sequence[0].key, event.data)

    for name in _BAR_KEYS:
        keys.add(name, filter=editing & in_bar)(in_bar_key)
    return keys
