"""Screen rows of the prompt's text. Pure; breaks between words where they fit in a row, with a prefix on each
row."""

from __future__ import annotations

import functools
from bisect import bisect_right

import msgspec

TAB_STOP = 4


class Shape(msgspec.Struct, frozen=True):
    """The window's width, and the widths of the prompt and of the margin of later rows."""

    columns: int
    prompt: int
    margin: int


class Row(msgspec.Struct, frozen=True):
    """A row of line `line`: its start offset, the column of each caret position, and the cells that the row
    above it leaves empty."""

    line: int
    start: int
    columns: list[int]
    left: int = 0


@functools.cache
def cell_width(char: str) -> int:
    from prompt_toolkit.layout.screen import Char

    return Char(char, "").width  # it shows control characters as `^X`


def text_rows(text: str, shape: Shape) -> list[Row]:
    rows: list[Row] = []
    start = 0
    for number, line in enumerate(text.split("\n")):
        rows += _line_rows(line, number, start, shape)
        start += len(line) + 1
    return rows


def _line_rows(line: str, number: int, start: int, shape: Shape) -> list[Row]:
    rows = [Row(number, start, [])]
    x = shape.margin if number else shape.prompt
    shown = 0  # characters so far, for tab stops
    words = _word_widths(line)
    for at, char in enumerate(line + " "):  # a cell for the caret at the end
        cells = [1] * (TAB_STOP - shown % TAB_STOP) if char == "\t" else [cell_width(char)]
        word = words.get(at, 0)
        splits = x + word > shape.columns >= shape.margin + word and bool(rows[-1].columns)
        if x + cells[0] > shape.columns or splits:
            rows.append(Row(number, start + at, [], shape.columns - x))
            x = shape.margin
        rows[-1].columns.append(x)
        for cell in cells:
            x = shape.margin if x + cell > shape.columns else x
            x += cell
        shown += len(cells)
    return rows


def _word_widths(line: str) -> dict[int, int]:
    """By offset, the cells of each word and of the blank behind it. Wide characters are no part of words: a
    row may end at each of them."""
    found: dict[int, int] = {}
    begin = -1
    for at, char in enumerate(line):
        width = cell_width(char)
        if char in " \t" or width > 1:
            begin = -1
        elif begin >= 0:
            found[begin] += width
        elif width:  # not a mark that belongs to what is before it
            begin = at
            found[at] = 1 + width
    return found


def row_of(rows: list[Row], at: int) -> int:
    return bisect_right([row.start for row in rows], at) - 1


def moved(rows: list[Row], at: int, by: int, goal: int | None = None) -> tuple[int, int] | None:
    """The offset `by` rows further in the caret's column (or `goal`), and that column; None if there is no
    such row. Columns are relative to the text, so the prompt's width does not shift the caret."""
    number = row_of(rows, at)
    if not 0 <= number + by < len(rows):
        return None
    here, there = rows[number], rows[number + by]
    column = here.columns[at - here.start] if goal is None else goal
    if here.line != there.line:
        column += there.columns[0] - here.columns[0]
    return there.start + max(0, bisect_right(there.columns, column) - 1), column
