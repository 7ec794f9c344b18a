"""Composes a `ChatModel`: the wire, wrapped by retries, wrapped by the dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    max_attempts: int = 5,
    names: Sequence[str] = (),
) -> ChatModel:
    """`names`: the variables or settings that key and address come from."""
    wire = ChatCompletions(base_url, api_key, headers, timeout_ms, names=names)
    model = RetryingModel(wire, max_attempts=max_attempts)
    if dialect == "react-xml":
        from coder.model.react.xml import ReactXml

        return ReactXml(model)
    if dialect == "guided":
        from coder.model.guided.dialect import Guided

        return Guided(model)
    if dialect == "auto":
        from coder.model.dialect import AutoDialect

        return AutoDialect(model)
    return model
