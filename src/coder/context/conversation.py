"""The conversation and its token count.

Counting is incremental: the cost of a step does not grow with the conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from coder.config.models import known_tokenizer
from coder.protocol.messages import Image, Message, ToolSpec
from coder.texts import CoderError

if TYPE_CHECKING:
    from collections.abc import Callable


# Chat templates add a few tokens to each message.
PER_MESSAGE = 4
# Quadratic in the length of a word: a megabyte of one letter took 0.36 s, and 3 ms in pieces.
# A cut adds less than one token in a thousand.
_PIECE = 4_096


class UnknownTokenizer(CoderError):
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


_PIXELS = 750  # a token, about
_MOST = 4800  # tokens of an image: what is larger is scaled down by the provider
_USUAL = 1500  # of an image of unknown size


class Conversation:
    """`bytes` is an upper bound of the tokens; `unanswered` counts trailing messages without a response."""

    def __init__(self, counter: TokenCounter, tools: Sequence[ToolSpec]) -> None:
        self.counter = counter
        self.messages: list[Message] = []
        self.unanswered = 0
        self.has_images = False
        self.bytes = len(msgspec.json.encode(list(tools)))
        self._tools = tools
        self._counted = 0  # messages included in `_tokens`
        self._tokens = -1  # -1: nothing counted yet

    def use_counter(self, counter: TokenCounter) -> None:
        """Switch the vocabulary."""
        self.counter = counter
        self._counted, self._tokens = 0, -1

    def use_tools(self, tools: Sequence[ToolSpec]) -> None:
        """Switch the offered tools."""
        self._tools = tools
        self.replace(self.messages)

    def append(self, message: Message) -> None:
        self.messages.append(message)
        self.unanswered += 1
        self.has_images = self.has_images or bool(message.images)
        self.bytes += message_bytes(message)

    def append_response(self, message: Message) -> None:
        """Append the model's response to all messages before it."""
        self.append(message)
        self.unanswered = 1 if message.tool_calls else 0

    def replace(self, messages: list[Message]) -> None:
        """After compaction or a change of the head; the newest messages are unchanged."""
        self.messages = list(messages)
        self.has_images = any(message.images for message in messages)
        self.unanswered = min(self.unanswered, len(messages))
        self.bytes = len(msgspec.json.encode(list(self._tools))) + sum(map(message_bytes, messages))
        self._counted, self._tokens = 0, -1

    def tokens(self) -> int:
        """Tokens of the whole prompt, tool definitions included; loads the vocabulary."""
        if self._tokens < 0:
            self._tokens = self.counter.count(msgspec.json.encode(list(self._tools)).decode("utf-8"))
        for message in self.messages[self._counted :]:
            self._tokens += message_tokens(self.counter, message)
        self._counted = len(self.messages)
        return self._tokens

    def fixed_tokens(self, head: Sequence[Message]) -> int:
        """Tokens of the tool definitions and these messages, which compaction cannot reduce."""
        tools = self.counter.count(msgspec.json.encode(list(self._tools)).decode("utf-8"))
        return tools + sum(message_tokens(self.counter, message) for message in head)

    def estimate(self) -> int:
        """Approximate tokens without the tokenizer: four bytes each."""
        return self.bytes // 4

    def estimate_unanswered(self) -> int:
        """The same of what has come after the newest response."""
        newest = self.messages[len(self.messages) - self.unanswered :]
        return sum(message_bytes(message) for message in newest if message.role != "assistant") // 4

    def exceeds(self, limit: float) -> bool:
        """Whether the prompt has more than `limit` tokens; counts only if the byte bound does not decide."""
        return self.bytes > limit and self.tokens() > limit


def count_unanswered(messages: Sequence[Message]) -> int:
    """Number of trailing messages of a resumed conversation without a response."""
    at = len(messages)
    while at and messages[at - 1].role != "assistant":
        at -= 1
    return len(messages) - at + (1 if at and messages[at - 1].tool_calls else 0)


def message_tokens(counter: TokenCounter, message: Message) -> int:
    count = PER_MESSAGE + counter.count(message.content) + sum(map(_image_tokens, message.images))
    if message.opaque is not None:
        count += len(msgspec.json.encode(message.opaque)) // 4
    for call in message.tool_calls:
        count += counter.count(call.name) + counter.count(call.function.arguments)
    return count


def _image_tokens(image: Image) -> int:
    """About: providers count by the size in pixels, each in its own way."""
    return min(_MOST, 100 + image.width * image.height // _PIXELS) if image.width else _USUAL


def message_bytes(message: Message) -> int:
    """No fewer than the tokens."""
    size = PER_MESSAGE + byte_length(message.content)
    if message.images:
        size += sum(map(_image_tokens, message.images))
    if message.opaque is not None:
        size += len(msgspec.json.encode(message.opaque))
    for call in message.tool_calls:
        size += byte_length(call.name) + byte_length(call.function.arguments)
    return size
