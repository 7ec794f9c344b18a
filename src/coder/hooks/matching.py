"""Which tools a hook's `matcher` names. Pure."""

from __future__ import annotations

import re
from functools import lru_cache

from coder.tools.calls.names import TOOLS, folded

_NAMES = re.compile(r"\w+(?:\|\w+)*")


def matches(matcher: str, name: str) -> bool:
    """Empty and `*` match all. Else a regular expression for the whole name in any case; plain words may be
    other agents' names of our tools (`Bash|MultiEdit`). An invalid expression matches all: a hook that
    guards something must not be lost to a typo."""
    if matcher in ("", "*"):
        return True
    if _NAMES.fullmatch(matcher) and any(TOOLS.get(folded(word)) == name for word in matcher.split("|")):
        return True
    pattern = _compiled(matcher)
    return pattern is None or pattern.fullmatch(name) is not None


def is_valid(matcher: str) -> bool:
    return matcher in ("", "*") or _compiled(matcher) is not None


@lru_cache(64)
def _compiled(matcher: str) -> re.Pattern[str] | None:
    try:
        return re.compile(matcher, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError):
        return None
