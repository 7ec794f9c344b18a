"""The `ChatModel` protocol: requests, streamed chunks, errors."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from coder.protocol.messages import Message, Opaque, ToolCall, ToolSpec, Usage
from coder.texts import CoderError, Text

T = TypeVar("T")

# Finish reasons of content filters.
FILTERED = ("content_filter", "safety", "recitation", "prohibited_content", "blocklist", "spii", "sensitive")


class ModelRequest(msgspec.Struct, frozen=True):
    """`prompt_id` is shared by all requests of one input. `task`: its text, without the files and results
    that its message has as well; `typed`: what of it was typed. `extra`: further fields of a Chat Completions
    body (an answer's schema, sampling, llama.cpp's own); other wires leave them out. `again`: awaited before
    a wire sends it once more by itself, without what a server refused."""

    model: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    reasoning_effort: str | None = None
    max_output_tokens: int | None = None
    prompt_id: str = ""
    task: str = ""
    typed: str = ""
    extra: Mapping[str, Any] = {}
    again: Callable[[], Awaitable[None]] | None = None


class TextDelta(msgspec.Struct, frozen=True):
    """A piece of the answer."""

    text: str


class ReasoningDelta(msgspec.Struct, frozen=True):
    """A piece of the reasoning."""

    text: str


class CallReady(msgspec.Struct, frozen=True):
    """A complete tool call. Its arguments are a JSON object unless `fault` is set; then the fault is the
    result and the call is not run."""

    call: ToolCall
    fault: str = ""


class CallDelta(msgspec.Struct, frozen=True):
    """A piece of a tool call's arguments, to show what is being written; `CallReady` follows with all of it.
    `number` tells the calls of one answer apart."""

    number: int
    name: str
    text: str


class Retrying(msgspec.Struct, frozen=True):
    """The request failed and is retried after `wait` seconds."""

    reason: Text
    attempt: int
    wait: float


class Adapted(msgspec.Struct, frozen=True):
    """The server refused something and was asked without it; `phrase` says what, for the person."""

    phrase: Text


class Restarted(msgspec.Struct, frozen=True):
    """A retry of a broken stream differs from what was already emitted: discard text and calls so far."""


class CitationFound(msgspec.Struct, frozen=True):
    """A source named by the provider."""

    text: str


class Progress(msgspec.Struct, frozen=True):
    """Before a slow server's first token: how much of the model is loaded, or of the prompt processed."""

    stage: Literal["loading", "reading"]
    share: float  # from 0 to 1


class Completed(msgspec.Struct, frozen=True):
    """Always the last chunk. `usage` is None if the provider sent none. `raw` is the model's original text
    if the chunks were parsed from it; `salvaged`: the calls were found in its text; `opaque`: what the
    provider wants back with the answer."""

    finish_reason: str
    usage: Usage | None = None
    model: str = ""
    raw: str = ""
    salvaged: bool = False
    opaque: Opaque | None = None


Chunk = (
    TextDelta
    | ReasoningDelta
    | CallDelta
    | CallReady
    | Retrying
    | Adapted
    | Restarted
    | CitationFound
    | Progress
    | Completed
)


class ChatModel(Protocol):
    """A model that answers a conversation. Cancelling the iterating task closes the request."""

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Yield chunks, `Completed` last; raises `ModelError`."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


class ModelError(CoderError):
    """A failed request; its phrase also says what to do.

    `kind`: `auth`, `quota`, `budget` (our own), `context` (too long), `unreachable`, `timeout`, `server`,
    `bad_request`, `protocol`. `retryable`: the same request may succeed later. `busy`: because the server has
    too much to do, or limits requests.
    """

    def __init__(
        self,
        phrase: Text | str,
        *,
        kind: str = "server",
        retryable: bool = False,
        retry_after: float | None = None,
        busy: bool = False,
    ) -> None:
        super().__init__(phrase if isinstance(phrase, Text) else Text("fault.words", words=phrase))
        self.kind = kind
        self.retryable = retryable
        self.retry_after = retry_after
        self.busy = busy


@asynccontextmanager
async def closing(stream: AsyncIterator[T]) -> AsyncGenerator[AsyncIterator[T], None]:
    """Close the stream as soon as its consumer leaves, for whatever reason, to free the socket."""
    try:
        yield stream
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
