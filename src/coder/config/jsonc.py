"""JSONC (JSON with comments and trailing commas) with stable offsets.

Comments and trailing commas are blanked in place, so an offset in the plain JSON is an offset in the file:
errors name line and column, and a value can be replaced in place (`save`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from coder.base.text import shown
from coder.config import ConfigError
from coder.texts import Text

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


class JsoncError(Exception):
    """Invalid JSONC; `offset` is in bytes."""

    def __init__(self, offset: int, what: Text | str) -> None:
        super().__init__(str(what))
        self.offset = offset
        self.what = what


def decode_jsonc(data: bytes, file: str) -> Any:
    """The value of a JSONC text; `file` names it in errors. An empty text is `None`."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError("config.not_utf8", file=file, byte=error.start + 1) from None
    if data.count(b"{") + data.count(b"[") <= MAX_DEPTH:
        try:
            return msgspec.json.decode(data)
        except msgspec.DecodeError:
            pass  # comments, a BOM, or an error: the slow path decides
    try:
        plain = strip(data)
        try:
            return msgspec.json.decode(plain) if plain.strip() else None
        except msgspec.DecodeError:
            raise _fault(plain) from None
    except JsoncError as error:
        line, column = position(text, error.offset)
        raise ConfigError("config.syntax", file=file, line=line, column=column, what=error.what) from None


def strip(data: bytes) -> bytes:
    """Plain JSON of the same length: comments, trailing commas and a BOM become blanks."""
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
                raise JsoncError(match.start(), Text("config.syntax_deep", limit=MAX_DEPTH))
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


def _blank(plain: bytearray, start: int, comment: bytes) -> None:
    if comment.startswith(b"/*") and (len(comment) < 4 or not comment.endswith(b"*/")):
        raise JsoncError(start, Text("config.syntax_comment"))
    # Keep line breaks, so that the parser's line numbers match
    plain[start : start + len(comment)] = bytes(c if c in b"\r\n" else 0x20 for c in comment)


def _fault(plain: bytes) -> JsoncError:
    """The error by the standard library, whose position and message are better than msgspec's."""
    text = plain.decode("utf-8")
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        what = shown(error.msg[:1].lower() + error.msg[1:])
        return JsoncError(len(text[: error.pos].encode("utf-8")), what)
    except (ValueError, RecursionError):
        pass
    return JsoncError(0, Text("config.syntax_rejected"))


_EDIT_TOKEN: Final = rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},:]|[^\s\[\]{},:"]+'


class Member(msgspec.Struct, frozen=True):
    """A member of an object, with byte offsets of key and value."""

    key: str
    start: int
    end: int
    key_start: int


def with_member(data: bytes, path: tuple[str, ...], value: bytes) -> bytes | None:
    """Set the JSON `value` at `path` in valid JSONC; None if something on the path is not an object."""
    plain = strip(data)
    start = _first_token(plain, 0)
    for depth, name in enumerate(path):
        if plain[start : start + 1] != b"{":
            return None
        # The last of duplicate keys counts
        found = [member for member in members(plain, start) if member.key == name]
        if not found:
            return _inserted(data, plain, start, path[depth:], value)
        start, end = found[-1].start, found[-1].end
    return data[:start] + value + data[end:]


def without_member(data: bytes, path: tuple[str, ...]) -> bytes | None:
    """Remove the member at `path` from valid JSONC, with its comma and lines; None if absent."""
    plain = strip(data)
    start = _first_token(plain, 0)
    for depth, name in enumerate(path):
        found = list(members(plain, start)) if plain[start : start + 1] == b"{" else []
        named = [at for at, member in enumerate(found) if member.key == name]
        if not named:
            return None
        if depth < len(path) - 1:
            start = found[named[-1]].start
            continue
        for at in reversed(named):  # duplicate keys too
            data = _cut(data, plain, found, at)
            plain = strip(data)
    return data


def _cut(data: bytes, plain: bytes, found: list[Member], at: int) -> bytes:
    member = found[at]
    after = _first_token(plain, member.end)
    if plain[after : after + 1] == b",":
        whole = _without_lines(data, member.key_start, after + 1)
        return whole or data[: member.key_start] + data[after + 1 :].lstrip(b" ")
    if at == 0:
        whole = _without_lines(data, member.key_start, member.end)
        return whole or data[: member.key_start].rstrip(b" \t") + data[member.end :]
    comma = found[at - 1].end + plain[found[at - 1].end :].index(b",")
    between = data[comma + 1 : member.key_start]
    # Keep a comment with its newline, or it would swallow what follows.
    return data[:comma] + (between.rstrip(b" \t") if between.strip() else b"") + data[member.end :]


def _without_lines(data: bytes, start: int, end: int) -> bytes | None:
    """Without the lines of this part; `None` where they hold anything else."""
    line, newline = data.rfind(b"\n", 0, start) + 1, data.find(b"\n", end)
    if newline < 0 or data[line:start].strip() or data[end:newline].strip():
        return None
    return data[:line] + data[newline + 1 :]


def members(plain: bytes, start: int) -> Iterator[Member]:
    """The members of the object that begins at `start` in plain JSON."""
    depth = 0
    key: str | None = None
    key_start = value_start = -1
    end = start
    for match in re.compile(_EDIT_TOKEN, re.DOTALL).finditer(plain, start):
        token = match[0]
        closes = token in (b"}", b"]")
        if depth == 1 and key is not None and (token == b"," or closes):
            yield Member(key=key, start=value_start, end=end, key_start=key_start)
            key, value_start = None, -1
        elif depth == 1 and key is None and token.startswith(b'"'):
            key = msgspec.json.decode(token, type=str)
            key_start = match.start()
        elif depth == 1 and token != b":" and value_start < 0:
            value_start = match.start()
        depth += (token in (b"{", b"[")) - closes
        end = match.end()
        if depth == 0:
            return


def key_lines(data: bytes) -> dict[str, int]:
    """The line of each key of a valid JSONC text, by its dotted path."""
    plain = strip(data)
    lines: dict[str, int] = {}

    def walk(start: int, section: str) -> None:
        for member in members(plain, start) if plain[start : start + 1] == b"{" else ():
            lines[f"{section}{member.key}"] = plain.count(b"\n", 0, member.key_start) + 1
            walk(member.start, f"{section}{member.key}.")

    walk(_first_token(plain, 0), "")
    return lines


def _inserted(data: bytes, plain: bytes, start: int, names: tuple[str, ...], value: bytes) -> bytes:
    """Insert `names` as the first member of the object at `start`, in the existing style."""
    text = _member_text(names, value)
    first = _first_token(plain, start + 1)
    empty = plain[first : first + 1] == b"}"
    if b"\n" in data[start:first]:
        return _on_own_line(data, start, first, text, b"" if empty else b",")
    if not empty:
        return data[:first] + text + b", " + data[first:]
    if start == _first_token(plain, 0):
        return data[: start + 1] + b"\n  " + text + b"\n" + data[first:]
    return data[:first] + text + data[first:]


def _on_own_line(data: bytes, start: int, first: int, text: bytes, comma: bytes) -> bytes:
    line_end = data.index(b"\n", start)
    newline = b"\r\n" if data[line_end - 1 : line_end] == b"\r" else b"\n"
    indent = _indent_at(data, first) + (b"" if comma else b"  ")
    if data[start + 1 : line_end].lstrip().startswith(b"//"):  # a comment on the opening line stays there
        return data[: line_end + 1] + indent + text + comma + newline + data[line_end + 1 :]
    return data[: start + 1] + newline + indent + text + comma + data[start + 1 :]


def _member_text(names: tuple[str, ...], value: bytes) -> bytes:
    for depth, name in enumerate(reversed(names)):
        value = msgspec.json.encode(name) + b": " + (b"{" + value + b"}" if depth else value)
    return value


def _first_token(plain: bytes, start: int) -> int:
    return len(plain) - len(plain[start:].lstrip(b" \t\r\n"))


def _indent_at(data: bytes, offset: int) -> bytes:
    """The indentation of an offset's line."""
    line = data[data.rfind(b"\n", 0, offset) + 1 : offset]
    return line[: len(line) - len(line.lstrip(b" \t"))]
