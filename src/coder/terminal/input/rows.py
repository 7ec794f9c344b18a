"""Where the rows of the prompt's text begin as the screen breaks them: Up and Down go by what is seen.

Pure; it follows the way prompt_toolkit wraps: character by character, with something before each row.
"""

from __future__ import annotations

import functools
from bisect import bisect_right

import msgspec

TAB_STOP = 4


class Shape(msgspec.Struct, frozen=True):
    """The columns there are, and how many of them the prompt and the margin of later rows take."""

    columns: int
    prompt: int
    margin: int


class Row(msgspec.Struct, frozen=True):
    """A row of line `line`: where its text begins, and the column of each place where the caret can stand."""

    line: int
    start: int
    columns: list[int]


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
    shown = 0  # characters so far, by which tabs are counted
    for at, char in enumerate(line + " "):  # the caret needs a place after the last one
        cells = [1] * (TAB_STOP - shown % TAB_STOP) if char == "\t" else [cell_width(char)]
        if x + cells[0] > shape.columns:
            rows.append(Row(number, start + at, []))
            x = shape.margin
        rows[-1].columns.append(x)
        for cell in cells:
            x = shape.margin if x + cell > shape.columns else x
            x += cell
        shown += len(cells)
    return rows


def row_of(rows: list[Row], at: int) -> int:
    return bisect_right([row.start for row in rows], at) - 1


def moved(rows: list[Row], at: int, by: int, goal: int | None = None) -> tuple[int, int] | None:
    """The place so many rows further in the column where the caret stands (or `goal`), and that column;
    None where there is no such row. The prompt is no part of the text: the first line's first letter stands
    above the second line's first letter."""
    number = row_of(rows, at)
    if not 0 <= number + by < len(rows):
        return None
    here, there = rows[number], rows[number + by]
    column = here.columns[at - here.start] if goal is None else goal
    if here.line != there.line:
        column += there.columns[0] - here.columns[0]
    return there.start + max(0, bisect_right(there.columns, column) - 1), column
