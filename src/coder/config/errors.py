"""Configuration errors: a sentence that names file, key and what is allowed."""

from __future__ import annotations

from coder.texts import Fault


class ConfigError(Fault):
    """Invalid configuration (exit status 2)."""


def shown(text: str) -> str:
    """Sanitize text for the terminal: control characters are escaped."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
