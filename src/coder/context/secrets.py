"""Telling a secret from a fact, before it is written where every later session sends it to a model."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re

# What each pattern finds, in words for the refusal.
_PATTERNS = (
    ("a private key", r"-----BEGIN [A-Z ]*PRIVATE KEY"),
    (
        "an access key",
        r"\b(?:sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|"
        r"xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}|ASIA[0-9A-Z]{16}|AIza[\w-]{30,}|hf_[A-Za-z0-9]{20,}|"
        r"npm_[A-Za-z0-9]{30,}|pypi-[\w-]{30,}|[rs]k_(?:live|test)_[A-Za-z0-9]{16,})",
    ),
    ("a signed token", r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}"),
    ("an address with a password in it", r"\b[a-z][a-z0-9+.-]*://[^\s/:@]*:[^\s/@]+@"),
    (
        "a password or key",
        r"(?i)(?:pass(?:word|wd|phrase)|secret|token|api[ _-]?key|credentials?|密码|口令|密钥|令牌)"
        r"(?:\s+(?:is|was)\b|\s*[:=：]|\s*(?:是|为))\s*[`\"'“]?(?=[^\s`\"'”]*[\d!@#$%^&*_+=])[^\s`\"'”]{6,}",
    ),
)


@lru_cache(maxsize=1)
def _compiled() -> list[tuple[str, re.Pattern[str]]]:
    import re

    return [(what, re.compile(pattern)) for what, pattern in _PATTERNS]


def secret_in(text: str) -> str:
    """What kind of secret `text` seems to hold, in words; empty where it holds none."""
    return next((what for what, pattern in _compiled() if pattern.search(text)), "")
