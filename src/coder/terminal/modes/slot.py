"""The room below the input, which custom modes fill: what fills it must offer this."""

from __future__ import annotations

from typing import Literal, Protocol

# What becomes of the focus after a key: it stays, goes back to the input, or goes back and the key with it.
KeyAnswer = Literal["stay", "leave", "pass"]

# prompt_toolkit knows these keys by the control character that they send.
_NAMES = {"c-m": "enter", "c-i": "tab", "c-h": "backspace", "c-j": "newline", "<bracketed-paste>": "paste"}


class ModeBar(Protocol):
    """Shown below the input whenever `rows` has any. Down on the newest line enters it where `enter` says
    yes; from then on every key goes to `key`, until that answers something other than "stay"."""

    def rows(self, width: int) -> list[str]:
        """Text with SGR colours, already safe and no wider than `width`."""
        ...

    @property
    def editing(self) -> bool:
        """Whether a value is being filled in: nothing may take the keys then."""
        ...

    def enter(self) -> bool: ...

    def leave(self) -> None:
        """The focus is taken away: by Ctrl+C, or by a question while nothing is being edited."""
        ...

    def key(self, name: str, data: str) -> KeyAnswer:
        """`name` as `key_name` gives it: "left", "enter", "escape", "paste", a character."""
        ...


class NoBar:
    """Where nothing can be shown below the input."""

    def rows(self, width: int) -> list[str]:
        return []

    @property
    def editing(self) -> bool:
        return False

    def enter(self) -> bool:
        return False

    def leave(self) -> None:
        """There is nothing to leave."""

    def key(self, name: str, data: str) -> KeyAnswer:
        return "leave"


def key_name(key: object) -> str:
    """Of a key as prompt_toolkit hands it over."""
    name = str(getattr(key, "value", key))
    return _NAMES.get(name, name)
