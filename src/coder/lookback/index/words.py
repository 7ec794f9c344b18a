"""Tokens and queries. SQLite's tokenizer splits at what is no letter or digit; Chinese, Japanese and Korean
have no such marks between words, so their runs are indexed as overlapping pairs of characters (bigrams)."""

from __future__ import annotations

import re
from functools import cache

_CJK = "぀-ヿ㐀-䶿一-鿿豈-﫿가-힯\U00020000-\U000323af"
_PHRASE = re.compile(r'"([^"]*)"|(\S+)')
_SHORTEST_PREFIX = 3  # a shorter one stands for too many words


@cache
def _run() -> re.Pattern[str]:
    return re.compile(f"[{_CJK}]+")


@cache
def _piece() -> re.Pattern[str]:
    """A run of CJK characters, or a word as the tokenizer sees it, combining accents (NFD) included. Compiled
    lazily: that takes 10 ms."""
    return re.compile(f"[{_CJK}]+|[^\\W{_CJK}](?:[^\\W{_CJK}]|[\u0300-\u036f])*")


def tokenizable(text: str) -> str:
    """`text` with its CJK runs as pairs, and the last character alone, so that one character is found too."""
    return text if text.isascii() else _run().sub(_pairs, text)


def _pairs(found: re.Match[str]) -> str:
    run = found[0]
    return f" {' '.join([*(run[at : at + 2] for at in range(len(run) - 1)), run[-1]])} "


def terms_of(query: str) -> list[str]:
    """FTS5 expressions, all of which must match. A quoted part is a phrase; other words match as prefixes."""
    terms: dict[str, None] = {}
    for quoted, word in _PHRASE.findall(query):
        pieces = _piece().findall((quoted or word).replace("_", " "))
        if pieces and not any(_run().match(piece) for piece in pieces) and (quoted or len(pieces) > 1):
            terms[f'"{" ".join(pieces)}"'] = None
            continue
        terms.update(dict.fromkeys(_term(piece, exact=bool(quoted)) for piece in pieces))
    return list(terms)


def _term(piece: str, *, exact: bool) -> str:
    if _run().match(piece):
        if len(piece) == 1:
            return f'"{piece}"*'
        return f'"{" ".join(piece[at : at + 2] for at in range(len(piece) - 1))}"'
    return f'"{piece}"' if exact or len(piece) < _SHORTEST_PREFIX else f'"{piece}"*'


def marks_of(query: str) -> list[str]:
    """What to look for in a line, in lower case; the longest first."""
    found = {
        piece.lower()
        for quoted, word in _PHRASE.findall(query)
        for piece in ([quoted] if quoted else [word, *_piece().findall(word.replace("_", " "))])
        if piece.strip()
    }
    return sorted(found, key=len, reverse=True)


def line_around(text: str, marks: list[str], width: int = 160) -> tuple[int, str]:
    """How many of the marks the best line has, and that line, cut to `width` around one of them. The lines
    compared are those where a mark occurs first."""
    folded = text.lower()
    if len(folded) != len(text):  # a few letters have a longer lower case: positions would differ
        text = folded
    best, held, place = (0, 0), 0, 0
    for mark in marks:
        at = folded.find(mark)
        if at < 0:
            continue
        end = folded.find("\n", at)
        line = folded.rfind("\n", 0, at) + 1, len(text) if end < 0 else end
        count = sum(folded.find(one, *line) >= 0 for one in marks)
        if count > held:
            best, held, place = line, count, at
    if not held:
        return 0, ""
    start = max(best[0], min(place - width // 3, best[1] - width))
    end = min(best[1], start + width)
    cut = " ".join(text[start:end].split())
    return held, ("…" if start > best[0] else "") + cut + ("…" if end < best[1] else "")
