"""The room below the input, which custom modes fill (003 §6): what fills it must offer this."""

from __future__ import annotations

from typing import Protocol


class ModeBar(Protocol):
    """Shown below the input whenever `rows` has any. Down on the newest line enters it where `enter` says
    yes; from then on every key goes to `key`, until that answers False (Up, say, or Esc)."""

    def rows(self, width: int) -> list[str]:
        """Text with SGR colours, already safe and no wider than `width`."""
        ...

    def enter(self) -> bool: ...

    def key(self, name: str, data: str) -> bool:
        """`name` is prompt_toolkit's ("left", "right", "up", "enter", "escape", "delete", a character)."""
        ...


class NoBar:
    """As long as there are no custom modes."""

    def rows(self, width: int) -> list[str]:
        return []

    def enter(self) -> bool:
        return False

    def key(self, name: str, data: str) -> bool:
        return False
