"""Keeps paste placeholders atomic: no key splits one, and the caret is never inside. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from coder.terminal.input.editing import Caret

Labels = Mapping[str, str]


def label_spans(text: str, labels: Labels) -> Iterator[tuple[int, int]]:
    """The spans of placeholders, in order."""
    if labels:
        pattern = "|".join(re.escape(label) for label in sorted(labels, key=len, reverse=True))
        yield from (found.span() for found in re.finditer(pattern, text))


def outside_label(caret: Caret, came_from: int, labels: Labels) -> int:
    """The caret's offset, moved to the far side of a placeholder it entered."""
    for start, end in label_spans(caret.text, labels):
        if start < caret.at < end:
            return end if came_from <= start else start
    return caret.at


def whole_labels(before: str, now: Caret, labels: Labels) -> Caret | None:
    """Repair a change that deleted part of a placeholder: delete all of it. Text inserted inside moves after
    it. None if every placeholder is intact."""
    was, stays = list(label_spans(before, labels)), list(label_spans(now.text, labels))
    if len(stays) >= len(was):
        return None
    start = _shared(before, now.text)
    shared = _shared(before[start:][::-1], now.text[start:][::-1])
    end = len(before) - shared
    put_in = now.text[start : len(now.text) - shared]
    touched = [(a, b) for a, b in was if a < end and start < b and not (start <= a and b <= end)]
    if start == end:
        touched = []
        start = end = next((b for a, b in was if a < start < b), start)
    first, last = min([start, *(a for a, _ in touched)]), max([end, *(b for _, b in touched)])
    text = before[:first] + put_in + before[last:]
    return None if text == now.text else Caret(text, min(len(text), first + len(put_in)))


def _shared(one: str, other: str) -> int:
    """The length of the common prefix."""
    for at, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return at
    return min(len(one), len(other))


def label_before(caret: Caret, labels: Labels) -> str:
    """The placeholder that ends at the caret, or ""."""
    return next((caret.text[a:b] for a, b in label_spans(caret.text, labels) if b == caret.at), "")
