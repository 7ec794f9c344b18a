"""Knowledge of programs: which are read-only, which are wrappers, which destroy, and git's environment."""

from __future__ import annotations


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())
