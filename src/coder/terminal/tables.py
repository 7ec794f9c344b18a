"""Tables as rows of text: columns as wide as their cells where that fits, else narrowed and wrapped."""

from __future__ import annotations

from coder.terminal.width import Line, line_width, wrap

_GAP = " │ "
_LEAST = 4  # columns that a cell keeps, whatever the terminal's width


def fitted(cells: list[list[Line]], width: int) -> list[int]:
    """The width of each column: its widest cell, the widest columns narrowed until all fit."""
    count = max((len(row) for row in cells), default=0)
    wanted = [max((line_width(row[at]) for row in cells if at < len(row)), default=0) for at in range(count)]
    wanted = [max(1, size) for size in wanted]
    room = width - len(_GAP) * (count - 1)
    while sum(wanted) > room:
        widest = max(range(count), key=wanted.__getitem__)
        if wanted[widest] <= _LEAST:
            break
        wanted[widest] -= 1
    return wanted


def grid(cells: list[list[Line]], columns: list[int], *, head: bool) -> list[Line]:
    """The rows; without `head` the first row of cells (the table's head, shown earlier) is left out."""
    rows: list[Line] = []
    for at, row in enumerate(cells):
        if at == 0:
            if head:
                rows += _row([[(f"strong {s}".rstrip(), t) for s, t in cell] for cell in row], columns)
                rows.append([("dim", "─┼─".join("─" * size for size in columns))])
            continue
        rows += _row(row, columns)
    return rows


def _row(cells: list[Line], columns: list[int]) -> list[Line]:
    wrapped = [wrap(cell, size) for cell, size in zip(cells, columns, strict=False)]
    wrapped += [[[]] for _ in columns[len(wrapped) :]]
    rows: list[Line] = []
    for level in range(max(map(len, wrapped), default=0)):
        row: Line = []
        for at, (cell, size) in enumerate(zip(wrapped, columns, strict=True)):
            part = cell[level] if level < len(cell) else []
            last = at == len(columns) - 1
            padding = " " * (size - line_width(part))
            row += [*part, ("", "" if last else padding), ("dim", "" if last else _GAP)]
        rows.append([span for span in row if span[1]])
    return rows
