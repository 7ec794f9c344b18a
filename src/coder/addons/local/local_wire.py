"""Models that coder serves itself: each by a child process on loopback, which speaks Chat Completions."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from importlib.util import find_spec
from pathlib import Path

from coder import (
    LOCAL_MODEL,
    ChatCompletions,
    Chunk,
    ModelError,
    ModelRequest,
    closing,
    gguf_of,
    install_line,
)
from coder.addons.local.local_server import LocalServer, check_file
from coder.texts import Text

_SILENCE_MS = 600_000  # a long prompt is slow on a processor


class Local:
    """A `ChatModel`. The model is loaded by its first request; `close` ends the child."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._server: LocalServer | None = None
        self._wire: ChatCompletions | None = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        server = await self._server_of(gguf_of(request.model, self._home))
        if not server.runs:
            await self._drop_wire()
            async with closing(server.ready(request.model)) as loading:
                async for progress in loading:
                    yield progress
        if self._wire is None:  # no proxy: it is this machine
            self._wire = ChatCompletions(f"{server.url}/v1", server.key, {}, _SILENCE_MS, environment={})
        async with closing(self._wire.stream(request)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def list_models(self) -> list[str]:
        """Raises `ModelError` where the fetched model could not be served."""
        check_file(LOCAL_MODEL, gguf_of(LOCAL_MODEL, self._home))
        if find_spec("xllamacpp") is None:
            raise ModelError(Text("fault.local_missing", line=install_line("local")), kind="unreachable")
        return [LOCAL_MODEL]

    async def close(self) -> None:
        await self._drop_wire()
        if self._server is not None:
            await self._server.end()

    async def _server_of(self, gguf: Path) -> LocalServer:
        """One model at a time is in memory."""
        if self._server is None or self._server.gguf != gguf:
            await self.close()
            self._server = LocalServer(gguf)
        return self._server

    async def _drop_wire(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.close()
