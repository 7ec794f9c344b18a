"""Parsing a line with tree-sitter-bash, with the checks that need no semantics."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from coder.policy.shell.lexer import Unsupported, marks_of
from coder.policy.shell.variables import reads_utf8
from coder.policy.shell.words import NotUnderstood

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_LINE_BYTES = 64 * 1024
_MAX_OPERATORS = 2000  # tree-sitter's time grows with their square
_MAX_WORDS = 5000  # ours does with theirs
_SHORT = 4000  # bytes; nothing shorter takes long
_NO_OPERATORS = frozenset({" ", "\n", "'", '"', "#", "<<", ">>"})
# The grammar's scanner indexes C tables by code point and crashes on some beyond ASCII (`{` and U+EAB86).
# To bash these are ordinary letters, so each of their bytes is parsed as a letter that no keyword has; texts
# are still taken from the original line.
_ASCII = bytes(range(128)) + b"X" * 128
# The grammar has no node for the `-` of `python - <<EOF`, either.
_LONE_DASH = rb"(?<=[ \t])-(?=[ \t]*<<)"
_WORD_ENDS = b" \t\n;&|()<>"
_REDIRECTS = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})
_COUNTED = frozenset(
    {"command", "declaration_command", "unset_command", "test_command", "command_substitution",
     "process_substitution"}
)  # fmt: skip


def parse(line: str) -> tuple[bytes, Node]:
    """The line's bytes and syntax tree; raises `NotUnderstood` on a syntax error."""
    data = _encoded(line)
    root = _parser().parse(re.sub(_LONE_DASH, b"X", data.translate(_ASCII))).root_node
    if root.has_error:
        raise NotUnderstood("policy.unread.incomplete")
    if root.end_byte < len(data.rstrip()) or data[: root.start_byte].strip():
        raise NotUnderstood("policy.unread.not_shell")
    return data, root


def check_size(line: str) -> None:
    """Bound the time that a hostile line takes: of a long one the second parser, which is linear, goes
    first."""
    if len(line) <= _SHORT or len(line) > MAX_LINE_BYTES:
        return
    try:
        marks = marks_of(line.encode("utf-8", errors="replace"))
    except (Unsupported, RecursionError):
        raise NotUnderstood("policy.unread.disagreed") from None
    operators = sum(kind not in _NO_OPERATORS for _, kind in marks)
    words = sum(kind == " " and (at - 1, " ") not in marks for at, kind in marks)
    if operators > _MAX_OPERATORS or words > _MAX_WORDS:
        raise NotUnderstood("policy.unread.many")


def count_commands(data: bytes, root: Node) -> int:
    """How many commands and substitutions the tree contains, at any depth; raises `NotUnderstood` where a
    redirection has another descriptor than for bash."""
    found = 0
    cursor = root.walk()
    while True:
        node = cursor.node
        if node is not None and node.is_named and node.type in _COUNTED:
            found += 1
        if node is not None and node.type in _REDIRECTS:
            _check_descriptor(data, node)
        if cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return found


def _check_descriptor(data: bytes, node: Node) -> None:
    """The tree takes all of `-o1` in `sort -o1>x` for a descriptor; for bash only digits are one."""
    first = node.children[0]
    named = first.type == "file_descriptor"
    start = end = first.end_byte if named else node.start_byte
    while start and data[start - 1] not in _WORD_ENDS:
        start -= 1
    if data[start:end].isdigit() != named or (named and start != node.start_byte):
        raise NotUnderstood("policy.unread.redirect")


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _encoded(line: str) -> bytes:
    """The bytes to parse, after the checks that need no tree."""
    try:
        data = line.encode("utf-8")
    except UnicodeEncodeError:
        raise NotUnderstood("policy.unread.not_utf8") from None
    if not line.isascii() and not reads_utf8():
        raise NotUnderstood("policy.unread.locale")
    if len(data) > MAX_LINE_BYTES:
        raise NotUnderstood("policy.unread.long")
    for char in line:
        # Other white space separates words for tree-sitter, not for bash.
        if (char < " " and char not in "\t\n") or char == "\x7f" or (char > "\x7f" and char.isspace()):
            raise NotUnderstood("policy.unread.control")
    at = line.find("\\\n")
    while at >= 0:
        # bash joins `r\<newline>m` to `rm`; tree-sitter sees two words. After a blank both agree, unless that
        # is escaped itself.
        if at and (line[at - 1] not in " \t\n" or line[max(at - 2, 0) : at] in ("\\ ", "\\\t")):
            raise NotUnderstood("policy.unread.broken_word")
        at = line.find("\\\n", at + 1)
    return data
