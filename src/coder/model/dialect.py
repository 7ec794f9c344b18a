"""`dialect = "auto"`: native tool calls, with a fallback to ReAct XML if the server rejects tools."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from coder.model.base import ChatModel, Chunk, ModelError, ModelRequest, Progress, Retrying, closing


class AutoDialect:
    """A `ChatModel` that falls back to ReAct XML, and remembers for which models."""

    def __init__(self, native: ChatModel) -> None:
        self._native = native
        self._without_tools: set[str] = set()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        if request.model not in self._without_tools:
            begun = False
            try:
                async with closing(self._native.stream(request)) as chunks:
                    async for chunk in chunks:
                        begun = begun or not isinstance(chunk, Retrying | Progress)
                        yield chunk
            except ModelError as error:
                if begun or not request.tools or not _is_about_tools(error):
                    raise
                self._without_tools.add(request.model)
            else:
                return
        from coder.model.react.xml import ReactXml

        async with closing(ReactXml(self._native).stream(request)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def close(self) -> None:
        await self._native.close()


def _is_about_tools(error: ModelError) -> bool:
    if error.kind != "bad_request":
        return False
    from coder.model.errors import says_no_tools

    return says_no_tools(str(error))
