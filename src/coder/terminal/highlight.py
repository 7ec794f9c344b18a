"""Code in colours, by pygments; text that no lexer knows stays as it is."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from coder.terminal.width import TAB, Line

if TYPE_CHECKING:
    from pygments.lexer import Lexer
    from pygments.token import _TokenType

_ROLES = (
    ("Comment", "comment"),
    ("Keyword", "keyword"),
    ("Operator.Word", "keyword"),
    ("Literal.String", "string"),
    ("Literal.Number", "number"),
    ("Name.Function", "name"),
    ("Name.Class", "name"),
    ("Name.Decorator", "name"),
    ("Name.Tag", "name"),
    ("Name.Builtin", "number"),
    ("Generic.Inserted", "good"),
    ("Generic.Deleted", "bad"),
    ("Generic.Subheading", "hunk"),
)
LONGEST_LINE = 2000  # characters; a longer line is data, not code that someone reads


def code_lines(lines: list[str], language: str, before: list[str]) -> list[Line]:
    """One styled line for each of `lines`; `before` is what stands above them, so that a string or comment
    that began there keeps its colour."""
    lexer = _lexer(language.split()[0].strip("{}.").lower() if language.strip() else "")
    lines = [line.replace("\t", TAB) for line in lines]
    if lexer is None or any(len(line) > LONGEST_LINE for line in lines):
        return [[("", line)] if line else [] for line in lines]
    skip = len(before)
    out: list[Line] = [[]]
    for kind, value in lexer.get_tokens("\n".join([*before, *lines])):
        role = _role(kind)
        first, *others = value.split("\n")
        if first:
            out[-1].append((role, first))
        out += [[(role, piece)] if piece else [] for piece in others]
    return (out[skip:] + [[] for _ in lines])[: len(lines)]


@functools.cache
def _lexer(name: str) -> Lexer | None:
    if not name:
        return None
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


@functools.cache
def _role(kind: _TokenType) -> str:
    name = str(kind).removeprefix("Token.")
    return next((role for start, role in _ROLES if name.startswith(start)), "")
