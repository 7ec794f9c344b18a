"""Vim's motions and text objects as pure functions.

prompt_toolkit's own corrupt the text if a motion finds nothing (`dtx` without an x duplicates the line), and
ignore some counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

import msgspec

Kind = Literal["exclusive", "inclusive", "lines"]


class Span(msgspec.Struct, frozen=True):
    """From the caret to the motion's target, which may be before it."""

    start: int
    end: int
    kind: Kind = "exclusive"


# places


def line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def first_letter(text: str, at: int) -> int:
    """The first non-blank character of the line, or its last one."""
    start, end = line_start(text, at), line_end(text, at)
    spaces = len(text[start:end]) - len(text[start:end].lstrip(" \t"))
    return min(start + spaces, max(start, end - 1))


def clamp_caret(text: str, at: int) -> int:
    """Clamp to a valid normal-mode position: on a character, not after the line's last."""
    at = max(0, min(at, len(text)))
    return at - 1 if at == line_end(text, at) > line_start(text, at) else at


def line_number(text: str, at: int) -> int:
    return text.count("\n", 0, at)


def start_of_line(text: str, number: int) -> int:
    at = 0
    for _ in range(number):
        at = line_end(text, at) + 1
    return at


# words


def _class(text: str, at: int, big: bool) -> int:
    char = text[at]
    if char.isspace():
        return 0
    if big:
        return 1
    if not (char.isalnum() or char == "_"):
        return 2
    return 1 if ord(char) < 0x1100 else 3  # CJK and Latin are different word classes


def _empty_line(text: str, at: int) -> bool:
    return line_start(text, at) == at == line_end(text, at)


def next_word(text: str, at: int, big: bool, *, in_line: bool = False) -> int:
    """The start of the next word; with `in_line` not beyond the end of the line."""
    i = at
    if i < len(text) and (here := _class(text, i, big)):
        while i < len(text) and _class(text, i, big) == here:
            i += 1
    while i < len(text) and text[i].isspace():
        if in_line and text[i] == "\n" and i > at:
            return i
        i += 1
        if not in_line and i > at and _empty_line(text, i):
            return i
        if in_line and text[i - 1] == "\n":
            return i
    return i


def word_end(text: str, at: int, big: bool, *, stay: bool = False) -> int | None:
    """The last character of this or the next word; with `stay` that may be the caret's."""
    i = at if stay else at + 1
    while i < len(text) and text[i].isspace():
        i += 1
    if i >= len(text):
        return None
    here = _class(text, i, big)
    while i + 1 < len(text) and _class(text, i + 1, big) == here:
        i += 1
    return i


def word_before(text: str, at: int, big: bool) -> int | None:
    if at == 0:
        return None
    i = at - 1
    while i > 0 and text[i].isspace():
        if _empty_line(text, i):
            return i
        i -= 1
    if text[i].isspace():
        return i
    here = _class(text, i, big)
    while i > 0 and _class(text, i - 1, big) == here:
        i -= 1
    return i


# motions: (text, at, count, operator) -> Span, or None if there is no target


def _left(text: str, at: int, count: int, operator: str) -> Span | None:
    to = max(line_start(text, at), at - count)
    return Span(at, to) if to != at or operator == "c" else None


def _right(text: str, at: int, count: int, operator: str) -> Span | None:
    end = line_end(text, at)
    to = min(at + count, end)
    if to == at and operator != "c":
        return None
    return Span(at, to) if operator else Span(at, clamp_caret(text, to))


def _line(by: int) -> Motion:
    def move(text: str, at: int, count: int, _operator: str) -> Span | None:
        number = line_number(text, at)
        there = max(0, min(number + by * count, text.count("\n")))
        if there == number:
            return None
        start = start_of_line(text, there)
        return Span(at, min(start + at - line_start(text, at), line_end(text, start)), "lines")

    return move


def _word(big: bool) -> Motion:
    def move(text: str, at: int, count: int, operator: str) -> Span | None:
        if operator == "c" and at < len(text) and not text[at].isspace():
            return _to_word_end(text, at, count, big)
        to = at
        for left in range(count, 0, -1):
            to = next_word(text, to, big, in_line=bool(operator) and left == 1)
        if to == at and operator != "c":
            return None
        return Span(at, to) if operator else Span(at, clamp_caret(text, to) if to == len(text) else to)

    return move


def _to_word_end(text: str, at: int, count: int, big: bool) -> Span | None:
    """`cw` acts as `ce`."""
    to: int | None = at
    for number in range(count):
        to = word_end(text, to, big, stay=number == 0) if to is not None else None
    return Span(at, len(text) - 1 if to is None else to, "inclusive")


def _word_end(big: bool) -> Motion:
    def move(text: str, at: int, count: int, operator: str) -> Span | None:
        to = at
        for _ in range(count):
            found = word_end(text, to, big)
            to = max(to, len(text) - 1) if found is None else found
        return Span(at, to, "inclusive") if to != at or operator else None

    return move


def _word_back(big: bool) -> Motion:
    def move(text: str, at: int, count: int, operator: str) -> Span | None:
        to = at
        for _ in range(count):
            found = word_before(text, to, big)
            if found is None:
                return Span(at, to) if to != at and not operator else None
            to = found
        return Span(at, to)

    return move


def _dollar(text: str, at: int, count: int, operator: str) -> Span | None:
    number = line_number(text, at) + count - 1
    if number > text.count("\n"):
        return None
    end = line_end(text, start_of_line(text, number) if count > 1 else at)
    return Span(at, end) if operator else Span(at, clamp_caret(text, end))


def _go(last: bool) -> Motion:
    def move(text: str, at: int, count: int, _operator: str) -> Span | None:
        number = text.count("\n") if last and not count else max(0, count - 1)
        return Span(at, first_letter(text, start_of_line(text, min(number, text.count("\n")))), "lines")

    return move


Motion = Callable[[str, int, int, str], Span | None]
MOTIONS: dict[str, Motion] = {
    "h": _left,
    "l": _right,
    " ": _right,
    "j": _line(1),
    "k": _line(-1),
    "w": _word(big=False),
    "W": _word(big=True),
    "e": _word_end(big=False),
    "E": _word_end(big=True),
    "b": _word_back(big=False),
    "B": _word_back(big=True),
    "0": lambda text, at, _count, _operator: Span(at, line_start(text, at)),
    "^": lambda text, at, _count, _operator: Span(at, first_letter(text, at)),
    "$": _dollar,
    "gg": _go(last=False),
    "G": _go(last=True),
}


def find_in_line(text: str, at: int, how: str, char: str, count: int, *, again: bool = False) -> Span | None:
    """`f F t T`; `again` (`;`) skips the adjacent match of `t T`."""
    forward = how in "ft"
    near = how in "tT"
    place = at + (1 if forward else -1) * (1 + (near and again))
    for left in range(count, 0, -1):
        if forward:
            place = text.find(char, place, line_end(text, at))
        else:
            place = text.rfind(char, line_start(text, at), max(0, place + 1))
        if place < 0:
            return None
        if left > 1:
            place += 1 if forward else -1
    if forward:
        return Span(at, place - near, "inclusive")
    return Span(at, place + near)


# text objects

_PAIRS = {"(": "()", ")": "()", "b": "()", "[": "[]", "]": "[]", "{": "{}", "}": "{}", "B": "{}"}
_PAIRS |= {"<": "<>", ">": "<>"}
OBJECTS = re.compile(r"""[ia][wW"'`()\[\]{}<>bB]""")


def text_object(text: str, at: int, which: str) -> Span | None:
    """`iw`, `a"`, `i(` etc."""
    around, kind = which[0] == "a", which[1]
    if kind in "wW":
        return _word_object(text, at, around, big=kind == "W")
    found = _quoted(text, at, kind) if kind in "\"'`" else _enclosed(text, at, _PAIRS[kind])
    if found is None:
        return None
    start, end = found
    return Span(start, end + 1) if around else Span(start + 1, end)


def _word_object(text: str, at: int, around: bool, *, big: bool) -> Span | None:
    first, last = line_start(text, at), line_end(text, at)
    if first == last:
        return None
    start = end = min(at, last - 1)
    here = _class(text, start, big)
    while start > first and _class(text, start - 1, big) == here:
        start -= 1
    while end < last and _class(text, end, big) == here:
        end += 1
    if not around:
        return Span(start, end)
    after = end
    while after < last and text[after].isspace():
        after += 1
    while after == end and start > first and text[start - 1].isspace():
        start -= 1
    return Span(start, after)


def _quoted(text: str, at: int, quote: str) -> tuple[int, int] | None:
    start, end = line_start(text, at), line_end(text, at)
    places = [i for i in range(start, end) if text[i] == quote and text[i - 1 : i] != "\\"]
    pairs = zip(places[::2], places[1::2], strict=False)
    return next(((a, b) for a, b in pairs if at <= b), None)


def _enclosed(text: str, at: int, pair: str) -> tuple[int, int] | None:
    depth = 0
    for opening in range(min(at, len(text) - 1), -1, -1):
        if text[opening] == pair[0] and depth == 0:
            break
        depth += (text[opening] == pair[1] and opening != at) - (text[opening] == pair[0])
    else:
        return None
    for closing in range(opening, len(text)):
        depth += (text[closing] == pair[0]) - (text[closing] == pair[1])
        if depth == 0:
            return opening, closing
    return None
