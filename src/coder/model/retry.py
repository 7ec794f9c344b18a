"""Asks again where that may help, and never shows the same text twice."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable

from coder.model.base import (
    CallReady,
    ChatModel,
    Chunk,
    CitationFound,
    ModelError,
    ModelRequest,
    ReasoningDelta,
    Restarted,
    Retrying,
    TextDelta,
    closing,
)
from coder.texts import Phrase

_FIRST_WAIT = 0.5
_LONGEST_BACKOFF = 30.0
_LONGEST_ASKED = 120.0  # a server that asks for more is reported instead of waited for
_UNREACHABLE_ATTEMPTS = 3  # an address that has never answered is more likely wrong than busy

Sleep = Callable[[float], Awaitable[None]]


class RetryingModel:
    """A `ChatModel` around another. `Retrying.attempt` counts the attempts that have failed."""

    def __init__(self, inner: ChatModel, *, max_attempts: int = 5, sleep: Sleep = asyncio.sleep) -> None:
        self._inner = inner
        self._max_attempts = max(1, max_attempts)
        self._sleep = sleep
        self._has_answered = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        shown = Shown()
        failed = 0
        while True:
            try:
                async with closing(self._inner.stream(request)) as chunks:
                    async for chunk in chunks:
                        self._has_answered = True
                        for new in shown.only_new(chunk):
                            yield new
            except ModelError as error:
                failed += 1
                wait = self._wait_before_next(error, failed)
                yield Retrying(reason=error.phrase, attempt=failed, wait=wait)
            else:
                return
            await self._sleep(wait)
            shown.begin_again()

    async def close(self) -> None:
        await self._inner.close()

    def _wait_before_next(self, error: ModelError, failed: int) -> float:
        """Seconds; raises the error instead where asking again is of no use."""
        if not error.retryable:
            raise error
        limit = self._max_attempts
        if error.kind == "unreachable" and not self._has_answered:
            limit = min(limit, _UNREACHABLE_ATTEMPTS)
        if failed >= limit:
            raise _restated(error, "fault.gave_up", n=failed) if failed > 1 else error
        asked = error.retry_after
        if asked is None:
            return _backoff(failed)
        if asked > _LONGEST_ASKED:
            raise _restated(error, "fault.asks_to_wait", time=_spoken(asked))
        return asked


def _backoff(failed: int) -> float:
    """Doubling, between three quarters and five quarters of it, so that clients do not march in step."""
    jitter = 0.75 + int.from_bytes(os.urandom(2), "big") / 131_072
    return min(_LONGEST_BACKOFF, _FIRST_WAIT * 2.0 ** (failed - 1)) * jitter


def _restated(error: ModelError, key: str, **values: object) -> ModelError:
    phrase = Phrase(key, text=error.phrase, **values)
    return ModelError(phrase, kind=error.kind, retryable=error.retryable, retry_after=error.retry_after)


def _spoken(seconds: float) -> Phrase:
    if seconds < 600:
        return Phrase("fault.seconds", n=f"{seconds:.0f}")
    return Phrase("fault.minutes", n=f"{seconds / 60:.0f}")


class Shown:
    """What has been shown of an answer, and how an answer that begins again compares with it."""

    def __init__(self) -> None:
        self._text = ""
        self._reasoning = ""
        self._calls = False
        self._cited: set[str] = set()
        self._comparing = False
        self._new: list[Chunk] = []  # of the attempt being compared, in order
        self._text_at = 0
        self._reasoning_at = 0

    def begin_again(self) -> None:
        """The stream broke; the next chunk is the first of a new attempt."""
        self._comparing = bool(self._text or self._reasoning or self._calls)
        self._new = []
        self._text_at = self._reasoning_at = 0

    def only_new(self, chunk: Chunk) -> list[Chunk]:
        """What of this chunk is still to be shown."""
        if isinstance(chunk, CitationFound):
            new = chunk.text not in self._cited
            self._cited.add(chunk.text)
            return [chunk] if new else []
        if not self._comparing:
            self._note(chunk)
            return [chunk]
        return self._compared(chunk)

    def _note(self, chunk: Chunk) -> None:
        if isinstance(chunk, TextDelta):
            self._text += chunk.text
        elif isinstance(chunk, ReasoningDelta):
            self._reasoning += chunk.text
        elif isinstance(chunk, CallReady):
            self._calls = True

    def _compared(self, chunk: Chunk) -> list[Chunk]:
        self._new.append(chunk)
        if self._calls:
            return self._restart()
        if isinstance(chunk, TextDelta):
            rest = _continued(self._text, self._text_at, chunk.text)
            if rest is None:
                return self._restart()
            self._text_at += len(chunk.text)
            self._text += rest
            return [TextDelta(rest)] if rest else []
        if isinstance(chunk, ReasoningDelta):
            rest = _continued(self._reasoning, self._reasoning_at, chunk.text)
            if rest is None:
                return self._restart()
            self._reasoning_at += len(chunk.text)
            self._reasoning += rest
            return [ReasoningDelta(rest)] if rest else []
        if self._text_at < len(self._text):  # the new answer ends before what was shown does
            return self._restart()
        self._comparing = False
        self._note(chunk)
        return [chunk]

    def _restart(self) -> list[Chunk]:
        again, self._new = self._new, []
        self._comparing = False
        self._text = self._reasoning = ""
        self._calls = False
        for chunk in again:
            self._note(chunk)
        return [Restarted(), *again]


def _continued(shown: str, at: int, new: str) -> str | None:
    """What `new`, standing at `at`, adds to `shown`; None where the two differ."""
    overlap = shown[at : at + len(new)]
    return new[len(overlap) :] if new.startswith(overlap) else None
