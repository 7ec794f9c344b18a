"""Verifies here-document boundaries in the syntax tree by bash's own rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.policy.shell.words import NotUnderstood

if TYPE_CHECKING:
    from tree_sitter import Node


def check_heredoc(node: Node, data: bytes) -> None:
    """Raise unless delimiter, body and end of this here-document are unambiguous."""
    parts = {child.type: child for child in node.children}
    start, end = parts.get("heredoc_start"), parts.get("heredoc_end")
    if start is None or end is None:
        raise NotUnderstood("policy.unread.heredoc_endless")
    delimiter, raw = _delimiter(_text(start, data))
    strip_tabs = "<<-" in parts
    lines = data.decode().split("\n")
    # bash reads the body from the line after the operator; row numbers do not depend on the tree's extent.
    first, last = start.end_point[0] + 1, end.start_point[0]
    if start.start_point[0] != node.start_point[0] or last < first or last >= len(lines):
        raise NotUnderstood("policy.unread.heredoc")
    body = [line.lstrip("\t") if strip_tabs else line for line in lines[first : last + 1]]
    if body[-1] != delimiter or delimiter in body[:-1]:
        raise NotUnderstood("policy.unread.heredoc_elsewhere")
    for child in node.children:
        if child.type not in ("heredoc_body", "heredoc_end") and child.end_point[0] != first - 1:
            raise NotUnderstood("policy.unread.heredoc_lines")
    found = parts.get("heredoc_body")
    if raw and found is not None and found.children:
        raise NotUnderstood("policy.unread.heredoc")
    text = "\n".join(body[:-1])
    if not raw and found is None and ("$" in text or "`" in text):
        raise NotUnderstood("policy.unread.heredoc")
    if not raw and any(line.endswith("\\") for line in body):
        raise NotUnderstood("policy.unread.heredoc_joined")
    if not raw and found is not None and not found.children and ("$" in text or "`" in text):
        raise NotUnderstood("policy.unread.heredoc_expansion")


def _delimiter(text: str) -> tuple[str, bool]:
    """The delimiter without quotes, and whether it was quoted (no expansion in the body)."""
    for quote in ("'", '"'):
        if len(text) > 2 and text.startswith(quote) and text.endswith(quote):
            return _plain(text[1:-1]), True
    if text.startswith("\\"):
        return _plain(text[1:]), True
    return _plain(text), False


def _plain(name: str) -> str:
    if not name.replace("_", "a").replace("-", "a").isalnum() or not name.isascii():
        raise NotUnderstood("policy.unread.heredoc_delimiter")
    return name


def _text(node: Node, data: bytes) -> str:
    return data[node.start_byte : node.end_byte].decode()
