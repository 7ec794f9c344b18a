"""Helpers for strings."""

from __future__ import annotations

import re
from typing import Final

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def shortened(text: str, limit: int) -> str:
    """Truncate to `limit` characters, with a `…`."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def one_line(text: str, limit: int) -> str:
    return shortened(" ".join(text.split(maxsplit=limit)), limit)  # more words than characters never show


_ESCAPED: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}


def quoted_name(name: str) -> str:
    """A file name on one line, quoted as git does where it holds controls, `"` or `\\`."""
    escaped = "".join(_ESCAPED.get(c) or (f"\\{ord(c):03o}" if c < " " or c == "\x7f" else c) for c in name)
    return name if escaped == name else f'"{escaped}"'


def head_and_tail(text: str, limit: int) -> str:
    """Truncate in the middle to about `limit` characters, saying how many are missing."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"


def common_ends(old: str | list[str], new: str | list[str]) -> tuple[int, int]:
    """How much two sequences share at the start, and then at the end."""
    limit = min(len(old), len(new))
    head = 0
    while head < limit and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < limit - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return head, tail


def split_lines(text: str) -> list[str]:
    """Lines with their `\n`, split at nothing else (`splitlines` also splits at form feeds and such)."""
    pieces = text.split("\n")
    lines = [piece + "\n" for piece in pieces[:-1]]
    return [*lines, pieces[-1]] if pieces[-1] else lines


def shown(text: str) -> str:
    """Sanitize text for the terminal: control characters are escaped."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def double_quoted(value: str) -> str:
    """Quote a value so that `bind` reads it back, never as a shortcut."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def utf8_safe(text: str) -> str:
    """Undecodable bytes as \\xNN, lone surrogates as \\uNNNN: wire and record take valid UTF-8 only."""
    return _SURROGATE.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"
