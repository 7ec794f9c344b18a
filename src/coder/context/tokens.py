"""Count tokens locally, before a request.

The vocabulary is loaded lazily (30 to 60 ms), and once per process (40 MB): a text has at most as many tokens
as bytes, so a small conversation is known to fit without counting.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from coder.texts import Fault

if TYPE_CHECKING:
    from collections.abc import Callable

# Chat templates add a few tokens to each message.
PER_MESSAGE = 4
# Quadratic in the length of a word: a megabyte of one letter took 0.36 s, and 3 ms in pieces.
# A cut adds less than one token in a thousand.
_PIECE = 4_096


class UnknownTokenizer(Fault):
    """`--tokenizer-model` names an unknown vocabulary; the message lists the known ones."""

    def __init__(self, name: str, known: str) -> None:
        super().__init__("tokens.unknown", name=repr(name), known=known or "-")


class TokenCounter:
    """Counts with one vocabulary, loaded lazily."""

    def __init__(self, vocabulary: str) -> None:
        self.vocabulary = vocabulary
        self._encode: Callable[[str], list[int]] | None = None
        self._missing = False

    @property
    def loaded(self) -> bool:
        return self._encode is not None

    def load(self) -> None:
        """Raises `UnknownTokenizer`. Falls back to estimates without the library."""
        if self._encode is not None or self._missing:
            return
        try:
            from splintr import Tokenizer
        except ImportError:
            self._missing = True
            return
        try:
            self._encode = _encoder(Tokenizer, self.vocabulary)
        except ValueError as error:
            from coder.config.models import known_tokenizer

            meant = known_tokenizer(self.vocabulary)  # a model's name selects its vocabulary
            if not meant:
                known = str(error).partition("Supported: ")[2]
                raise UnknownTokenizer(self.vocabulary, known) from error
            self._encode = _encoder(Tokenizer, meant)

    def count(self, text: str) -> int:
        self.load()
        if self._encode is None:
            return estimate(text)
        if len(text) <= _PIECE:
            return len(self._encode(text))
        return sum(len(self._encode(text[at : at + _PIECE])) for at in range(0, len(text), _PIECE))

    def quick(self, text: str) -> int:
        """Exact if the vocabulary is loaded, else an estimate."""
        return self.count(text) if self.loaded else estimate(text)


@lru_cache(maxsize=2)
def _encoder(tokenizer: Any, vocabulary: str) -> Callable[[str], list[int]]:
    """Shared by sessions and subagents. Raises ValueError."""
    encode: Callable[[str], list[int]] = tokenizer.from_pretrained(vocabulary).encode_ordinary
    return encode


def estimate(text: str) -> int:
    """About four ASCII characters per token, two tokens for three others; at least 1 for any text."""
    if text.isascii():
        return (len(text) + 3) // 4
    ascii_count = len(text.encode("ascii", errors="ignore"))
    return (ascii_count + 3) // 4 + (2 * (len(text) - ascii_count) + 2) // 3


def byte_length(text: str) -> int:
    """Bytes in UTF-8: an upper bound of the tokens."""
    return len(text) if text.isascii() else len(text.encode("utf-8", errors="surrogatepass"))
