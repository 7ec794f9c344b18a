"""How many columns text takes, and where a line of it may be broken: Chinese, Japanese and Korean included.

A line is a list of spans, a span is (style, text); styles are the theme's role names joined by spaces.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator

Span = tuple[str, str]
Line = list[Span]

TAB = "    "
# Characters that may not begin a line, and those that may not end one (kinsoku).
_NOT_FIRST = frozenset(
    "，。、；：？！）》」』】〕〉”’…,.;:?!)]}%％·～ー々ぁぃぅぇぉっゃゅょァィゥェォッャュョ"
)
_NOT_LAST = frozenset("（《「『【〔〈“‘([{￥$＄")
_JOINER = "\u200d"  # what stands on both sides of it is one picture
_SKIN_TONES = frozenset("\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff")
_PIECES = re.compile(r"[ \t]+|[^ \t]+")


@functools.cache
def char_width(char: str) -> int:
    from wcwidth import wcwidth

    return max(0, wcwidth(char))


def text_width(text: str) -> int:
    return len(text) if text.isascii() and text.isprintable() else sum(map(char_width, text))


def line_width(line: Line) -> int:
    return sum(text_width(text) for _, text in line)


def wrap(line: Line, width: int, first: Line | None = None, rest: Line | None = None) -> list[Line]:
    """Break a line into rows of at most `width` columns, `first` standing before the first row and `rest`
    before the others. Nothing but the spaces at a break is lost, and what comes later never changes a row
    that is followed by another: rows may be shown before the text is complete."""
    if not first and not rest and len(line) == 1 and (quick := _wrap_words(*line[0], width)) is not None:
        return quick
    first, rest = first or [], rest or []
    room = max(1, width - line_width(first)), max(1, width - line_width(rest))
    rows: list[Line] = [list(first)]
    used = 0
    held: list[Span] = []  # spaces that stand only if something follows them on the row
    for word in _words(line):
        if word[0][1].isspace():
            held += word
            continue
        size, gap = line_width(word), line_width(held)
        limit = room[0] if len(rows) == 1 else room[1]
        if used and used + gap + size > limit:
            rows.append(list(rest))
            used, held, gap, limit = 0, [], 0, room[1]
        rows[-1] += held
        used += gap
        held = []
        if used + size <= limit:
            rows[-1] += word
            used += size
        else:
            used = _cut(word, rows, rest, room[1], limit - used)
    return [_joined(row) for row in rows]


def _wrap_words(style: str, text: str, width: int) -> list[Line] | None:
    """The same for what most text is: one style, words of ASCII with a space between. None for all else."""
    text = text.rstrip(" ")
    if not text.isascii() or not text.isprintable() or "  " in text or text[:1] in ("", " "):
        return None
    rows: list[Line] = []
    at = 0
    while len(text) - at > width:
        cut = text.rfind(" ", at, at + width + 1)
        if cut < 0:
            return None
        rows.append([(style, text[at:cut])])
        at = cut + 1
    return [*rows, [(style, text[at:])]]


def _cut(word: Line, rows: list[Line], rest: Line, room: int, left: int) -> int:
    """A word longer than a row is cut where the row ends. Answers the columns used on the last row."""
    used = 0
    for style, text in word:
        for char in text:
            size = char_width(char)
            if used + size > left and used:
                rows.append(list(rest))
                left, used = room, 0
            rows[-1].append((style, char))
            used += size
    return used


def _words(line: Iterable[Span]) -> Iterator[Line]:
    """What may not be broken: a run of spaces, or characters with no break between them."""
    word: Line = []
    last = " "
    for style, text in line:
        for piece in _PIECES.findall(text.replace("\t", TAB)):
            if piece[0] == " ":
                if word:
                    yield word
                    word = []
                yield [(style, piece)]
                last = " "
                continue
            parts = [piece] if piece.isascii() else cjk_parts(piece)
            for part in parts:
                if word and _may_break(last, part[0]):
                    yield word
                    word = []
                word.append((style, part))
                last = part[-1]
    if word:
        yield word


def cjk_parts(piece: str) -> list[str]:
    """What may not be broken within a run of characters that are not blank."""
    parts: list[str] = []
    for char in piece:
        if parts and not _may_break(parts[-1][-1], char):
            parts[-1] += char
        else:
            parts.append(char)
    return parts


def _may_break(before: str, after: str) -> bool:
    if char_width(before) < 2 and char_width(after) < 2:
        return False
    if before == _JOINER or after in _SKIN_TONES:
        return False
    return after not in _NOT_FIRST and before not in _NOT_LAST and char_width(after) > 0


def cut_to(text: str, width: int) -> list[str]:
    """Rows of at most `width` columns, broken wherever a row is full: nothing of the text is lost."""
    text = text.replace("\t", TAB)
    if text.isascii() and text.isprintable():
        return [text[at : at + width] for at in range(0, len(text), width)] or [""]
    rows, used = [""], 0
    for char in text:
        size = char_width(char)
        if used + size > width and used:
            rows.append("")
            used = 0
        rows[-1] += char
        used += size
    return rows


def _joined(row: Line) -> Line:
    """Neighbouring spans of one style as one."""
    out: Line = []
    for style, text in row:
        if out and out[-1][0] == style:
            out[-1] = (style, out[-1][1] + text)
        elif text:
            out.append((style, text))
    return out


def clip(line: Line, width: int) -> Line:
    """The beginning of a line that fits; `…` says that it goes on."""
    if line_width(line) <= width:
        return line
    out: Line = []
    left = max(0, width - 1)
    for style, text in line:
        kept = ""
        for char in text:
            if char_width(char) > left:
                return [*out, (style, kept + "…")]
            left -= char_width(char)
            kept += char
        out.append((style, kept))
    return out


def plain(line: Line) -> str:
    return "".join(text for _, text in line)
