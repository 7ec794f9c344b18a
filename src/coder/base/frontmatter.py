"""The YAML frontmatter of a skill or a mode, as a tree with line numbers.

Headers of `key: value` lines are parsed here; others by the YAML library, which takes 20 ms to import.
"""

from __future__ import annotations

import msgspec

from coder import base
from coder.texts import CoderError

MAX_HEADER = 65_536  # characters
FIRST_LINE = 2  # of the header, after the `---`
_FENCE = "---"
_ENDS = (_FENCE, "...")
# Characters that start a YAML value other than plain text.
_SPECIAL_STARTS = frozenset("[]{}>|&*!%@`\"'#-?:,~=<\\")


class HeadFault(CoderError):
    """An error in a header, and its line in the file."""

    def __init__(self, key: str, /, *, line: int = 1, **values: object) -> None:
        super().__init__(key, **values)
        self.line = line


class Node(msgspec.Struct, frozen=True, gc=False):
    """A value and its line. `plain`: an unquoted scalar, so `null` means none."""

    line: int
    value: str | list[Node] | dict[str, Node]
    plain: bool = False

    @property
    def absent(self) -> bool:
        return self.plain and self.value in ("", "~", "null", "Null", "NULL")


def split(text: str) -> tuple[str | None, str, int]:
    """Header (or None), body, and the body's first line number."""
    first, newline, _ = text.partition("\n")
    if first.rstrip(" \t") != _FENCE:
        return None, text, 1
    start = at = len(first) + 1
    while newline and at <= len(text):
        end = text.find("\n", at)
        line = text[at:] if end < 0 else text[at:end]
        if line.rstrip(" \t") in _ENDS:
            header = text[start:at]
            if len(header) > MAX_HEADER:
                break
            body = "" if end < 0 else text[end + 1 :]
            return header, body, FIRST_LINE + header.count("\n") + 1
        if end < 0:
            break
        at = end + 1
    if len(text) - start > MAX_HEADER:
        raise HeadFault("modes.header_long", limit=MAX_HEADER)
    raise HeadFault("modes.header_open")


def read_header(header: str) -> dict[str, Node]:
    """The fields in order. Raises `HeadFault`."""
    simple = read_simply(header)
    if simple is not None:
        return simple

    return base.frontmatter_yaml.read_with_yaml(header)


def read_simply(header: str) -> dict[str, Node] | None:
    """The fields of a header of only `key: value` lines; None for anything else."""
    fields: dict[str, Node] = {}
    for number, line in enumerate(header.split("\n"), FIRST_LINE):
        if not line.strip(" ") or line.startswith("#"):
            continue
        key, colon, rest = line.partition(":")
        if not colon or not _is_key(key) or key in fields:
            return None
        node = _value(number, rest)
        if node is None:
            return None
        fields[key] = node
    return fields


def _is_key(text: str) -> bool:
    return text.isascii() and text[:1].isalpha() and text.replace("-", "").replace("_", "").isalnum()


def _value(number: int, rest: str) -> Node | None:
    value = rest.strip(" ")
    if not value or rest[0] != " " or not value.isprintable():
        return None
    quote = value[0]
    if quote in "\"'":
        inner = value[1:-1]
        whole = len(value) > 1 and value[-1] == quote and quote not in inner and "\\" not in inner
        return Node(number, inner) if whole else None
    # A colon inside a plain value is invalid YAML, but common and accepted by all readers of skills.
    if quote in _SPECIAL_STARTS or " #" in value or value.endswith(":"):
        return None
    return Node(number, value, plain=True)
