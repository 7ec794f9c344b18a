"""Cost of a session by the person's price table, and its limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from coder.config.schema import BudgetSection, Price, price_of
from coder.protocol.usage import Usage

_MILLION = 1_000_000


class Budget:
    """Money spent and its limit. Prices match a model's exact name, then a prefix."""

    def __init__(self, settings: BudgetSection) -> None:
        self.prices: Mapping[str, Price] = settings.prices
        self.limit = settings.max_usd
        self.warn_at = settings.warn_at
        self.spent = 0.0
        self.warned = False
        self.told_of: set[str] = set()  # models without a price, once reported
        self._waiting = 0.0  # reserved for concurrent requests (subagents)

    def price_of(self, model: str) -> Price | None:
        return price_of(self.prices, model)

    def cost(self, model: str, usage: Usage) -> float | None:
        """None where the model has no price."""
        price = self.price_of(model)
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
        price = self.price_of(model)
        if self.limit is None or price is None:
            return False
        return self.spent + self._waiting + prompt_tokens * price.input / _MILLION > self.limit

    @contextmanager
    def waiting_for(self, model: str, prompt_tokens: int) -> Iterator[None]:
        """Reserve the price of a request while it runs."""
        price = self.price_of(model)
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
