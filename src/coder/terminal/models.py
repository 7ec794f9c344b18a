"""The models that `/model` completes. The server's list is fetched lazily, once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from coder.config import ConfigError
from coder.model.base import ModelError

MOST = 500  # names kept of a server's list


class ModelNames:
    """The configured names at once; those of the server once it has answered."""

    def __init__(
        self,
        known: Sequence[str],
        listed: Callable[[], Awaitable[Sequence[str]]],
        changed: Callable[[], object],
    ) -> None:
        """`changed` is called when the server has answered."""
        self._known = list(known)
        self._listed = listed
        self._changed = changed
        self._asking: asyncio.Task[None] | None = None

    def names(self, current: str) -> list[str]:
        if self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._ask())
        return list(dict.fromkeys([current, *self._known]))

    async def _ask(self) -> None:
        try:
            names = await self._listed()
        except (ConfigError, ModelError):
            return
        self._known += sorted(names)[:MOST]
        self._changed()
