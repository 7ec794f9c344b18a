"""A lenient JSON parser for model output that accepts only unambiguous input.

Accepted: trailing commas, single quotes, bare keys, Python's True/False/None, raw line breaks and control
characters in strings, invalid escapes, Python's triple quotes, closing brackets missing at the very end.
Rejected: anything that needs guessing, such as an unterminated string.
"""

from __future__ import annotations

import re
from typing import Any

_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORD = re.compile(r"[A-Za-z_$][\w$-]*")
_WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_ESCAPES = {'"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_SPACE = " \t\r\n"
_DEPTH = 60


class NotReadable(ValueError):
    """A parse error at offset `at`; `at_end`: the text ended too early."""

    def __init__(self, what: str, at: int, *, at_end: bool = False) -> None:
        super().__init__(what)
        self.what = what
        self.at = at
        self.at_end = at_end


def read_lenient(text: str, at: int = 0, *, open_number: bool = False) -> tuple[Any, int]:
    """The value at offset `at`, and its end; raises `NotReadable`. `open_number`: the text may end in a
    number, which might be truncated."""
    reader = _Reader(text, at, open_number)
    value = reader.value(0)
    reader.space()
    return value, reader.at


class _Reader:
    def __init__(self, text: str, at: int, open_number: bool) -> None:
        self.text = text
        self.at = at
        self._open_number = open_number

    def space(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in _SPACE:
            self.at += 1

    def peek(self) -> str:
        self.space()
        return self.text[self.at : self.at + 1]

    def value(self, depth: int) -> Any:
        if depth > _DEPTH:
            raise NotReadable("nesting too deep", self.at)
        first = self.peek()
        if first == "{":
            return self._object(depth)
        if first == "[":
            return self._array(depth)
        if first in ('"', "'"):
            return self._string(first)
        if not first:
            raise NotReadable("a value is missing", self.at, at_end=True)
        return self._word() if first.isalpha() else self._number()

    def _object(self, depth: int) -> dict[str, Any]:
        self.at += 1
        found: dict[str, Any] = {}
        while True:
            first = self.peek()
            if first == "}":
                self.at += 1
                return found
            key = self._key(first)
            if self.peek() != ":":
                raise NotReadable(f"':' expected after the key {key!r}", self.at, at_end=not self.peek())
            self.at += 1
            found[key] = self.value(depth + 1)
            if self._last_of("}"):
                return found

    def _key(self, first: str) -> str:
        if first in ('"', "'") and first:
            return self._string(first)
        word = _WORD.match(self.text, self.at)
        if word is None:
            raise NotReadable("a key in double quotes expected", self.at, at_end=not first)
        self.at = word.end()
        return word.group()

    def _array(self, depth: int) -> list[Any]:
        self.at += 1
        found: list[Any] = []
        while True:
            if self.peek() == "]":
                self.at += 1
                return found
            found.append(self.value(depth + 1))
            if self._last_of("]"):
                return found

    def _last_of(self, closer: str) -> bool:
        """Consume the comma (False) or the closing bracket (True) after a member."""
        follows = self.peek()
        if follows == ",":
            self.at += 1
            return False
        if follows == closer:
            self.at += 1
            return True
        if not follows:
            # `12` may be a truncated `120`.
            if not self._open_number and self.text.rstrip(_SPACE)[-1:].isdigit():
                raise NotReadable("a closing bracket is missing", self.at, at_end=True)
            return True
        raise NotReadable(f"',' or '{closer}' expected, or a quote that is not escaped", self.at)

    def _string(self, quote: str) -> str:
        if self.text.startswith(quote * 3, self.at):
            return self._triple_quoted(quote * 3)
        start = self.at
        self.at += 1
        parts: list[str] = []
        while True:
            end = _next_of(self.text, self.at, quote)
            if end < 0:
                raise NotReadable("a string has no end", start, at_end=True)
            parts.append(self.text[self.at : end])
            self.at = end + 1
            if self.text[end] == quote:
                return "".join(parts)
            parts.append(self._escape())

    def _triple_quoted(self, marks: str) -> str:
        """No JSON begins with three quotes. A multi-line text is taken literally: a `\\n` in it is the
        code's."""
        start = self.at
        end = self.text.find(marks, start + 3)
        if end < 0:
            raise NotReadable("a string has no end", start, at_end=True)
        while self.text.startswith(marks[0], end + 3):  # the text itself ends with a quote
            end += 1
        text = self.text[start + 3 : end]
        self.at = end + 3
        if "\n" in text:
            return text
        return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[0]), text)

    def _escape(self) -> str:
        code = self.text[self.at : self.at + 1]
        if code == "u":
            return self._unicode()
        self.at += 1
        # `\d` is no JSON escape: taken literally.
        return _ESCAPES.get(code, "\\" + code)

    def _unicode(self) -> str:
        unit = self._hex()
        if 0xD800 <= unit < 0xDC00 and self.text[self.at : self.at + 2] == "\\u":
            self.at += 1
            low = self._hex()
            if 0xDC00 <= low < 0xE000:
                return chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00))
            raise NotReadable("half of a surrogate pair", self.at)
        if 0xD800 <= unit < 0xE000:
            raise NotReadable("half of a surrogate pair", self.at)
        return chr(unit)

    def _hex(self) -> int:
        digits = self.text[self.at + 1 : self.at + 5]
        if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
            raise NotReadable("\\u without four digits", self.at)
        self.at += 5
        return int(digits, 16)

    def _word(self) -> Any:
        word = _WORD.match(self.text, self.at)
        if word is None or word.group() not in _WORDS:
            raise NotReadable("a value expected (a text needs double quotes)", self.at)
        self.at = word.end()
        return _WORDS[word.group()]

    def _number(self) -> Any:
        number = _NUMBER.match(self.text, self.at)
        if number is None or len(number.group()) > 400:
            raise NotReadable("a value expected (a text needs double quotes)", self.at)
        self.at = number.end()
        text = number.group()
        return int(text) if text.lstrip("-").isdigit() else float(text)


def _next_of(text: str, at: int, quote: str) -> int:
    """The next quote or backslash."""
    end, slash = text.find(quote, at), text.find("\\", at)
    if end < 0 or slash < 0:
        return max(end, slash)
    return min(end, slash)
