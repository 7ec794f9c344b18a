"""Cost of a session by the person's prices or list prices, and its limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from coder.config.schema import BudgetSection, Price, price_of
from coder.protocol.messages import Usage

_MILLION = 1_000_000


class Budget:
    """Money spent and its limit. `address_of` says where a model is asked, which decides whether the vendor's
    list price is what it costs."""

    def __init__(self, settings: BudgetSection, address_of: Callable[[str], str]) -> None:
        self.prices: Mapping[str, Price] = settings.prices
        self.address_of = address_of
        self.limit = settings.max_usd
        self.warn_at = settings.warn_at
        self.spent = 0.0
        self.warned = False
        self.told_of: set[str] = set()  # models without a price, once reported
        self._waiting = 0.0  # reserved for concurrent requests (subagents)

    def price_of(self, model: str, prompt: int = 0) -> Price | None:
        return price_of(self.prices, model, self.address_of(model), prompt)

    def is_listed(self, model: str) -> bool:
        """Whether its price is none of the person's."""
        return price_of(self.prices, model, "") is None and self.price_of(model) is not None

    def cost(self, model: str, usage: Usage) -> float | None:
        """None if the model has no price."""
        price = self.price_of(model, usage.prompt)
        if price is None:
            return None
        return price.cost(usage.prompt, usage.completion, usage.cached, usage.written)

    def add(self, model: str, usage: Usage) -> float | None:
        cost = self.cost(model, usage)
        self.spent += cost or 0.0
        return cost

    def would_pass(self, model: str, prompt_tokens: int) -> bool:
        """Whether a prompt of that size could exceed the limit. The answer's length is unknown, so the prompt
        alone counts, at the uncached price."""
        price = self.price_of(model, prompt_tokens)
        if self.limit is None or price is None:
            return False
        return self.spent + self._waiting + prompt_tokens * price.input / _MILLION > self.limit

    @contextmanager
    def waiting_for(self, model: str, prompt_tokens: int) -> Iterator[None]:
        """Reserve the price of a request while it runs. Without a limit no price is looked for: the list is
        not loaded before the first answer has come."""
        price = self.price_of(model, prompt_tokens) if self.limit is not None else None
        amount = prompt_tokens * price.input / _MILLION if price is not None else 0.0
        self._waiting += amount
        try:
            yield
        finally:
            self._waiting -= amount

    def shown(self) -> dict[str, str]:
        """Both amounts, for a message."""
        return {"spent": f"{self.spent:.4f}", "limit": f"{self.limit or 0.0:.2f}"}

    def warning_due(self) -> bool:
        """True once, when the warning threshold is reached."""
        if self.limit is None or self.warned or self.spent < self.warn_at * self.limit:
            return False
        self.warned = True
        return True
