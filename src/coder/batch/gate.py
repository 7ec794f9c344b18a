"""Requests to the model wait here for the batch's limits: below the retries, so that every attempt counts."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, Callable, Mapping

import msgspec
from msgspec.structs import replace

from coder.batch.channel import Answered, Ask, Failed, Permit, TaskChannel, Throttled
from coder.config.provider import Provider
from coder.config.schema import Price, price_of
from coder.model.base import ChatModel, Chunk, Completed, ModelError, ModelRequest, closing
from coder.protocol.usage import Usage
from coder.texts import Phrase

_BYTES_PER_TOKEN = 3  # low, so that what is reserved is rather too much
_ANSWER_TOKENS = 4096  # reserved for an answer where no length is set
_MOMENT = 1.0  # seconds


class Gate:
    """One for a task. `refused`: the batch's budget is used up. `waits` is told of the seconds that the task
    is about to wait, which are no part of its time limit."""

    def __init__(
        self,
        channel: TaskChannel,
        provider: Provider,
        prices: Mapping[str, Price],
        waits: Callable[[float], None],
    ) -> None:
        self._channel = channel
        self._provider = provider.name
        self._base_url = provider.base_url
        self._prices = prices
        self._waits = waits
        self._waits_until = 0.0
        self._numbers = itertools.count(1)
        self.refused = False

    def around(self, wire: ChatModel) -> ChatModel:
        return GatedModel(wire, self)

    async def enter(self, request: ModelRequest) -> int:
        """Wait until the request may go out; returns its number. Raises `ModelError` for want of money."""
        number = next(self._numbers)
        question = Ask(number, self._provider, self._reserve(request))
        while True:
            permit = await self._permit(question)
            if permit.refused:
                self.refused = True
                raise ModelError(Phrase("batch.budget_used_up"), kind="budget")
            if not permit.wait:
                return number
            self._tell_of(permit.wait)
            await asyncio.sleep(permit.wait)

    async def _permit(self, question: Ask) -> Permit:
        """Where the batch takes long to answer, as one that Ctrl+Z stopped, that is no part of the task's
        time either."""
        asking = asyncio.ensure_future(self._channel.ask(question))
        try:
            while not (await asyncio.wait([asking], timeout=_MOMENT))[0]:
                self._tell_of(_MOMENT)
            return asking.result()
        finally:
            asking.cancel()

    def _tell_of(self, wait: float) -> None:
        """Report the time waited; where several requests of the task wait at once, it counts once."""
        now = time.monotonic()
        begins, self._waits_until = max(now, self._waits_until), max(now + wait, self._waits_until)
        self._waits(self._waits_until - begins)

    def answered(self, number: int, model: str, usage: Usage | None) -> None:
        usage = usage if usage is not None and usage.prompt else None
        cost = self._cost(model, usage) if usage is not None else None
        tokens = (usage.prompt, usage.completion) if usage is not None else (0, 0)
        self._channel.send(Answered(number, self._provider, cost, *tokens))

    def throttled(self, number: int, retry_after: float | None) -> None:
        self._channel.send(Throttled(number, self._provider, retry_after))

    def failed(self, number: int) -> None:
        self._channel.send(Failed(number))

    def _reserve(self, request: ModelRequest) -> float:
        size = len(msgspec.json.encode(request.messages)) + len(msgspec.json.encode(request.tools))
        prompt = size // _BYTES_PER_TOKEN
        price = self._price(request.model, prompt)
        answer = request.max_output_tokens or _ANSWER_TOKENS
        return 0.0 if price is None else price.cost(prompt, answer)

    def _cost(self, model: str, usage: Usage) -> float:
        price = self._price(model, usage.prompt)
        if price is None:
            return 0.0
        return price.cost(usage.prompt, usage.completion, usage.cached, usage.written)

    def _price(self, model: str, prompt: int) -> Price | None:
        return price_of(self._prices, model, self._base_url, prompt)


class GatedModel:
    """A `ChatModel` whose requests pass the gate. A 429 is waited out here, with everybody else, and is no
    failed attempt of this task."""

    def __init__(self, inner: ChatModel, gate: Gate) -> None:
        self._inner = inner
        self._gate = gate

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        while True:
            number = await self._gate.enter(request)

            async def again() -> None:
                nonlocal number
                self._gate.failed(number)
                number = await self._gate.enter(request)

            usage: Usage | None = None
            streamed = False
            try:
                async with closing(self._inner.stream(replace(request, again=again))) as chunks:
                    async for chunk in chunks:
                        streamed = True
                        if isinstance(chunk, Completed):
                            usage = chunk.usage
                        yield chunk
            except ModelError as error:
                if error.kind == "quota" and error.retryable and not streamed:
                    self._gate.throttled(number, error.retry_after)
                    continue
                if streamed:  # it broke off: the provider may count what it has sent
                    self._gate.answered(number, request.model, usage)
                else:
                    self._gate.failed(number)
                raise
            except BaseException:  # cancelled: the provider may count what it has sent
                self._gate.answered(number, request.model, usage)
                raise
            self._gate.answered(number, request.model, usage)
            return

    async def close(self) -> None:
        await self._inner.close()
