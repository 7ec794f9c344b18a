"""Shell words: what is certain of a word, and what it may expand to.

A word is either known exactly (unquoted and unescaped), or only by its prefix. No file system or environment
lookups: the result of an expansion is never guessed.
"""

from __future__ import annotations

import msgspec

from coder.texts import Fault


class NotUnderstood(Fault):
    """The line, or a part of it, cannot be parsed with certainty; `phrase` says what."""


class Word(msgspec.Struct, frozen=True):
    """One word of a command. `text` is its value if `exact`, else a prefix that is certain.

    `splits`: it may expand to any number of words, the later ones with any prefix. `shell_text`: as written.
    """

    text: str
    exact: bool = True
    splits: bool = False
    shell_text: str = ""
    braces: bool = False  # an unquoted brace, which may expand with its neighbours
    globs: bool = False  # an unquoted glob: as many words as files match, each with the prefix `text`

    @property
    def single(self) -> bool:
        """Whether this is exactly one word."""
        return not self.splits and not self.globs

    def maybe_option(self) -> bool:
        """Whether the program could parse this word as an option."""
        if self.exact:
            return self.text.startswith("-") and self.text != "-"
        return self.splits or not self.text or self.text.startswith("-")


UNKNOWN = Word(text="", exact=False, splits=True)

_QUOTING = frozenset("`'\"$()<>;&|")
_BLANK = frozenset(" \t\n")
_DOUBLE_QUOTE_ESCAPES = frozenset('$`"\\')
_EXPANSION_START = frozenset("({[@*#?$!-_'\"")
_ANSI_SIMPLE = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
    "v": "\v", "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip
_ANSI_HEX = {"x": 2, "u": 4, "U": 8}


def starts_expansion(char: str) -> bool:
    """Whether `$` followed by this character is an expansion."""
    return char in _EXPANSION_START or char.isalnum()


def bare_word(source: str) -> Word:
    """An unquoted word, unescaped; globs and braces make the rest inexact."""
    out: list[str] = []
    known = -1  # length of the prefix before the first glob
    open_brace = False
    i = 0
    while i < len(source):
        char = source[i]
        if char == "\\":
            i += 1
            if i >= len(source) or source[i] == "\n":
                raise NotUnderstood("policy.unread.backslash")
            out.append(source[i])
        elif char in _QUOTING or char in _BLANK:
            raise NotUnderstood("policy.unread.word_ends")
        else:
            if char in "*?[" and known < 0:
                known = len(out)
            open_brace = open_brace or char == "{"
            out.append(char)
        i += 1
    text = "".join(out)
    if open_brace and _may_expand(text):
        return Word("", exact=False, splits=True, shell_text=source, braces=True)
    if known >= 0:
        return Word(text[:known], exact=False, shell_text=source, braces=open_brace, globs=True)
    return Word(text, shell_text=source, braces=open_brace)


def _may_expand(text: str) -> bool:
    return "," in text or ".." in text


def single_quoted(source: str) -> Word:
    """`'…'`: literal."""
    if len(source) < 2 or source[0] != "'" or source[-1] != "'" or "'" in source[1:-1]:
        raise NotUnderstood("policy.unread.single_quoted")
    return Word(source[1:-1], shell_text=source)


def double_quoted_text(source: str) -> str:
    """Unescape literal text in double quotes or a here-document, where only some escapes count."""
    out: list[str] = []
    i = 0
    while i < len(source):
        char = source[i]
        following = source[i + 1] if i + 1 < len(source) else ""
        if char == "\\" and following == "\n":
            i += 1
        elif char == "\\" and following in _DOUBLE_QUOTE_ESCAPES and following:
            out.append(following)
            i += 1
        elif char == "`" or (char == "$" and following and starts_expansion(following)):
            raise NotUnderstood("policy.unread.expansion_in_text")
        else:
            out.append(char)
        i += 1
    return "".join(out)


def ansi_quoted(source: str) -> Word:
    """`$'…'`: C escapes decoded; one that is not certain makes the word unknown."""
    if not source.startswith("$'") or not source.endswith("'") or len(source) < 3:
        raise NotUnderstood("policy.unread.dollar_string")
    body = source[2:-1]
    unknown = Word("", exact=False, shell_text=source)
    out: list[str] = []
    i = 0
    while i < len(body):
        if body[i] == "'":
            raise NotUnderstood("policy.unread.dollar_string")
        if body[i] != "\\":
            out.append(body[i])
            i += 1
            continue
        decoded, i = _ansi_escape(body, i + 1)
        if decoded is None:
            return unknown
        out.append(decoded)
    return Word("".join(out), shell_text=source)


def _ansi_escape(body: str, at: int) -> tuple[str | None, int]:
    """Decode the escape at `at` (after its backslash); returns the character and the end position."""
    kind = body[at : at + 1]
    if kind in _ANSI_SIMPLE:
        return _ANSI_SIMPLE[kind], at + 1
    if kind in _ANSI_HEX:
        return _code_point(body, at + 1, 16, _ANSI_HEX[kind])
    if kind and kind in "01234567":
        return _code_point(body, at, 8, 3)
    return None, at + 1


def _code_point(body: str, at: int, base: int, most: int) -> tuple[str | None, int]:
    digits = "01234567" if base == 8 else "0123456789abcdefABCDEF"
    end = at
    while end < len(body) and end - at < most and body[end] in digits:
        end += 1
    value = int(body[at:end], base) if end > at else 0
    # NUL ends the string early in bash, and bytes beyond ASCII depend on the locale: both stay unknown.
    return (chr(value) if 0 < value < 128 else None), end


def joined(parts: list[Word], source: str) -> Word:
    """Concatenate adjacent pieces to one word."""
    together = "".join(part.text for part in parts)
    if any(part.braces for part in parts) and (
        _may_expand(together) or not all(part.exact for part in parts)
    ):
        return Word("", exact=False, splits=True, shell_text=source)
    text: list[str] = []
    for index, part in enumerate(parts):
        text.append(part.text)
        if not part.exact:
            rest = parts[index:]
            return Word(
                "".join(text),
                exact=False,
                splits=any(piece.splits for piece in rest),
                shell_text=source,
                globs=any(piece.globs for piece in rest),
            )
    return Word(together, shell_text=source)
