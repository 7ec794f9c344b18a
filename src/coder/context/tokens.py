"""Counting tokens locally, before a request.

The vocabulary takes 30 to 60 ms to load, so it is loaded only where a number is needed that a bound cannot
give: no text has more tokens than bytes, so a conversation smaller than a limit is known to fit unread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coder.texts import Fault

if TYPE_CHECKING:
    from collections.abc import Callable

# Chat templates wrap each message in a few tokens of their own.
PER_MESSAGE = 4
# A word without an end costs the tokenizer time by its length squared: a megabyte of one letter took 0.36 s
# and takes 3 ms in pieces. A cut may cost a token, which is less than one in a thousand.
_PIECE = 4_096


class UnknownTokenizer(Fault):
    """`--tokenizer-model` names a vocabulary that is not there; the text lists those that are."""

    def __init__(self, name: str, known: str) -> None:
        super().__init__("tokens.unknown", name=repr(name), known=known or "-")


class TokenCounter:
    """Counts with one vocabulary, loaded at the first exact count."""

    def __init__(self, vocabulary: str) -> None:
        self.vocabulary = vocabulary
        self._encode: Callable[[str], list[int]] | None = None
        self._missing = False

    @property
    def loaded(self) -> bool:
        return self._encode is not None

    def load(self) -> None:
        """Raises `UnknownTokenizer`. A machine without the library counts by estimate."""
        if self._encode is not None or self._missing:
            return
        try:
            from splintr import Tokenizer
        except ImportError:
            self._missing = True
            return
        try:
            tokenizer: Any = Tokenizer.from_pretrained(self.vocabulary)
        except ValueError as error:
            from coder.config.models import known_tokenizer

            meant = known_tokenizer(self.vocabulary)  # the name of a model stands for its vocabulary
            if not meant:
                known = str(error).partition("Supported: ")[2]
                raise UnknownTokenizer(self.vocabulary, known) from error
            tokenizer = Tokenizer.from_pretrained(meant)
        self._encode = tokenizer.encode_ordinary

    def count(self, text: str) -> int:
        self.load()
        if self._encode is None:
            return estimate(text)
        if len(text) <= _PIECE:
            return len(self._encode(text))
        return sum(len(self._encode(text[at : at + _PIECE])) for at in range(0, len(text), _PIECE))

    def quick(self, text: str) -> int:
        """Exact where the vocabulary is there already, else an estimate."""
        return self.count(text) if self.loaded else estimate(text)


def estimate(text: str) -> int:
    """About four ASCII characters a token, two tokens for three others; never 0 for some text."""
    if text.isascii():
        return (len(text) + 3) // 4
    ascii_count = sum(c < "\x80" for c in text)
    return (ascii_count + 3) // 4 + (2 * (len(text) - ascii_count) + 2) // 3


def byte_length(text: str) -> int:
    """Bytes in UTF-8: no text has more tokens than that."""
    return len(text) if text.isascii() else len(text.encode("utf-8", errors="surrogatepass"))
