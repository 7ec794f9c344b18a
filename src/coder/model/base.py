"""What the engine asks of a model, and what a model answers with."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

import msgspec

from coder.protocol.messages import Message, ToolCall, ToolSpec
from coder.protocol.usage import Usage
from coder.texts import Fault, Phrase

T = TypeVar("T")


class ModelRequest(msgspec.Struct, frozen=True):
    """One request. `prompt_id` is the same for all requests of one user input."""

    model: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    reasoning_effort: str | None = None
    prompt_id: str = ""


class TextDelta(msgspec.Struct, frozen=True):
    """A piece of the answer, to be shown as it comes."""

    text: str


class ReasoningDelta(msgspec.Struct, frozen=True):
    """A piece of the reasoning."""

    text: str


class CallReady(msgspec.Struct, frozen=True):
    """A tool call, whole. `arguments` are JSON text of an object unless `fault` says why not;
    a call with a fault is answered with it instead of being run."""

    call: ToolCall
    fault: str = ""


class Retrying(msgspec.Struct, frozen=True):
    """The request failed and will be sent again after `wait` seconds."""

    reason: Phrase
    attempt: int
    wait: float


class Restarted(msgspec.Struct, frozen=True):
    """The stream broke after text had been shown and the new one says something else:
    text and calls so far are void, all of it comes again."""


class CitationFound(msgspec.Struct, frozen=True):
    """A source the provider names."""

    text: str


class Completed(msgspec.Struct, frozen=True):
    """Always the last chunk. `usage` is None where the provider sent none. `raw` is the model's own text
    where the chunks are another reading of it; `salvaged`: the calls stood in it as text."""

    finish_reason: str
    usage: Usage | None = None
    model: str = ""
    raw: str = ""
    salvaged: bool = False


Chunk = TextDelta | ReasoningDelta | CallReady | Retrying | Restarted | CitationFound | Completed


class ChatModel(Protocol):
    """Anything that answers a conversation. Cancelling the task that iterates closes the request."""

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Answer in chunks, ending with `Completed`; raise `ModelError` where that is not possible."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class ModelError(Fault):
    """A request that could not be answered; its phrase says what to do about it, too.

    `kind`: `auth`, `quota`, `budget` (our own), `context` (too long), `unreachable`, `timeout`, `server`,
    `bad_request`, `protocol`. `retryable` says whether the same request may succeed later.
    """

    def __init__(
        self,
        phrase: Phrase | str,
        *,
        kind: str = "server",
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(phrase if isinstance(phrase, Phrase) else Phrase("fault.words", words=phrase))
        self.kind = kind
        self.retryable = retryable
        self.retry_after = retry_after


@asynccontextmanager
async def closing(stream: AsyncIterator[T]) -> AsyncGenerator[AsyncIterator[T], None]:
    """Close a stream when its reader leaves, however it leaves, so that the socket goes at once."""
    try:
        yield stream
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
