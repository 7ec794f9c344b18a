"""Converts unified diffs to the protocol's `diff` blocks (old and new text), one per hunk.

The diff is what the person sees everywhere, with secrets already redacted; reading the files again would not
be.
"""

from __future__ import annotations

import re

import msgspec

from coder.tools.patching.unified import unquoted

_HUNK = r"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@"
NO_NEWLINE = "\\ No newline at end of file"


class Hunk(msgspec.Struct):
    """`old` is None for a new file; `line` is the first changed line, from 1."""

    path: str
    old: str | None
    new: str
    line: int
    deleted: bool = False


def hunks(diff: str) -> list[Hunk]:
    """The hunks of all files; none for text that is no diff, or truncated."""
    lines = diff.split("\n")
    found: list[Hunk] = []
    before = after = ""
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if line.startswith("--- ") and at < len(lines) and lines[at].startswith("+++ "):
            before, after = unquoted(line[4:]), unquoted(lines[at][4:])
            at += 1
        elif after and (head := re.match(_HUNK, line)):
            hunk, at = _hunk(lines, at, head, before, after)
            found.append(hunk)
    return found


def _hunk(lines: list[str], at: int, head: re.Match[str], before: str, after: str) -> tuple[Hunk, int]:
    left = [int(head[1] or 1), int(head[3] or 1)]  # remaining lines of the old and the new text
    old, new = list[str](), list[str]()
    first = -1  # number of lines before the first change
    while at < len(lines) and (any(left) or lines[at] == NO_NEWLINE):
        sign, text = lines[at][:1], lines[at][1:]
        if lines[at] == NO_NEWLINE:
            _without_newline(lines[at - 1][:1], old, new)
        elif sign in (" ", "-", "+"):
            first = len(new) if first < 0 and sign != " " else first
            _add(sign, text + "\n", old, new, left)
        else:
            break
        at += 1
    is_new, deleted = before == "/dev/null", after == "/dev/null"
    name = (before if deleted else after).removeprefix("a/" if deleted else "b/")
    line = max(1, int(head[2]) + max(0, first))
    return Hunk(name, None if is_new else "".join(old), "".join(new), line, deleted), at


def _add(sign: str, text: str, old: list[str], new: list[str], left: list[int]) -> None:
    if sign != "+":
        old.append(text)
        left[0] -= 1
    if sign != "-":
        new.append(text)
        left[1] -= 1


def _without_newline(sign: str, old: list[str], new: list[str]) -> None:
    for wanted, texts in (("+", old), ("-", new)):
        if sign != wanted and texts:
            texts[-1] = texts[-1].removesuffix("\n")
