"""Limits that hold across all tasks of a batch: requests a minute, back-off after a 429, and the budget.

A state machine without threads or clocks of its own: it is told the time, and answers how long to wait. On
one machine the driver holds it, on a cluster an actor does; either way every request asks the same object.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Mapping

import msgspec
from msgspec.structs import replace

from coder import ChatModel, Chunk, Completed, ModelError, ModelRequest, Price, Provider, closing, price_of
from coder.addons.batch.channel import Answered, Ask, Failed, Permit, TaskChannel, Throttled
from coder.protocol.messages import Usage
from coder.texts import Text

_WINDOW = 60.0
_FIRST_BACKOFF = 1.0
_MAX_BACKOFF = 120.0
_RECHECK = 0.25  # seconds; money reserved by a request in flight comes back when it ends


class Answer(msgspec.Struct, frozen=True):
    """`wait` seconds and ask again; 0: go ahead. `refused`: the budget does not allow it."""

    wait: float = 0.0
    refused: bool = False


_Request = tuple[str, int]


class _Provider(msgspec.Struct):
    """`throttled`: 429s in a row; `probe`: the one request that goes out after the pause."""

    sent: deque[float] = msgspec.field(default_factory=deque)
    quiet_until: float = 0.0
    throttled: int = 0
    probe: _Request | None = None


class Limits:
    """Per provider: a sliding window of one minute, and a time before which nobody sends. For all: money."""

    def __init__(
        self,
        rpm: Mapping[str, int] | None = None,
        budget: float | None = None,
        spent: float = 0.0,
        dearest: float = 0.0,
        *,
        clock: Callable[[], float],
    ) -> None:
        """`rpm` by provider; the entry `""` is for those not named. `spent`, `dearest`: by earlier runs."""
        self._rpm = dict(rpm or {})
        self._budget = budget
        self._clock = clock
        self._providers: defaultdict[str, _Provider] = defaultdict(_Provider)
        self._reserved: dict[str, dict[int, float]] = {}  # by task and request
        self._charged: defaultdict[str, float] = defaultdict(float)  # by task, for the attempt that runs
        self._dearest = dearest  # what a request has cost: an estimate below it was wrong before
        self.spent = spent
        self.exhausted = False

    def ask(self, task: str, number: int, provider: str, reserve: float) -> Answer:
        """Request `number` of `task` wants to go out and may cost `reserve` USD."""
        reserve = max(reserve, self._dearest)
        if self._budget is not None and self.spent + reserve > self._budget:
            self.exhausted = True
            return Answer(refused=True)
        wait = self._wait_for(provider)
        if wait > 0:
            return Answer(wait=wait)
        if self._budget is not None and self.spent + self.reserved + reserve > self._budget:
            return Answer(wait=_RECHECK)  # those in flight may cost less than they reserved
        state = self._providers[provider]
        if self._most(provider):
            state.sent.append(self._clock())
        if state.throttled:
            state.probe = task, number
        self._reserved.setdefault(task, {})[number] = reserve
        return Answer()

    @property
    def reserved(self) -> float:
        return sum(map(self.held, self._reserved))

    def held(self, task: str) -> float:
        """What the task's requests in flight may cost."""
        return sum(self._reserved.get(task, {}).values())

    def _most(self, provider: str) -> int:
        return self._rpm.get(provider, self._rpm.get("", 0))

    def _wait_for(self, provider: str) -> float:
        state, now, most = self._providers[provider], self._clock(), self._most(provider)
        if state.quiet_until > now:
            return state.quiet_until - now
        if state.probe is not None:  # one request tries whether the provider has recovered
            return _RECHECK
        while state.sent and state.sent[0] <= now - _WINDOW:
            state.sent.popleft()
        return state.sent[0] + _WINDOW - now if most and len(state.sent) >= most else 0.0

    def answered(self, task: str, number: int, provider: str, cost: float | None) -> None:
        """The request ended. `cost` None: the provider did not say, so what was reserved counts as spent."""
        reserved = self._let_go(task, number)
        self._charge(task, reserved if cost is None else cost)
        self._dearest = max(self._dearest, cost or 0.0)
        state = self._providers[provider]
        state.throttled, state.probe = 0, None

    def throttled(self, task: str, number: int, provider: str, retry_after: float | None) -> None:
        """A 429 for one is a pause for all who use the provider."""
        self.failed(task, number)
        state, now = self._providers[provider], self._clock()
        if state.quiet_until <= now:  # not once more for each request that was under way
            state.throttled += 1
        backoff = min(_MAX_BACKOFF, _FIRST_BACKOFF * 2.0 ** (max(1, state.throttled) - 1))
        state.quiet_until = max(state.quiet_until, now + (backoff if retry_after is None else retry_after))

    def failed(self, task: str, number: int) -> None:
        """The request ended without an answer: nothing was spent that is known of."""
        self._let_go(task, number)
        for state in self._providers.values():
            if state.probe == (task, number):
                state.probe = None

    def gone(self, task: str) -> float:
        """The attempt ended, or its process died: what it had reserved counts as spent, as the provider may
        have answered. Returns what the attempt counts for in all."""
        for number, reserved in list(self._reserved.get(task, {}).items()):
            self.failed(task, number)
            self._charge(task, reserved)
        return self._charged.pop(task, 0.0)

    def _let_go(self, task: str, number: int) -> float:
        held = self._reserved.get(task, {})
        reserved = held.pop(number, 0.0)
        if not held:
            self._reserved.pop(task, None)
        return reserved

    def _charge(self, task: str, cost: float) -> None:
        self.spent += cost
        self._charged[task] += cost


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
                raise ModelError(Text("batch.budget_used_up"), kind="budget")
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
