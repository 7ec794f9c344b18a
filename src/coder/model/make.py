"""Composes a `ChatModel`: the wire, wrapped by retries, wrapped by the dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from coder.model.base import ChatModel
from coder.model.retry import RetryingModel
from coder.model.wires.chat_completions.client import ChatCompletions

Dialect = Literal["native", "react-xml", "guided", "auto"]


def make_model(
    base_url: str,
    api_key: str = "",
    headers: Mapping[str, str] | None = None,
    timeout_ms: int = 120_000,
    dialect: Dialect = "auto",
    *,
    dialect_of: Callable[[str], str] | None = None,
    found: Callable[[str, str], None] = lambda model, dialect: None,
    max_attempts: int = 5,
    names: Sequence[str] = (),
) -> ChatModel:
    """`names`: the variables or settings of key and address. `dialect_of`: what is known of a model,
    instead of `dialect` for all; `found` is told what was found out."""
    wire = ChatCompletions(base_url, api_key, headers, timeout_ms, names=names)
    model = RetryingModel(wire, max_attempts=max_attempts)
    from coder.model.dialect import AutoDialect, in_dialect

    if dialect_of is None and dialect != "auto":
        return in_dialect(model, dialect)
    return AutoDialect(model, dialect_of or (lambda model: "auto"), found)
