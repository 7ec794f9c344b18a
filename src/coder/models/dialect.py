"""Chooses the dialect by model: what is set or remembered; else native calls until one fails.

A server that rejects tools, or a small model that writes its call into the text or sends an unusable one, is
spoken to in another dialect from then on, which is remembered.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence

from coder import models
from coder.config.models import is_small
from coder.models.model import (
    Adapted,
    CallReady,
    ChatModel,
    Chunk,
    ModelError,
    ModelRequest,
    Progress,
    Restarted,
    Retrying,
    TextDelta,
    closing,
)
from coder.protocol.messages import ToolSpec
from coder.texts import Text


class AutoDialect:
    """`dialect_of` says what is known of a model (`auto`: nothing), `found` is told what was found out."""

    def __init__(
        self,
        native: ChatModel,
        dialect_of: Callable[[str], str] = lambda model: "auto",
        found: Callable[[str, str], None] = lambda model, dialect: None,
    ) -> None:
        self._native = native
        self._dialect_of = dialect_of
        self._found = found
        self._learnt: dict[str, str] = {}
        self._adapters: dict[str, ChatModel] = {}

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        dialect = self._learnt.get(request.model) or self._dialect_of(request.model)
        if dialect == "auto":
            trial = _Trial(request.tools)
            try:
                async with closing(self._native.stream(request)) as chunks:
                    async for chunk in chunks:
                        trial.take(chunk)
                        yield chunk
            except ModelError as error:
                if trial.begun or not request.tools or not _is_about_tools(error):
                    raise
                dialect = self._learn(request.model, "guided" if is_small(request.model) else "react-xml")
                yield Adapted(Text("model.no_tools", model=request.model, dialect=dialect))
            else:
                if is_small(request.model) and trial.failed():
                    self._learn(request.model, "guided")
                return
        async with closing(self._adapter(dialect).stream(request)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def close(self) -> None:
        await self._native.close()

    def _learn(self, model: str, dialect: str) -> str:
        self._learnt[model] = dialect
        self._found(model, dialect)
        return dialect

    def _adapter(self, dialect: str) -> ChatModel:
        """Imported lazily: only the dialect in use is loaded."""
        if dialect not in self._adapters:
            self._adapters[dialect] = in_dialect(self._native, dialect)
        return self._adapters[dialect]


def in_dialect(native: ChatModel, dialect: str) -> ChatModel:
    if dialect == "react-xml":
        return models.react.react_dialect.ReactXml(native)
    if dialect == "guided":
        return models.guided.guided_dialect.Guided(native)
    return native


class _Trial:
    """One native answer: whether it has begun, and whether its calls were usable."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._tools = tools
        self._text: list[str] = []
        self._calls: list[CallReady] = []
        self.begun = False

    def take(self, chunk: Chunk) -> None:
        self.begun = self.begun or not isinstance(chunk, Retrying | Adapted | Progress)
        if isinstance(chunk, TextDelta):
            self._text.append(chunk.text)
        elif isinstance(chunk, CallReady):
            self._calls.append(chunk)
        elif isinstance(chunk, Restarted):
            self._text.clear()
            self._calls.clear()

    def failed(self) -> bool:
        """A call that cannot be run, or one that is written into the text."""
        if not self._tools:
            return False
        if self._calls:
            return any(call.fault for call in self._calls)

        names = {tool.name.lower() for tool in self._tools}
        return (
            models.salvage.find_calls.find_calls(
                "".join(self._text), self._tools, lambda name, _: name.lower() in names
            )
            is not None
        )


def _is_about_tools(error: ModelError) -> bool:
    if error.kind != "bad_request":
        return False

    return models.errors.says_no_tools(str(error))
