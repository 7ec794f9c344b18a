"""The tokens that the syntax tree has seen, in the terms of the second parser (`lexer`), for comparison."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

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
    separate nothing.
    """
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
