"""The models that `/model` offers. The server is asked for its own once, when they are first wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from coder.config.errors import ConfigError
from coder.model.base import ModelError

MOST = 500  # a server that lists more than anyone would look through is believed this far


class ModelNames:
    """Those that are known at once, then those that the server lists."""

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
            return  # what is known already is what there is
        self._known += sorted(names)[:MOST]
        self._changed()
