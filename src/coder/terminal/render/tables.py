"""Renders tables: columns as wide as their cells, else narrowed and wrapped between words; if that does not
fit either, each row is stacked as `head: cell` lines."""

from __future__ import annotations

import re

import msgspec

from coder.terminal.render.width import Line, Span, line_width, plain, words_of, wrap

_GAP = " │ "
_LEAST = 4  # columns that a cell keeps, whatever the terminal's width
_TALLEST = 3  # rows of a cell: narrow columns of more are harder to read than a block
_LONGEST_WORD = 24  # columns: longer words (URLs, paths) are broken where they must
_PIPE = re.compile(r"(?<!\\)\|")


class Shape(msgspec.Struct, frozen=True):
    """Column widths and alignments ("<", "^", ">") of a table. Without widths the rows are stacked, labelled
    by `head`."""

    columns: tuple[int, ...]
    aligned: tuple[str, ...]
    head: tuple[tuple[Span, ...], ...]
    width: int


def cells_of(line: str) -> list[str]:
    """The texts between the bars of a row; an escaped bar is text."""
    text = line.strip().removeprefix("|")
    if text.endswith("|") and not text.endswith("\\|"):
        text = text[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _PIPE.split(text)]


def shape_of(cells: list[list[Line]], ruler: list[str], width: int) -> Shape | None:
    """From the head, the delimiter row (`ruler`) and the rows so far; None if this is no table."""
    head, _, *rows = cells
    if len(head) != len(ruler):
        return None
    aligned = [("^" if mark[0] == ":" else ">") if mark[-1:] == ":" else "<" for mark in ruler]
    columns = fitted([head, *(_even(row, len(head)) for row in rows)], width)
    stacked = Shape((), tuple(aligned), tuple(map(tuple, head)), width)
    if sum(columns) + len(_GAP) * (len(columns) - 1) > width:
        return stacked
    table = msgspec.structs.replace(stacked, columns=tuple(columns))
    heights = [len(table_rows([row], table, head=False)) for row in rows]
    return stacked if max(heights, default=0) > _TALLEST else table


def fitted(cells: list[list[Line]], width: int) -> list[int]:
    """The width of each column: its widest cell, the widest columns narrowed until all fit, but none so far
    that a word would be broken."""
    count = max((len(row) for row in cells), default=0)
    columns = [[row[at] for row in cells if at < len(row)] for at in range(count)]
    wanted = [max(1, *map(line_width, column)) for column in columns]
    room = width - len(_GAP) * (count - 1)
    if sum(wanted) <= room:
        return wanted
    least = [max(_LEAST, *map(_longest_word, column)) for column in columns]
    while sum(wanted) > room:
        wide = [at for at in range(count) if wanted[at] > least[at]]
        if not wide:
            break
        wanted[max(wide, key=wanted.__getitem__)] -= 1
    return wanted


def _longest_word(cell: Line) -> int:
    """The columns that no line break may divide."""
    words = [line_width(word) for word in words_of(cell)]
    return max((size for size in words if size <= _LONGEST_WORD), default=0)


def table_rows(cells: list[list[Line]], shape: Shape, *, head: bool) -> list[Line]:
    """The rows; `head` says whether the first of `cells` is the table's head."""
    count = len(shape.head)
    even = [_even(row, count) for row in cells]
    if not shape.columns:
        return [line for row in even[head:] for line in _stacked(row, shape)]
    rows: list[Line] = []
    if head:
        rows += _row([[(f"strong {s}".rstrip(), t) for s, t in cell] for cell in even[0]], shape)
        rows.append([("dim", "─┼─".join("─" * size for size in shape.columns))])
    for row in even[head:]:
        rows += _row(row, shape)
    return rows


def _even(cells: list[Line], count: int) -> list[Line]:
    """Pad to the head's number of cells; join surplus cells to the last one."""
    if len(cells) <= count:
        return cells + [[] for _ in range(count - len(cells))]
    rest = [span for cell in cells[count:] for span in (("dim", _GAP), *cell)]
    return [*cells[: count - 1], [*cells[count - 1], *rest]]


def _row(cells: list[Line], shape: Shape) -> list[Line]:
    wrapped = [wrap(cell, size) for cell, size in zip(cells, shape.columns, strict=True)]
    rows: list[Line] = []
    for level in range(max(map(len, wrapped), default=0)):
        row: Line = []
        for at, (cell, size) in enumerate(zip(wrapped, shape.columns, strict=True)):
            part = cell[level] if level < len(cell) else []
            last = at == len(shape.columns) - 1
            before, after = _padding(size - line_width(part), shape.aligned[at])
            row += [("", before), *part]
            row += [] if last else [("", after), ("dim", _GAP)]
        rows.append([span for span in row if span[1]])
    return rows


def _padding(room: int, align: str) -> tuple[str, str]:
    before = {"<": 0, "^": room // 2, ">": room}[align]
    return " " * before, " " * (room - before)


def _stacked(cells: list[Line], shape: Shape) -> list[Line]:
    """A row of a too wide table: `head: cell` lines."""
    rows: list[Line] = []
    for name, cell in zip(shape.head, cells, strict=True):
        if plain(cell):
            label: Line = [(f"strong {style}".rstrip(), text) for style, text in name]
            rows += wrap([*label, ("dim", ": "), *cell], shape.width, rest=[("", "  ")])
    return [*rows, [("dim", "─" * min(shape.width, 20))]]
