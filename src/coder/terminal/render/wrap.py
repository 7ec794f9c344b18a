"""Streaming word wrap for append-only output.

A word is buffered until its end is known or no row could hold it. Code and tables are left to the terminal's
own wrapping, so that they can be copied in one piece.
"""

from __future__ import annotations

import re

from coder.terminal.render.width import cjk_parts, text_width

_PIECES = re.compile(r"\n|[ \t]+|[^\s]+|[^\S \t\n]+")
_FENCES = ("```", "~~~")
_ROWS_HELD = 4  # buffer limit of one word


class WordWrapper:
    """`feed` pieces, then `finish`; both return what to write now."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._column = 0
        self._spaces = ""  # dropped at a break
        self._word = ""
        self._overlong_end = ""  # last written character of a word longer than a row
        self._line = ""  # start of the line, which tells code and tables from prose
        self._in_code = False

    def feed(self, text: str) -> str:
        out: list[str] = []
        for piece in _PIECES.findall(text):
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
