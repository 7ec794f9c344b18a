"""JSONC (JSON with comments and trailing commas) with stable offsets.

Comments and trailing commas are blanked in place, so an offset in the plain JSON is an offset in the file:
errors name line and column, and a value can be replaced in place (`save`).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from coder.config import ConfigError, shown
from coder.texts import Phrase

MAX_DEPTH: Final = 100  # bounds recursion; far deeper than any setting
_BOM: Final = b"\xef\xbb\xbf"
# strings | line comments | block comments | punctuation | literals and numbers | anything else
_TOKEN: Final = (
    rb'"[^"\\]*(?:\\.[^"\\]*)*"?'
    rb"|//[^\r\n]*"
    rb"|/\*.*?(?:\*/|\Z)"
    rb"|[\[\]{},:]"
    rb'|[^\s\[\]{},:"/]+'
    rb"|/"
)


class JsoncFault(Exception):
    """Invalid JSONC; `offset` is in bytes."""

    def __init__(self, offset: int, what: Phrase | str) -> None:
        super().__init__(str(what))
        self.offset = offset
        self.what = what


def decode(data: bytes, file: str) -> Any:
    """The value of a JSONC text; `file` names it in errors. An empty text is `None`."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError("config.not_utf8", file=file, byte=error.start + 1) from None
    if not _may_be_deep(data):
        try:
            return msgspec.json.decode(data)
        except msgspec.DecodeError:
            pass  # comments, a BOM, or an error: the slow path decides
    try:
        plain = strip(data)
        return _decode_plain(plain) if plain.strip() else None
    except JsoncFault as fault:
        line, column = position(text, fault.offset)
        raise ConfigError("config.syntax", file=file, line=line, column=column, what=fault.what) from None


def strip(data: bytes) -> bytes:
    """Plain JSON of the same length: comments, trailing commas and a BOM become blanks."""
    import re

    plain = bytearray(data)
    if data.startswith(_BOM):
        plain[:3] = b"   "
    depth = 0
    before = last = b""  # the two newest tokens that are not comments
    last_at = 0
    for match in re.finditer(_TOKEN, bytes(plain), re.DOTALL):
        token = match[0]
        if token.startswith((b"//", b"/*")):
            _blank(plain, match.start(), token)
            continue
        if token in (b"{", b"["):
            depth += 1
            if depth > MAX_DEPTH:
                raise JsoncFault(match.start(), Phrase("config.syntax_deep", limit=MAX_DEPTH))
        elif token in (b"}", b"]"):
            depth -= 1
            # `[,]` and `[1,,]` stay as they are: those commas do not trail a value
            if last == b"," and before not in (b"", b",", b":", b"[", b"{"):
                plain[last_at : last_at + 1] = b" "
        before, last, last_at = last, token, match.start()
    return bytes(plain)


def position(text: str, offset: int) -> tuple[int, int]:
    """Line and column (both from 1, in characters) of a byte offset in a UTF-8 text."""
    before = text.encode("utf-8")[:offset].decode("utf-8", errors="ignore").removeprefix("\ufeff")
    line_start = before.rfind("\n") + 1
    return before.count("\n") + 1, len(before) - line_start + 1


def _may_be_deep(data: bytes) -> bool:
    return data.count(b"{") + data.count(b"[") > MAX_DEPTH


def _blank(plain: bytearray, start: int, comment: bytes) -> None:
    if comment.startswith(b"/*") and (len(comment) < 4 or not comment.endswith(b"*/")):
        raise JsoncFault(start, Phrase("config.syntax_comment"))
    # Keep line breaks, so that the parser's line numbers match
    plain[start : start + len(comment)] = bytes(c if c in b"\r\n" else 0x20 for c in comment)


def _decode_plain(plain: bytes) -> Any:
    try:
        return msgspec.json.decode(plain)
    except msgspec.DecodeError:
        raise _fault(plain) from None


def _fault(plain: bytes) -> JsoncFault:
    """The error by the standard library, whose position and message are better than msgspec's."""
    import json

    text = plain.decode("utf-8")
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        what = shown(error.msg[:1].lower() + error.msg[1:])
        return JsoncFault(len(text[: error.pos].encode("utf-8")), what)
    except (ValueError, RecursionError):
        pass
    return JsoncFault(0, Phrase("config.syntax_rejected"))
