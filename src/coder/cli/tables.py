"""Rows in columns, on a terminal where a Chinese character takes two."""

from __future__ import annotations

from collections.abc import Sequence

from coder.terminal.render.width import text_width


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line for each row; every column but the last is as wide as its widest cell."""
    widths = [max(text_width(cell) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(map(_padded, row, widths)).rstrip() for row in rows]


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - text_width(cell))
