"""The one way in which configuration fails: a sentence that names file, key and what is allowed."""

from __future__ import annotations

from coder.texts import Phrase, Texts


class ConfigError(Exception):
    """Wrong configuration, said in one or two sentences of the catalogue (exit status 2)."""

    def __init__(self, key: str, /, **values: object) -> None:
        super().__init__(key)
        self.phrase = Phrase(key, **values)

    def text(self, texts: Texts) -> str:
        """The sentence in the person's language."""
        return self.phrase.text(texts)

    def __str__(self) -> str:
        return str(self.phrase)


def shown(text: str) -> str:
    """Text of a file made safe to print: what could control the terminal is written as an escape."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
