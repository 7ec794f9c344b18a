"""Join an answer truncated by the output limit with its continuation.

Nothing is inserted between the parts. Models repeat the last words or reopen the code block; such clear
repetitions are dropped.
"""

from __future__ import annotations

import re

_WINDOW = 2_000  # characters of the end that may come again
_ENOUGH = 20  # characters of a repetition that is none by chance
_LINE_ENOUGH = 6  # where it is the whole unfinished line

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t]*([\w+#.-]*)[^\n]*$", re.MULTILINE)
# The code block opened again, perhaps after a line that says so ("Continuing:").
_AGAIN = re.compile(r"\s*(?:[^\n`~]{0,120}[:：.…]?[ \t]*\n\s*)?(`{3,}|~{3,})[ \t]*([\w+#.-]+)[ \t]*\n")
_MAY_COME_AGAIN = 200  # characters within which that stands


class Joiner:
    """Streaming: takes the continuation of `before` in chunks and returns what follows `before`."""

    def __init__(self, before: str) -> None:
        self.before = before
        self._language = open_fence(before)
        self._held = ""
        self._decided = False
        self._dropped = False  # a code block that was opened again
        self._fence_decided = self._language is None

    @property
    def within(self) -> bool:
        """Whether `before` ends inside a line or a code block, where nothing may be shown in between."""
        return self._language is not None or not self.before.endswith("\n")

    def feed(self, text: str) -> str:
        if self._decided:
            return text
        self._held += text
        return self._settle(last=False)

    def finish(self) -> str:
        return "" if self._decided else self._settle(last=True)

    def _settle(self, *, last: bool) -> str:
        if not self._fence_decided:
            again = _AGAIN.match(self._held)
            if again is not None:
                if not self._language or again[2].lower() == self._language:
                    self._held, self._dropped = self._held[again.end() :], True
                self._fence_decided = True
            elif last or not self._fence_may_come():
                self._fence_decided = True
            else:
                return ""
        tail = self.before[-_WINDOW:]
        if not last and len(self._held) < len(tail) and self._held and self._may_overlap(tail):
            return ""
        if not self._held and not last:
            return ""
        self._decided = True
        text, self._held = self._held, ""
        repeated = _overlap(tail, text)
        if self._dropped and not repeated and not tail.endswith("\n") and text.startswith((" ", "\t")):
            return "\n" + text  # indented code begins a line
        return text[repeated:]

    def _fence_may_come(self) -> bool:
        """Whether the text so far may still become a reopened code fence."""
        held = self._held.lstrip()
        if len(self._held) > _MAY_COME_AGAIN:
            return False
        first, end, rest = held.partition("\n")
        if first.startswith(("`", "~")):
            return not end
        if not end:
            return True  # the line is not whole
        rest = rest.lstrip()
        return first.rstrip().endswith((":", "：", ".", "…")) and (not rest or rest[0] in "`~")

    def _may_overlap(self, tail: str) -> bool:
        """Whether the text so far may still become an overlap with `tail`."""
        at = tail.find(self._held)
        while at >= 0:
            if len(tail) - at >= _LINE_ENOUGH:
                return True
            at = tail.find(self._held, at + 1)
        return False


def _overlap(tail: str, text: str) -> int:
    """Length of the overlap: the prefix of `text` that repeats the end of `tail`."""
    for size in range(min(len(tail), len(text)), _LINE_ENOUGH - 1, -1):
        if tail.endswith(text[:size]) and _is_repetition(tail, text[:size]):
            return size
    return 0


def _is_repetition(tail: str, repeated: str) -> bool:
    if not any(map(str.isalnum, repeated)) or tail.endswith(repeated * 2):
        return False  # lines that are drawn, brackets; rows that are alike
    if len(repeated) >= _ENOUGH:
        return True
    line = tail.rpartition("\n")[2]
    return bool(line) and repeated.endswith(line) and len(line) >= _LINE_ENOUGH


def open_fence(text: str) -> str | None:
    """The language of the code fence still open at the end; None if there is none."""
    marks, language = "", ""
    for fence in _FENCE.finditer(text):
        if not marks:
            marks, language = fence[1], fence[2].lower()
        elif fence[1].startswith(marks) and not fence[2]:
            marks = ""
    return language if marks else None
