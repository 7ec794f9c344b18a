"""A unified diff as HTML: line numbers, added and removed lines, and within a changed line what changed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from coder.view.html.escape import tag, text_of

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_LONGEST = 400  # characters of a line that is compared with another
_MOST = 4000  # lines shown


def diff_html(diff: str) -> str:
    lines = diff.split("\n")
    shown = [*_rows(lines[:_MOST])]
    if len(lines) > _MOST:
        shown.append(tag("span", f"… {len(lines) - _MOST}", class_="at"))
    return tag("pre", *shown, class_="diff")


def _rows(lines: list[str]) -> Iterator[str]:
    old = new = 0  # line numbers
    ends = 0, 0  # the first ones after the hunk
    at = 0
    while at < len(lines):
        line = lines[at]
        if found := _HUNK.match(line):
            old, new = int(found[1]), int(found[3])
            ends = old + int(found[2] or 1), new + int(found[4] or 1)
            yield _row("at", "", "", text_of(line))
        elif line.startswith(("--- ", "+++ ")) and (old, new) == ends:  # of the next file
            yield _row("file", "", "", text_of(line))
            if line.startswith("+++ "):
                old = new = 0
                ends = 0, 0
        elif line[:1] in ("-", "+"):
            removed = _block(lines, at, "-", ends[0] - old)
            added = _block(lines, at + len(removed), "+", ends[1] - new)
            before, after = _marked(removed, added)
            yield from (_row("del", str(old + n), "", html) for n, html in enumerate(before))
            yield from (_row("add", "", str(new + n), html) for n, html in enumerate(after))
            old, new = old + len(removed), new + len(added)
            at += len(removed) + len(added)
            continue
        elif line.startswith("\\"):  # No newline at end of file
            yield _row("at", "", "", text_of(line))
        elif line or at + 1 < len(lines):
            yield _row("same", str(old) if old else "", str(new) if new else "", text_of(line))
            old, new = old + bool(old), new + bool(new)
        at += 1


def _block(lines: list[str], at: int, sign: str, left: int) -> list[str]:
    """Lines with the sign: as many as the hunk has left, or all where its head is wrong."""
    end = at
    while end < len(lines) and lines[end].startswith(sign):
        end += 1
    return lines[at : at + left] if 0 < left < end - at else lines[at:end]


def _marked(removed: list[str], added: list[str]) -> tuple[list[str], list[str]]:
    """Where as many lines came as went, each is compared with its counterpart."""
    if len(removed) != len(added):
        return [text_of(line) for line in removed], [text_of(line) for line in added]
    pairs = [_compared(before, after) for before, after in zip(removed, added, strict=True)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def _compared(before: str, after: str) -> tuple[str, str]:
    """With the common beginning and end left plain, and the middle marked."""
    if max(len(before), len(after)) > _LONGEST:
        return text_of(before), text_of(after)
    shortest = min(len(before), len(after))
    head = 1
    while head < shortest and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < shortest - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    if head + tail < shortest // 2:  # another line altogether
        return text_of(before), text_of(after)

    def marked(line: str) -> str:
        end = len(line) - tail
        middle = tag("mark", text_of(line[head:end])) if end > head else ""
        return text_of(line[:head]) + middle + text_of(line[end:])

    return marked(before), marked(after)


def _row(kind: str, old: str, new: str, html: str) -> str:
    return tag("span", tag("i", old), tag("i", new), html, "\n", class_=kind)
