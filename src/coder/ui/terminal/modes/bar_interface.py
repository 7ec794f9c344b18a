"""The interface of the bar below the input."""

from __future__ import annotations

from typing import Literal, Protocol

# After a key: the focus stays, returns to the input, or returns and the key is passed on.
KeyAnswer = Literal["stay", "leave", "pass"]

# prompt_toolkit names these keys by their control characters.
_NAMES = {"c-m": "enter", "c-i": "tab", "c-h": "backspace", "c-j": "newline", "<bracketed-paste>": "paste"}


class ModeBar(Protocol):
    """Shown below the input if `rows` is not empty. Down on the newest line calls `enter`; if it returns
    True, every key goes to `key` until that returns something other than "stay"."""

    def rows(self, width: int) -> list[str]:
        """Sanitized text with SGR colours, at most `width` columns wide."""
        ...

    @property
    def editing(self) -> bool:
        """Whether a value is being edited: nothing else may take the keys."""
        ...

    def enter(self) -> bool: ...

    def leave(self) -> None:
        """The focus is lost, by Ctrl+C or by a question while nothing is being edited."""
        ...

    def key(self, name: str, data: str) -> KeyAnswer:
        """`name` as `key_name` gives it: "left", "enter", "escape", "paste", a character."""
        ...


class NoBar:
    """The null object, for plain output."""

    def rows(self, width: int) -> list[str]:
        return []

    @property
    def editing(self) -> bool:
        return False

    def enter(self) -> bool:
        return False

    def leave(self) -> None:
        """No-op."""

    def key(self, name: str, data: str) -> KeyAnswer:
        return "leave"


def key_name(key: object) -> str:
    """The name of a prompt_toolkit key."""
    name = str(getattr(key, "value", key))
    return _NAMES.get(name, name)
