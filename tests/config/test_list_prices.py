"""Built-in list prices: only at the vendor's own address, only for models that the table really has."""

from __future__ import annotations

import pytest

from coder.config.models import context_window_of
from coder.config.prices import _STEPS, _TABLE, list_price
from coder.config.schema import Price, price_of

OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com/v1"
ROWS = [(start, name) for start, rows in _TABLE.items() for name in rows]


@pytest.mark.parametrize(("start", "name"), ROWS)
def test_every_row_is_of_a_known_model_and_sane(start: str, name: str) -> None:
    found = list_price(start, name)
    assert found is not None
    price = found.base
    assert 0 < (price.cached_input or 0) <= price.input <= price.output
    assert price.cache_write is None or price.cache_write == price.input
    assert context_window_of(name)
    steps = [above for above, *_ in found.steps]
    assert steps == sorted(steps)
    assert all(more > 1 and out > 1 for _, more, out in found.steps)


def test_no_step_is_of_a_model_without_a_row() -> None:
    assert set(_STEPS) <= {name for _, name in ROWS}


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:8000/v1",
        "http://api.openai.com/v1",
        "https://api.openai.com.example.org/v1",
        "https://api.openai.com@example.org/v1",
        "https://api.openai.com:8443/v1",
        "https://eu.api.openai.com/v1",
        "https://openrouter.ai/api/v1",
        "https://example.openai.azure.com/openai/v1",
        ANTHROPIC,
        "plugin:openai",
        "",
    ],
)
def test_other_addresses_ask_something_else(address: str) -> None:
    assert list_price(address, "gpt-5.5") is None


@pytest.mark.parametrize(
    ("address", "model", "output"),
    [
        (OPENAI, "gpt-5.5", 30),
        ("https://API.openai.com/v1", "GPT-5.5", 30),
        ("https://api.openai.com/v1/responses", "gpt-5.5-2026-04-23", 30),
        (OPENAI, "gpt-5.4-mini", 4.5),
        (OPENAI, "gpt-5.5-pro", 180),
        (OPENAI, "gpt-5.5-turbo", None),
        (OPENAI, "gpt-5.55", None),
        (OPENAI, "gpt-5.7", None),
        (OPENAI, "openai/gpt-5.5", None),
        (ANTHROPIC, "claude-opus-4-5-20251101", 25),
        (ANTHROPIC, "claude-opus-5-5", 20),
        (ANTHROPIC, "claude-opus-5-6", None),
        ("https://generativelanguage.googleapis.com/v1beta", "models/gemini-3.1-pro-preview", 12),
        ("https://generativelanguage.googleapis.com/v1beta/openai", "gemini-pro-latest", 12),
        ("https://api.mistral.ai/v1", "mistral-large-2411", None),
        ("https://api.deepseek.com/anthropic", "deepseek-v4-pro", 3.96),
        ("https://api.z.ai/api/paas/v4", "glm-5.2", 4.4),
        ("https://api.z.ai/api/coding/paas/v4", "glm-5.2", None),
        ("https://dashscope.aliyuncs.com/compatible-mode/v1", "qwen3-coder-plus", None),
    ],
)
def test_names_match_whole_but_for_a_date(address: str, model: str, output: float | None) -> None:
    found = list_price(address, model)
    assert (found.base.output if found else None) == output


def test_long_prompts_cost_more() -> None:
    found = list_price(OPENAI, "gpt-5.5")
    assert found is not None
    assert found.at(272_000) == found.base
    assert found.at(272_001) == Price(input=10, cached_input=1, output=45, cache_write=10)
    assert price_of({}, "gpt-5.5", OPENAI, 300_000) == found.at(300_000)
    qwen = list_price("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "qwen3-coder-plus")
    assert qwen is not None
    assert [qwen.at(size).output for size in (1, 32_001, 200_000, 300_000)] == [5, 9, 15, 60]


def test_the_persons_price_comes_first_by_the_longest_beginning() -> None:
    prices = {"gpt": Price(input=1), "gpt-5": Price(input=2), "claude-opus-5-5": Price(input=3)}
    assert price_of(prices, "gpt-5.5", OPENAI) == Price(input=2)
    assert price_of(prices, "gpt-5.5", "") == Price(input=2)
    listed = price_of(prices, "claude-opus-5", ANTHROPIC)
    assert listed is not None
    assert listed.input == 5
