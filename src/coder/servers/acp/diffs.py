"""Unified diffs, which tools show, as the `diff` blocks of the protocol: the old and the new text of a place.

One block for each hunk, as editors expect of agents that edit in place: the diff is what the person is shown
everywhere, without the secrets that are kept from the record, and needs no second look at the disk.
"""

from __future__ import annotations

import re

import msgspec

_HUNK = r"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@"
NO_NEWLINE = "\\ No newline at end of file"


class Hunk(msgspec.Struct):
    """A changed place. `old` is None where the file is new; `line` is the first that changed, from 1."""

    path: str
    old: str | None
    new: str
    line: int
    deleted: bool = False


def hunks(diff: str) -> list[Hunk]:
    """Those of all files, in order. What is no diff, and what was cut off, gives none."""
    lines = diff.split("\n")
    found: list[Hunk] = []
    before = after = ""
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if line.startswith("--- ") and at < len(lines) and lines[at].startswith("+++ "):
            before, after = line[4:], lines[at][4:]
            at += 1
        elif after and (head := re.match(_HUNK, line)):
            hunk, at = _hunk(lines, at, head, before, after)
            found.append(hunk)
    return found


def _hunk(lines: list[str], at: int, head: re.Match[str], before: str, after: str) -> tuple[Hunk, int]:
    left = [int(head[1] or 1), int(head[3] or 1)]  # lines of the old and of the new text still to come
    old, new = list[str](), list[str]()
    first = -1  # how many lines are before the first that changed
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
