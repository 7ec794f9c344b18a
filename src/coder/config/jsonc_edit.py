"""Edit one value in a JSONC text by offset, keeping every other byte."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from coder.config.jsonc import strip

_TOKEN: Final = rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},:]|[^\s\[\]{},:"]+'


class Member(msgspec.Struct, frozen=True):
    """A member of an object, with byte offsets of key and value."""

    key: str
    start: int
    end: int
    key_start: int


def with_member(data: bytes, path: tuple[str, ...], value: bytes) -> bytes | None:
    """Set the JSON `value` at `path`. `data` must be valid JSONC.

    `None` where something on the path is not an object.
    """
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
    """Remove the member at `path`, with its comma and, where they hold nothing else, its lines.

    `None` where it is absent. `data` must be valid JSONC.
    """
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
    for match in re.compile(_TOKEN, re.DOTALL).finditer(plain, start):
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
