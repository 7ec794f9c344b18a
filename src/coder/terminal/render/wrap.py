"""Text that is written as it comes, broken between words: for output that is never drawn again.

A word is held back until its end is known, or no row could hold it. Code and tables are left to the terminal
to break, which gives their lines back in one piece when they are copied.
"""

from __future__ import annotations

import re

from coder.terminal.render.width import cjk_parts, text_width

_PIECES = re.compile(r"\n|[ \t]+|[^\s]+|[^\S \t\n]+")
_FENCES = ("```", "~~~")
_ROWS_HELD = 4  # of one word: more characters than columns of one row, also where some of them take none


class WordWrapper:
    """`feed` pieces as they come, `finish` at the end; both answer what to write now."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._column = 0
        self._spaces = ""  # written only if something follows them on the row
        self._word = ""
        self._goes_on = ""  # the last character of a word that was written before its end
        self._line = ""  # how the line began, as far as that decides how it is broken
        self._in_code = False

    def feed(self, text: str) -> str:
        out: list[str] = []
        for piece in _PIECES.findall(text):
            if piece == "\n":
                out += [self._ended_word(), "\n"]
                self._column, self._spaces, self._line = 0, "", ""
            elif piece.isspace():
                out.append(self._ended_word())
                self._spaces += piece
            else:
                self._word += piece
                out.append(self._known_part())
        return "".join(out)

    def finish(self) -> str:
        return self._ended_word()

    def _known_part(self) -> str:
        """Chinese has no spaces: all but the last of what may not be broken."""
        out = self._went_on() if self._goes_on else ""
        if not self._word.isascii():
            *known, self._word = cjk_parts(self._word)
            out += "".join(map(self._placed, known))
        if len(self._word) > _ROWS_HELD * self._width:
            last = self._word[-1]
            out += self._ended_word()
            self._goes_on = last
        return out

    def _went_on(self) -> str:
        """More of a word that no row holds, up to where it may be broken after all."""
        text = self._goes_on + self._word
        first, *rest = [text] if text.isascii() else cjk_parts(text)
        self._word = "".join(rest)
        more, self._goes_on = first[1:], "" if rest else first[-1]
        self._column += text_width(more)
        return more

    def _ended_word(self) -> str:
        word, self._word, self._goes_on = self._word, "", ""
        return self._placed(word) if word else ""

    def _placed(self, part: str) -> str:
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
