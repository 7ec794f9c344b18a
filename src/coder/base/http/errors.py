"""Transport errors by kind; `models/errors.py` turns them into `ModelError`s."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Literal

from coder.texts import CoderError, Text

HttpErrorKind = Literal[
    "address",  # the URL itself is wrong
    "header",  # a header, such as the key, that HTTP cannot carry
    "dns",
    "refused",
    "tls",
    "connect_timeout",
    "idle_timeout",
    "proxy",
    "closed",  # the connection ended early
    "protocol",  # the response is not valid HTTP, or exceeds a limit
    "redirect",
]


class HttpError(CoderError):
    """A request without a usable response. `message` is a clause, not a sentence, and contains no key."""

    def __init__(self, kind: HttpErrorKind, message: Text, *, before_answer: bool = False) -> None:
        super().__init__(message)
        self.kind: HttpErrorKind = kind
        # A reused connection that closes before the first byte was merely stale: safe to resend.
        self.before_answer = before_answer


def retry_after_seconds(status: int, headers: Mapping[str, str]) -> float | None:
    """The requested delay in seconds, or None."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    asked = headers.get("retry-after", "").strip()
    if asked:
        seconds = _number(asked)
        return seconds if seconds is not None else _until_date(asked)
    return _rate_limit_reset(headers) if status == 429 else None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def _until_date(text: str) -> float | None:
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def _rate_limit_reset(headers: Mapping[str, str]) -> float | None:
    """`x-ratelimit-reset` (seconds or timestamp), or `…-requests`/`…-tokens` of what is exhausted."""
    plain = _number(headers.get("x-ratelimit-reset", ""))
    if plain is not None:
        if plain < 1e9:
            return plain
        return max(0.0, (plain / 1000 if plain > 1e11 else plain) - time.time())
    for what in ("requests", "tokens"):
        if headers.get(f"x-ratelimit-remaining-{what}", "").strip() == "0":
            return _duration(headers.get(f"x-ratelimit-reset-{what}", "").strip())
    return None


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _duration(text: str) -> float | None:
    """`1h2m3.5s`, `20ms`, or bare seconds."""
    bare = _number(text)
    if bare is not None:
        return bare
    total, digits, rest = 0.0, "", text
    while rest:
        digits = rest[: len(rest) - len(rest.lstrip("0123456789."))]
        rest = rest[len(digits) :]
        unit = "ms" if rest.startswith("ms") else rest[:1]
        amount = _number(digits)
        if amount is None or unit not in _UNITS:
            return None
        total += amount * _UNITS[unit]
        rest = rest[len(unit) :]
    return total if digits else None
