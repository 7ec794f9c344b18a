"""The rest of a word whose first letter has already decided: `y` acts at once, and `es⏎` may follow.

Without this the rest would become part of the draft, and its Enter would send that.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_PAUSE = 0.7  # seconds between two letters of a word
REST = {"y": "es", "a": "lways"}

Later = Callable[[float, Callable[[], None]], object]
"""Calls a function after so many seconds."""


class WordRest:
    """Holds letters back while they may be the rest of the word; `give_back` gets those that are not."""

    def __init__(self, give_back: Callable[[str], None], later: Later) -> None:
        self._give_back, self._later = give_back, later
        self._rest = self._held = ""
        self._until = float("-inf")

    def expect(self, letter: str) -> None:
        self._rest, self._held = REST.get(letter, ""), ""
        self._extend()

    def end(self) -> None:
        """Something else is being typed."""
        self._held, self._until = "", float("-inf")

    def _extend(self) -> None:
        self._until = time.monotonic() + _PAUSE
        self._later(_PAUSE + 0.01, self._expire)

    def takes(self, key: str) -> bool:
        """`key`: a letter, or `\\r`."""
        active = time.monotonic() < self._until and len(key) == 1
        return active and (key == "\r" or self._continues(key) or bool(self._held and key.isprintable()))

    def _continues(self, key: str) -> bool:
        return bool(key) and self._rest.startswith(self._held + key.lower())

    def key(self, key: str) -> None:
        if key == "\r":
            if self._held not in ("", self._rest):
                self._give_back(self._held)
            self.end()
            return
        if not self._continues(key):
            self._interrupted(key)
            return
        self._held += key.lower()
        self._extend()

    def _interrupted(self, key: str = "") -> None:
        """Another key came: what was held was the beginning of something else."""
        held, self._held, self._until = self._held, "", float("-inf")
        if key or held != self._rest:
            self._give_back(held + key)

    def _expire(self) -> None:
        if self._held and time.monotonic() >= self._until:
            self._interrupted()
