"""The reasoning efforts that a model takes, as a server lists them when it refuses another."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ORDER = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_LIST = re.compile(
    rb"(?:supported values|input should be|must be|one of|valid values|valid options|expected)\b(.{0,200})",
    re.IGNORECASE | re.DOTALL,
)
_EFFORT = re.compile(rb"(?<![\w-])(?:none|minimal|low|medium|high|xhigh|max)(?![\w-])")


def listed_efforts(refusal: bytes, refused: str) -> tuple[str, ...]:
    """Those that may be sent instead of the refused one; none where the refusal is of something else."""
    found = _LIST.search(refusal) if b"effort" in refusal else None
    words = {word.decode("ascii") for word in _EFFORT.findall(found[1])} if found else set()
    return tuple(one for one in _ORDER if one in words) if refused not in words else ()


def nearest(effort: str, taken: Sequence[str]) -> str:
    """The lower one of two that are as near; little reasoning is not none."""
    at = _ORDER.index(effort) if effort in _ORDER else 0
    reasons = [one for one in taken if one != "none"] or taken
    return min(reasons, key=lambda one: (abs(_ORDER.index(one) - at), _ORDER.index(one)))
