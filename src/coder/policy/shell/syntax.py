"""Parsing a line with tree-sitter-bash, with the checks that need no semantics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from coder.policy.shell.lexer import Unsupported, marks_of
from coder.policy.shell.words import ShellParseError, reads_utf8

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
    """The line's bytes and syntax tree; raises `ShellParseError` on a syntax error."""
    data = _encoded(line)
    root = _parser().parse(re.sub(_LONE_DASH, b"X", data.translate(_ASCII))).root_node
    if root.has_error:
        raise ShellParseError(line)
    if root.end_byte < len(data.rstrip()) or data[: root.start_byte].strip():
        raise ShellParseError(line)
    return data, root


def check_size(line: str) -> None:
    """Bound the time that a hostile line takes: of a long one the second parser, which is linear, goes
    first."""
    if len(line) <= _SHORT or len(line) > MAX_LINE_BYTES:
        return
    try:
        marks = marks_of(line.encode("utf-8", errors="replace"))
    except (Unsupported, RecursionError):
        raise ShellParseError(key="ambiguous") from None
    operators = sum(kind not in _NO_OPERATORS for _, kind in marks)
    words = sum(kind == " " and (at - 1, " ") not in marks for at, kind in marks)
    if operators > _MAX_OPERATORS or words > _MAX_WORDS:
        raise ShellParseError(key="long")


def count_commands(data: bytes, root: Node) -> int:
    """How many commands and substitutions the tree contains, at any depth; raises `ShellParseError` where a
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
        raise ShellParseError(data[start : node.end_byte].decode())


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
        raise ShellParseError(key="bytes") from None
    if not line.isascii() and not reads_utf8():
        raise ShellParseError(key="bytes")
    if len(data) > MAX_LINE_BYTES:
        raise ShellParseError(key="long")
    for char in line:
        # Other white space separates words for tree-sitter, not for bash.
        if (char < " " and char not in "\t\n") or char == "\x7f" or (char > "\x7f" and char.isspace()):
            raise ShellParseError(key="bytes")
    at = line.find("\\\n")
    while at >= 0:
        # bash joins `r\<newline>m` to `rm`; tree-sitter sees two words. After a blank both agree, unless that
        # is escaped itself.
        if at and (line[at - 1] not in " \t\n" or line[max(at - 2, 0) : at] in ("\\ ", "\\\t")):
            raise ShellParseError(line[max(at - 10, 0) : at + 10])
        at = line.find("\\\n", at + 1)
    return data


_OPENING = frozenset({"$(", "`", "<(", ">(", "${", "$((", "$[", "((", '"'})
_COMMANDS = frozenset({"command_substitution", "process_substitution"})
_QUOTING = frozenset({"string", "heredoc_body", "expansion", "arithmetic_expansion", "simple_expansion"})
_MARKED_LEAVES = {"raw_string": "'", "ansi_c_string": "$'", "comment": "#"}
_PATTERNS = frozenset({"regex", "extglob_pattern"})
_OPERATORS = frozenset(b"();&|<>")


def tree_marks(data: bytes, root: Node) -> set[tuple[int, str]]:
    reader = _Marks(data)
    reader.inside(root, 0, len(data), plain=True)
    edges = {at for start, end in reader.heredocs for at in _edges(data, start, end)}
    found = {mark for mark in reader.marks if mark[1] not in " \n" or mark[0] not in edges}
    for start, end in reader.heredocs:
        found |= {(start, "<<"), (end, ">>")}
    return found


def _edges(data: bytes, start: int, end: int) -> Iterator[int]:
    """Positions before a here-document's text, and its delimiter's line with both newlines: blanks there
    separate nothing."""
    text = len(data) - len(data[start:].lstrip(b" \t\n"))
    yield from range(start - 1, text)
    yield from range(data.rfind(b"\n", 0, end), end + 1)


class _Marks:
    def __init__(self, data: bytes) -> None:
        self.marks: set[tuple[int, str]] = set()
        self.heredocs: list[tuple[int, int]] = []
        self._data = data

    def inside(self, node: Node, start: int, end: int, plain: bool) -> None:
        """Collect below `node`, which spans `start` to `end`. `plain`: operators and blanks count."""
        for child in node.children:
            self._gap(start, child.start_byte, plain)
            self._child(child, plain)
            start = child.end_byte
        self._gap(start, end, plain)

    def _child(self, node: Node, plain: bool) -> None:
        if node.type == "heredoc_redirect":
            self._heredoc(node)
        if not node.children:
            self._leaf(node, plain)
            return
        arithmetic = node.type == "compound_statement" and node.children[0].type == "(("
        within = node.type in _COMMANDS or (plain and not arithmetic and node.type not in _QUOTING)
        self.inside(node, node.start_byte, node.end_byte, within)

    def _leaf(self, node: Node, plain: bool) -> None:
        text = self._data[node.start_byte : node.end_byte]
        start = node.end_byte - len(text.lstrip())
        self._gap(node.start_byte, start, plain)
        if node.type in _MARKED_LEAVES:
            self.marks.add((start, _MARKED_LEAVES[node.type]))
        elif not node.is_named and node.type.strip() in _OPENING:
            self.marks.add((start, node.type.strip()))
        elif plain and (not node.is_named or node.type in _PATTERNS):
            self._operators(start, node.end_byte)

    def _operators(self, start: int, end: int) -> None:
        escaped = False
        for at in range(start, end):
            if self._data[at] in _OPERATORS and not escaped:
                self.marks.add((at, chr(self._data[at])))
            escaped = self._data[at] == ord("\\") and not escaped

    def _gap(self, start: int, end: int, plain: bool) -> None:
        """Between tokens: anything but blanks was skipped by the parser, and matches nothing."""
        at = start
        while plain and at < end:
            if self._data[at : at + 2] == b"\\\n":
                at += 2
                continue
            char = chr(self._data[at])
            self.marks.add((at, " " if char == "\t" else char if char in " \n" else "unread"))
            at += 1

    def _heredoc(self, node: Node) -> None:
        parts = {child.type: child for child in node.children}
        start, end = parts.get("heredoc_start"), parts.get("heredoc_end")
        if start is not None and end is not None:
            body = self._data.find(b"\n", start.end_byte) + 1
            self.heredocs.append((body, end.end_byte))
