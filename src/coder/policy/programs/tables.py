"""Tables of names."""

from __future__ import annotations


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())
