"""Collapsed pastes: placeholders such as `[pasted 3 lines]` in the prompt, and the text behind them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping

from coder.ui.terminal.input.editing import Caret

PASTE_CHARS = 1000  # longer single lines are collapsed too: every key would redraw them
_REORDERING = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_RECENT = 20

Labels = Mapping[str, str]
"""Pasted text by placeholder."""


class Pastes:
    """The pastes of the current text, and recent ones."""

    def __init__(self, label: Callable[[int], str]) -> None:
        """`label` names a paste by its number of lines."""
        self._label = label
        self.current: dict[str, str] = {}
        self._recalled: dict[str, str] = {}  # too long for the history file, kept for this session
        self._recent: deque[tuple[str, str]] = deque(maxlen=_RECENT)

    @property
    def labels(self) -> dict[str, str]:
        return {**self._recalled, **self.current}

    def collapse(self, text: str) -> str:
        """A new placeholder for pasted text."""
        label = paste_label(self._label(text.rstrip("\n").count("\n") + 1), self.labels)
        self.current[label] = text
        return label

    def collapse_again(self, text: str, pasted: Iterable[str]) -> str:
        """A message that comes back, with its pasted parts collapsed."""
        recent = [part for _, part in self._recent if part in text]
        for part in dict.fromkeys((*pasted, *recent)):
            if part in text and collapses(part):
                label = next((name for name, whole in self.labels.items() if whole == part), "")
                text = text.replace(part, label or self.collapse(part), 1)
        return text

    def remember_recent(self) -> None:
        self._recent.extend(self.current.items())

    def keep_for_session(self) -> None:
        self._recalled |= self.current

    def as_typed(self, message: str) -> str:
        """A recent message with its pastes collapsed again."""
        for label, pasted in self._recent:
            message = message.replace(pasted, label)
        return message

    def pasted_in(self, message: str) -> list[str]:
        """The parts of a recent message that were pasted."""
        return list(dict.fromkeys(pasted for _, pasted in self._recent if pasted in message))


def collapses(pasted: str) -> bool:
    """Whether to show a placeholder: for several lines, long text, or bidirectional controls."""
    return "\n" in pasted.rstrip("\n") or len(pasted) > PASTE_CHARS or _REORDERING.search(pasted) is not None


def paste_label(label: str, known: Mapping[str, str]) -> str:
    """`label` ("[pasted 3 lines]"), numbered if it is taken."""
    if label not in known:
        return label
    number = 2
    while f"{label[:-1]} #{number}]" in known:
        number += 1
    return f"{label[:-1]} #{number}]"


def expanded(text: str, pastes: Mapping[str, str]) -> str:
    """Expand placeholders in one pass: pasted text is never itself searched for placeholders."""
    if not pastes:
        return text
    labels = "|".join(re.escape(label) for label in sorted(pastes, key=len, reverse=True))
    return re.sub(labels, lambda found: pastes[found[0]], text)


def without_label(caret: Caret, pastes: Mapping[str, str]) -> Caret | None:
    """Backspace after a placeholder deletes all of it; None without one."""
    before = caret.text[: caret.at]
    label = next((label for label in pastes if before.endswith(label)), None)
    if label is None:
        return None
    return Caret(before.removesuffix(label) + caret.text[caret.at :], caret.at - len(label))


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
    """Extend a change that deleted part of a placeholder to all of it; inserted text moves behind it. None if
    every placeholder is intact."""
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
