"""Asking a `ChatModel` from a test, and one in memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from coder.models.model import ChatModel, Chunk, ModelError, ModelRequest, ReasoningDelta, TextDelta
from coder.protocol.messages import Message, ToolSpec


def ask(text: str = "hello", *, tools: Sequence[ToolSpec] = (), model: str = "m") -> ModelRequest:
    """A request with one user message."""
    return ModelRequest(model=model, messages=[Message(role="user", content=text)], tools=tools)


async def collect(model: ChatModel, request: ModelRequest | None = None) -> list[Chunk]:
    """Every chunk of one answer."""
    return [chunk async for chunk in model.stream(request or ask())]


def text_of(chunks: Sequence[Chunk], kind: type[TextDelta] | type[ReasoningDelta] = TextDelta) -> str:
    """The text (or the reasoning) that the chunks add up to."""
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, kind))


class FakeModel:
    """A `ChatModel` in memory: each answer is a list of chunks, an error among them is raised there."""

    def __init__(self, *answers: Sequence[Chunk | ModelError]) -> None:
        self._answers = list(answers)
        self.requests: list[ModelRequest] = []
        self.closed = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        self.requests.append(request)
        for chunk in self._answers.pop(0):
            if isinstance(chunk, ModelError):
                raise chunk
            yield chunk

    async def close(self) -> None:
        self.closed = True
