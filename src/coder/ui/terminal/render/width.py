"""Display width and line breaking of text, including CJK.

A line is a list of spans, a span is (style, text); styles are the theme's role names joined by spaces.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator

Span = tuple[str, str]
Line = list[Span]

TAB = "    "
# Kinsoku: characters that may not begin a line, and those that may not end one.
_NOT_FIRST = frozenset(
    "，。、；：？！）》」』】〕〉”’…,.;:?!)]}%％·～ー々ぁぃぅぇぉっゃゅょァィゥェォッャュョ"
)
_NOT_LAST = frozenset("（《「『【〔〈“‘([{￥$＄")
_JOINER = "\u200d"  # zero-width joiner of emoji sequences
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
    """Word-wrap at `width` columns, with prefixes `first` and `rest`. Only spaces at a break are dropped, and
    appending text changes the last row only, so that the others can be committed."""
    if not first and not rest and len(line) == 1 and (quick := _wrap_words(*line[0], width)) is not None:
        return quick
    first, rest = first or [], rest or []
    if _fits(line, width - line_width(first)):
        return [_joined([*first, *line])]
    room = max(1, width - line_width(first)), max(1, width - line_width(rest))
    rows: list[Line] = [list(first)]
    used = 0
    spaces: list[Span] = []  # dropped at the end of a row
    for word in unbreakable_units(line):
        if word[0][1].isspace():
            spaces += word
            continue
        size, gap = line_width(word), line_width(spaces)
        limit = room[0] if len(rows) == 1 else room[1]
        if used and used + gap + size > limit:
            rows.append(list(rest))
            used, spaces, gap, limit = 0, [], 0, room[1]
        rows[-1] += spaces
        used += gap
        spaces = []
        if used + size <= limit:
            rows[-1] += word
            used += size
        else:
            used = _cut(word, rows, rest, room[1], limit - used)
    return [_joined(row) for row in rows]


def _fits(line: Line, room: int) -> bool:
    """Whether the line is certainly one row; a fast check."""
    text = "".join([text for _, text in line])
    return 0 < len(text) <= room and text.isascii() and text.isprintable() and text[-1] != " "


def _wrap_words(style: str, text: str, width: int) -> list[Line] | None:
    """Fast path of `wrap` for one style and ASCII words separated by single spaces; else None."""
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
    """Split a word longer than a row. Returns the columns used on the last row."""
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


def unbreakable_units(line: Iterable[Span]) -> Iterator[Line]:
    """Tokenize into unbreakable units: runs of spaces, or characters without a break opportunity."""
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
    """The unbreakable units of a run of non-blank characters."""
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
    """Hard-wrap at `width` columns, without losing a character."""
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


def cut_spans(line: Line, width: int, rest: int) -> list[Line]:
    """Hard-wrap a styled line at `width` columns, at `rest` from its second row on."""
    rows: list[Line] = [[]]
    left = width
    for style, text in line:
        if text.isascii() and len(text) <= left:
            rows[-1].append((style, text))
            left -= len(text)
            continue
        for char in text:
            size = char_width(char)
            if size > left and rows[-1]:
                rows.append([])
                left = rest
            rows[-1].append((style, char))
            left -= size
    return [_joined(row) for row in rows]


def _joined(row: Line) -> Line:
    out: Line = []
    for style, text in row:
        if out and out[-1][0] == style:
            out[-1] = (style, out[-1][1] + text)
        elif text:
            out.append((style, text))
    return out


def clip(line: Line, width: int) -> Line:
    """Truncate to `width` columns, with a `…`."""
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


def clip_left(text: str, width: int) -> str:
    """Truncate from the left, with a `…`: a path's end is most telling."""
    if text_width(text) <= width:
        return text
    while text and text_width(text) + 1 > width:
        text = text[1:]
    return f"…{text}"


def plain(line: Line) -> str:
    return "".join(text for _, text in line)


_WRAP_PIECES = re.compile(r"\n|[ \t]+|[^\s]+|[^\S \t\n]+")
_FENCES = ("```", "~~~")
_ROWS_HELD = 4  # buffer limit of one word


class WordWrapper:
    """Wraps streamed text: `feed` pieces, then `finish`; both return text to write now."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._column = 0
        self._spaces = ""  # dropped at a break
        self._word = ""
        self._overlong_end = ""  # last written character of a word longer than a row
        self._line = ""  # start of the line: code, a table or prose
        self._in_code = False

    def feed(self, text: str) -> str:
        out: list[str] = []
        for piece in _WRAP_PIECES.findall(text):
            if piece == "\n":
                out += [self._flush_word(), "\n"]
                self._column, self._spaces, self._line = 0, "", ""
            elif piece.isspace():
                out.append(self._flush_word())
                self._spaces += piece
            else:
                self._word += piece
                out.append(self._flush_known_part())
        return "".join(out)

    def finish(self) -> str:
        return self._flush_word()

    def _flush_known_part(self) -> str:
        """CJK has no spaces: write all unbreakable units but the last."""
        out = self._continue_overlong() if self._overlong_end else ""
        if not self._word.isascii():
            *known, self._word = cjk_parts(self._word)
            out += "".join(map(self._place, known))
        if len(self._word) > _ROWS_HELD * self._width:
            last = self._word[-1]
            out += self._flush_word()
            self._overlong_end = last
        return out

    def _continue_overlong(self) -> str:
        """More of a word longer than a row, up to its next break opportunity."""
        text = self._overlong_end + self._word
        first, *rest = [text] if text.isascii() else cjk_parts(text)
        self._word = "".join(rest)
        more, self._overlong_end = first[1:], "" if rest else first[-1]
        self._column += text_width(more)
        return more

    def _flush_word(self) -> str:
        word, self._word, self._overlong_end = self._word, "", ""
        return self._place(word) if word else ""

    def _place(self, part: str) -> str:
        if not self._line:
            self._line = part
            self._in_code ^= part.startswith(_FENCES)
        size, spaces = text_width(part), self._spaces
        self._spaces = ""
        if self._column and self._column + len(spaces) + size > self._width and self._breaks:
            self._column = size
            return f"\n{part}"
        self._column += len(spaces) + size
        return spaces + part

    @property
    def _breaks(self) -> bool:
        return not self._in_code and not self._line.startswith((*_FENCES, "|"))
