"""List prices: what vendors ask at their own public APIs, in USD per million tokens.

Read in the vendors' documentation and in public price lists that cite it. Rates for other regions, priority
or batches, credits and subscriptions are not in it: `budget.prices` is for those. Models whose price could
not be confirmed are left out.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from coder.config.schema import Price

READ: Final = "2026-11"  # the month that the prices were read in

_Row = tuple[float, float, float] | tuple[float, float, float, float]
_Steps = tuple[tuple[int, float, float], ...]

# Prompts that are longer than so many tokens cost these multiples: of the input, of the output.
_OPENAI: Final[_Steps] = ((272_000, 2.0, 1.5),)
_GEMINI: Final[_Steps] = ((200_000, 2.0, 1.5),)
_GROK: Final[_Steps] = ((199_999, 2.0, 2.0),)
_QWEN_CODER_PLUS: Final[_Steps] = ((32_000, 1.8, 1.8), (128_000, 3.0, 3.0), (256_000, 6.0, 12.0))
_QWEN_MAX: Final[_Steps] = ((32_000, 2.0, 2.0), (128_000, 2.5, 2.5))
_STEPS: Final[dict[str, _Steps]] = {
    "claude-haiku-5-5": ((100_000, 5.0, 5.0),),
    **dict.fromkeys(("gemini-2.5-pro", "gemini-3.1-pro", "gemini-pro-latest"), _GEMINI),
    **dict.fromkeys(
        ("gpt-5.4", "gpt-5.4-pro", "gpt-5.5", "gpt-5.5-pro", "gpt-5.6", "gpt-5.6-luna", "gpt-5.6-sol"),
        _OPENAI,
    ),
    **dict.fromkeys(
        ("gpt-5.6-terra", "gpt-6-astra", "gpt-6-luna", "gpt-6-sol", "gpt-6.1-sol", "gpt-6.1-terra"), _OPENAI
    ),
    **dict.fromkeys(("grok-4.3", "grok-4.5", "grok-4.6", "grok-4.7"), _GROK),
    "qwen3-coder-plus": _QWEN_CODER_PLUS,
    "qwen3-max": _QWEN_MAX,
}

# Address, then name: input, cached input, output and, where it is not 1.25 times the input, cache writes.
# fmt: off
_TABLE: Final[dict[str, dict[str, _Row]]] = {
    "https://api.anthropic.com/": {
        "claude-fable-5": (10, 1, 50), "claude-fable-5-1": (10, 0.25, 50), "claude-haiku-4-5": (1, 0.1, 5),
        "claude-haiku-5-5": (0.1, 0.01, 0.5), "claude-opus-4-5": (5, 0.5, 25),
        "claude-opus-4-6": (5, 0.5, 25), "claude-opus-4-7": (5, 0.5, 25), "claude-opus-4-8": (5, 0.5, 25),
        "claude-opus-5": (5, 0.5, 25), "claude-opus-5-5": (4, 0.2, 20), "claude-sonnet-4": (3, 0.3, 15),
        "claude-sonnet-4-5": (3, 0.3, 15), "claude-sonnet-4-6": (3, 0.3, 15), "claude-sonnet-5": (2, 0.2, 10),
        "claude-sonnet-5-5": (2, 0.1, 10),
    },
    # By the time of day it is half of this: a budget is kept by the higher price.
    "https://api.deepseek.com/": {
        "deepseek-flash": (0.3, 0.006, 1.2), "deepseek-v4-flash": (0.3, 0.006, 1.2),
        "deepseek-v4-pro": (1.32, 0.044, 3.96),
    },
    "https://generativelanguage.googleapis.com/": {
        "gemini-2.5-flash": (0.3, 0.03, 2.5), "gemini-2.5-flash-lite": (0.1, 0.01, 0.4),
        "gemini-2.5-pro": (1.25, 0.125, 10), "gemini-3-flash": (0.5, 0.05, 3),
        "gemini-3.1-flash-lite": (0.25, 0.025, 1.5), "gemini-3.1-pro": (2, 0.2, 12),
        "gemini-3.5-flash": (1.5, 0.15, 9), "gemini-3.5-flash-lite": (0.3, 0.03, 2.5),
        "gemini-3.8-flash": (0.75, 0.075, 3.75),  # until the end of 2026
        "gemini-pro-latest": (2, 0.2, 12),
    },
    "https://api.mistral.ai/": {
        "codestral-2508": (0.3, 0.03, 0.9), "codestral-latest": (0.3, 0.03, 0.9),
        "mistral-large-latest": (0.5, 0.05, 1.5), "mistral-medium-3-5": (1.5, 1.5, 7.5),
        "mistral-medium-latest": (1.5, 1.5, 7.5),
    },
    "https://api.moonshot.ai/": {
        "kimi-k2.5": (0.6, 0.1, 3), "kimi-k2.6": (0.95, 0.16, 4), "kimi-k2.7-code": (0.95, 0.19, 4),
        "kimi-k3": (3, 0.3, 15),
    },
    "https://api.openai.com/": {
        "gpt-4.1": (2, 0.5, 8, 2), "gpt-5": (1.25, 0.125, 10, 1.25), "gpt-5-codex": (1.25, 0.125, 10, 1.25),
        "gpt-5-mini": (0.25, 0.025, 2, 0.25), "gpt-5-nano": (0.05, 0.005, 0.4, 0.05),
        "gpt-5-pro": (15, 15, 120, 15), "gpt-5.1": (1.25, 0.125, 10, 1.25),
        "gpt-5.1-codex": (1.25, 0.125, 10, 1.25), "gpt-5.1-codex-max": (1.25, 0.125, 10, 1.25),
        "gpt-5.1-codex-mini": (0.25, 0.025, 2, 0.25), "gpt-5.2": (1.75, 0.175, 14, 1.75),
        "gpt-5.2-codex": (1.75, 0.175, 14, 1.75), "gpt-5.2-pro": (21, 21, 168, 21),
        "gpt-5.3-codex": (1.75, 0.175, 14, 1.75), "gpt-5.4": (2.5, 0.25, 15, 2.5),
        "gpt-5.4-mini": (0.75, 0.075, 4.5, 0.75), "gpt-5.4-nano": (0.2, 0.02, 1.25, 0.2),
        "gpt-5.4-pro": (30, 30, 180, 30), "gpt-5.5": (5, 0.5, 30, 5), "gpt-5.5-pro": (30, 30, 180, 30),
        "gpt-5.6": (4, 0.4, 20), "gpt-5.6-luna": (0.2, 0.02, 1.2), "gpt-5.6-sol": (4, 0.4, 20),
        "gpt-5.6-terra": (2, 0.2, 12), "gpt-6-astra": (10, 1, 50), "gpt-6-luna": (0.1, 0.01, 0.5),
        "gpt-6-sol": (2, 0.2, 10), "gpt-6.1-sol": (2, 0.1, 10), "gpt-6.1-terra": (1, 0.05, 5),
        "o3": (2, 0.5, 8, 2), "o4-mini": (1.1, 0.275, 4.4, 1.1),
    },
    "https://api.x.ai/": {
        "grok-4.3": (1.25, 0.2, 2.5), "grok-4.5": (2, 0.5, 6), "grok-4.6": (2, 0.5, 6),
        "grok-4.7": (2, 0.5, 6),
    },
    # Not of its coding plan, which has another path and a flat fee.
    "https://api.z.ai/api/paas/": {
        "glm-4.6": (0.6, 0.11, 2.2), "glm-4.7": (0.6, 0.11, 2.2), "glm-5": (1, 0.2, 3.2),
        "glm-5-turbo": (1.2, 0.24, 4), "glm-5.1": (1.4, 0.26, 4.4), "glm-5.2": (1.4, 0.26, 4.4),
        "glm-5.3": (1.4, 0.26, 4.4),
    },
    # Singapore: mainland China is billed in CNY.
    "https://dashscope-intl.aliyuncs.com/": {
        "qwen3-coder-plus": (1, 0.2, 5), "qwen3-max": (1.2, 0.24, 6),
    },
}
# fmt: on
# What a name may have behind that of its model: a date, or that it is the newest. Any other word may be
# another model with a price of its own.
_ENDING: Final = re.compile(r"(?:-latest|-preview)?(?:-\d{3,8}(?:-\d{2}){0,2})?")


class ListPrice(msgspec.Struct, frozen=True):
    """`steps`: what longer prompts cost more."""

    base: Price
    steps: _Steps = ()

    def at(self, prompt: int) -> Price:
        """Of a request with a prompt of so many tokens."""
        passed = [(more, out) for above, more, out in self.steps if prompt > above]
        if not passed:
            return self.base
        more, out = passed[-1]
        own = self.base
        return Price(
            input=own.input * more,
            cached_input=None if own.cached_input is None else own.cached_input * more,
            output=own.output * out,
            cache_write=None if own.cache_write is None else own.cache_write * more,
        )


def list_price(base_url: str, model: str) -> ListPrice | None:
    """None unless the address is that of the model's vendor, and the model is one that the table has."""
    address = base_url.lower() + "/"
    rows = next((rows for start, rows in _TABLE.items() if address.startswith(start)), {})
    model = model.lower().removeprefix("models/")
    fitting = [name for name in rows if model.startswith(name) and _ENDING.fullmatch(model[len(name) :])]
    if not fitting:
        return None
    name = max(fitting, key=len)
    read, cached, output, *write = rows[name]
    price = Price(input=read, cached_input=cached, output=output, cache_write=write[0] if write else None)
    return ListPrice(price, _STEPS.get(name, ()))
