"""Aligns columns by display width (CJK is two cells wide)."""

from __future__ import annotations

from collections.abc import Sequence

from coder.terminal.render.width import text_width


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """One line per row; columns are padded to their widest cell."""
    widths = [max(text_width(cell) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(map(_padded, row, widths)).rstrip() for row in rows]


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - text_width(cell))
