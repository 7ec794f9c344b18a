"""The one way in which configuration fails: a sentence that names file, key and what is allowed."""

from __future__ import annotations

from coder.texts import Fault


class ConfigError(Fault):
    """Wrong configuration, said in one or two sentences of the catalogue (exit status 2)."""


def shown(text: str) -> str:
    """Text of a file made safe to print: what could control the terminal is written as an escape."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
