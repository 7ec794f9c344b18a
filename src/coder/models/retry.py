"""Retries with exponential back-off and jitter, without emitting the same text twice."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable

from coder.models.model import (
    Adapted,
    CallDelta,
    CallReady,
    ChatModel,
    Chunk,
    CitationFound,
    ModelError,
    ModelRequest,
    Progress,
    ReasoningDelta,
    Restarted,
    Retrying,
    TextDelta,
    closing,
)
from coder.texts import Text

_FIRST_DELAY = 0.5
_MAX_BACKOFF = 30.0
_MAX_RETRY_AFTER = 120.0  # a longer Retry-After is reported as an error
_UNREACHABLE_ATTEMPTS = 3  # for a server that has never answered: probably the wrong address

_MORE_WHEN_BUSY = 3  # attempts: the last waits are the long ones, a minute in all

Sleep = Callable[[float], Awaitable[None]]


class RetryingModel:
    """A `ChatModel` that wraps another. `Retrying.attempt` counts failed attempts."""

    def __init__(self, inner: ChatModel, *, max_attempts: int = 5, sleep: Sleep = asyncio.sleep) -> None:
        self._inner = inner
        self._max_attempts = max(1, max_attempts)
        self._sleep = sleep
        self._has_answered = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        emitted = Deduplicator()
        failed = 0
        while True:
            try:
                async with closing(self._inner.stream(request)) as chunks:
                    async for chunk in chunks:
                        self._has_answered = True
                        for new in emitted.new_chunks(chunk):
                            yield new
            except ModelError as error:
                failed += 1
                wait = self._delay(error, failed)
                yield Retrying(reason=error.phrase, attempt=failed, wait=wait)
            else:
                return
            await self._sleep(wait)
            emitted.new_attempt()

    async def close(self) -> None:
        await self._inner.close()

    def _delay(self, error: ModelError, failed: int) -> float:
        """Seconds until the next attempt; raises the error if a retry is useless."""
        if not error.retryable:
            raise error
        limit = self._max_attempts
        if error.busy and limit > 1:
            limit += _MORE_WHEN_BUSY
        if error.kind == "unreachable" and not self._has_answered:
            limit = min(limit, _UNREACHABLE_ATTEMPTS)
        if failed >= limit:
            raise _wrap(error, "fault.gave_up", n=failed) if failed > 1 else error
        asked = error.retry_after
        if asked is None:
            return _backoff(failed)
        if asked > _MAX_RETRY_AFTER:
            raise _wrap(error, "fault.asks_to_wait", time=_duration(asked))
        return asked


def _backoff(failed: int) -> float:
    """Exponential, with ±25 % jitter so that clients do not synchronize."""
    jitter = 0.75 + int.from_bytes(os.urandom(2), "big") / 131_072
    return min(_MAX_BACKOFF, _FIRST_DELAY * 2.0 ** (failed - 1)) * jitter


def _wrap(error: ModelError, key: str, **values: object) -> ModelError:
    phrase = Text(key, text=error.phrase, **values)
    return ModelError(phrase, kind=error.kind, retryable=error.retryable, retry_after=error.retry_after)


def _duration(seconds: float) -> Text:
    if seconds < 600:
        return Text("fault.seconds", n=f"{seconds:.0f}")
    return Text("fault.minutes", n=f"{seconds / 60:.0f}")


class Deduplicator:
    """Removes from a retried stream what previous attempts already emitted; restarts if it differs."""

    def __init__(self) -> None:
        self._text = ""
        self._reasoning = ""
        self._calls = False
        self._cited: set[str] = set()
        self._comparing = False
        self._new: list[Chunk] = []  # of the attempt being compared, in order
        self._text_at = 0
        self._reasoning_at = 0

    def new_attempt(self) -> None:
        """The stream broke: compare the next one from its first chunk on."""
        self._comparing = bool(self._text or self._reasoning or self._calls)
        self._new = []
        self._text_at = self._reasoning_at = 0

    def new_chunks(self, chunk: Chunk) -> list[Chunk]:
        """The part of this chunk that is not yet emitted."""
        if isinstance(chunk, CitationFound):
            new = chunk.text not in self._cited
            self._cited.add(chunk.text)
            return [chunk] if new else []
        if isinstance(chunk, CallDelta | Progress | Adapted):  # only shown
            return [chunk]
        if not self._comparing:
            self._remember(chunk)
            return [chunk]
        return self._compare(chunk)

    def _remember(self, chunk: Chunk) -> None:
        if isinstance(chunk, TextDelta):
            self._text += chunk.text
        elif isinstance(chunk, ReasoningDelta):
            self._reasoning += chunk.text
        elif isinstance(chunk, CallReady):
            self._calls = True

    def _compare(self, chunk: Chunk) -> list[Chunk]:
        self._new.append(chunk)
        if self._calls:
            return self._restart()
        if isinstance(chunk, TextDelta):
            rest = _new_suffix(self._text, self._text_at, chunk.text)
            if rest is None:
                return self._restart()
            self._text_at += len(chunk.text)
            self._text += rest
            return [TextDelta(rest)] if rest else []
        if isinstance(chunk, ReasoningDelta):
            rest = _new_suffix(self._reasoning, self._reasoning_at, chunk.text)
            if rest is None:
                return self._restart()
            self._reasoning_at += len(chunk.text)
            self._reasoning += rest
            return [ReasoningDelta(rest)] if rest else []
        if self._text_at < len(self._text):  # the new answer ends before what was emitted does
            return self._restart()
        self._comparing = False
        self._remember(chunk)
        return [chunk]

    def _restart(self) -> list[Chunk]:
        again, self._new = self._new, []
        self._comparing = False
        self._text = self._reasoning = ""
        self._calls = False
        for chunk in again:
            self._remember(chunk)
        return [Restarted(), *again]


def _new_suffix(emitted: str, at: int, new: str) -> str | None:
    """What `new` at offset `at` adds to `emitted`; None if they differ."""
    overlap = emitted[at : at + len(new)]
    return new[len(overlap) :] if new.startswith(overlap) else None
