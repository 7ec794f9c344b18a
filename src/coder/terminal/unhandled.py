"""Errors of the interface itself: told of in a sentence, never printed as a traceback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class Unhandled:
    """The event loop's exception handler. An error that comes again ends the session: it may be the drawing
    of what is to be told."""

    def __init__(self, tell: Callable[[BaseException], None], leave: Callable[[], None]) -> None:
        self._tell, self._leave = tell, leave
        self._told: set[str] = set()

    def once(self, error: Exception) -> bool:
        """Tell of it; False if it was told of before."""
        if repr(error) in self._told:
            return False
        self._told.add(repr(error))
        self._tell(error)
        return True

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, Exception):
            loop.default_exception_handler(context)
        elif not self.once(error):
            self._leave()
