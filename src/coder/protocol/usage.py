"""Token counts, by request, turn and session."""

from __future__ import annotations

from typing import Any

import msgspec


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens of one request, or the sum of several.

    `source` says who counted: the provider's `usage`, or the local tokenizer where it sent none.
    """

    prompt: int = 0
    completion: int = 0
    total: int = 0
    cached: int = 0
    source: str = ""

    def plus(self, other: Usage) -> Usage:
        return Usage(
            prompt=self.prompt + other.prompt,
            completion=self.completion + other.completion,
            total=self.total + other.total,
            cached=self.cached + other.cached,
        )


def tokens_meta(usage: Usage) -> dict[str, Any]:
    """`meta.tokens` of the record."""
    meta: dict[str, Any] = {
        "prompt": usage.prompt,
        "completion": usage.completion,
        "total": usage.total,
    }
    if usage.cached:
        meta["cached"] = usage.cached
    if usage.source:
        meta["source"] = usage.source
    return meta
