"""A terminal's screen as an SVG picture: its text, its colours, a window around it.

Every run of cells has its own place and width, so that the grid holds whatever font the reader has; a
character that takes two cells (Chinese, for instance) gets two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

CELL, LINE = 8.4, 19.0
PADDING, BAR = 18.0, 40.0
PAPER, INK, FRAME = "#15181e", "#d8dee6", "#2a2f38"
DIM = "#7d8794"
# The sixteen colours by the names that pyte gives them.
COLOURS = {
    "black": "#3b4252",
    "red": "#ef7b85",
    "green": "#8fcf8a",
    "brown": "#e6c07b",
    "blue": "#7cb4f0",
    "magenta": "#cf9af0",
    "cyan": "#6fc7d1",
    "white": INK,
    "brightblack": DIM,
    "brightred": "#ff9aa2",
    "brightgreen": "#a8e6a1",
    "brightbrown": "#f2d48f",
    "brightyellow": "#f2d48f",
    "brightblue": "#9ccbff",
    "brightmagenta": "#dfb6ff",
    "brightcyan": "#8fe1ea",
    "brightwhite": "#ffffff",
}
FONT = "ui-monospace, 'SF Mono', 'JetBrains Mono', Menlo, Consolas, 'Noto Sans Mono CJK SC', monospace"


class Style(NamedTuple):
    """How a cell is shown."""

    ink: str = "default"
    paper: str = "default"
    bold: bool = False
    italic: bool = False
    underline: bool = False
    struck: bool = False
    dim: bool = False
    reverse: bool = False


class Cell(NamedTuple):
    """One character, and how many columns it takes (0: the second half of a wide one)."""

    text: str
    width: int
    style: Style


Row = Sequence[Cell]


def picture(rows: Sequence[Row], columns: int, title: str, description: str) -> str:
    """The whole document, with a text for those who cannot see it."""
    width = columns * CELL + 2 * PADDING
    height = BAR + len(rows) * LINE + PADDING
    return "\n".join([*_frame(width, height, title, description), *_body(rows), "</g>", "</svg>", ""])


def _frame(width: float, height: float, title: str, description: str) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img" aria-labelledby="t d">'
    )
    yield f'<title id="t">{escape(title)}</title>'
    yield f'<desc id="d">{escape(description)}</desc>'
    yield (
        f'<rect x="0.5" y="0.5" width="{width - 1:g}" height="{height - 1:g}" rx="10" fill="{PAPER}" '
        f'stroke="{FRAME}"/>'
    )
    for at, colour in enumerate(("#ec6a5e", "#f4bf4f", "#61c554")):
        yield f'<circle cx="{PADDING + 4 + at * 20:g}" cy="{BAR / 2 - 1:g}" r="6" fill="{colour}"/>'
    yield (
        f'<text x="{width / 2:g}" y="{BAR / 2 + 4:g}" text-anchor="middle" fill="{DIM}" '
        f'font-family="system-ui, sans-serif" font-size="13">{escape(title)}</text>'
    )
    yield f'<g font-family="{FONT}" font-size="14" fill="{INK}" xml:space="preserve">'


def _body(rows: Sequence[Row]) -> Iterator[str]:
    for number, row in enumerate(rows):
        for column, run in _runs(row):
            yield from _run(column, BAR + number * LINE, run)


def _runs(row: Row) -> Iterator[tuple[int, list[Cell]]]:
    """Cells of one style that stand together, with the column where they begin; blanks at either end go."""
    run: list[Cell] = []
    start = column = 0
    for cell in row:
        if run and cell.style != run[0].style:
            yield start, run
            run = []
        if not run:
            start = column
        run.append(cell)
        column += cell.width
    if run:
        yield start, run


def _run(column: int, top: float, run: list[Cell]) -> Iterator[str]:
    style = run[0].style
    ink, paper = _colours(style)
    if paper != PAPER:
        width = sum(cell.width for cell in run) * CELL
        x = PADDING + column * CELL
        yield f'<rect x="{x:g}" y="{top:g}" width="{width:g}" height="{LINE:g}" fill="{paper}"/>'
    text = "".join(cell.text for cell in run)
    lead = len(text) - len(text.lstrip(" "))
    text = text.strip(" ")
    if not text:
        return
    cells = run[lead : lead + len(text)]
    x = PADDING + (column + lead) * CELL
    length = sum(cell.width for cell in cells) * CELL
    yield (
        f'<text x="{x:g}" y="{top + 14:g}" textLength="{length:g}" lengthAdjust="spacingAndGlyphs"'
        f"{_attributes(style, ink)}>{escape(text)}</text>"
    )


def _colours(style: Style) -> tuple[str, str]:
    ink, paper = _colour(style.ink, INK), _colour(style.paper, PAPER)
    if style.dim and style.ink == "default":
        ink = DIM
    return (paper, ink) if style.reverse else (ink, paper)


def _colour(name: str, default: str) -> str:
    if name == "default":
        return default
    return COLOURS.get(name, f"#{name}")


def _attributes(style: Style, ink: str) -> str:
    parts = [f' fill="{ink}"'] if ink != INK else []
    if style.bold:
        parts.append(' font-weight="600"')
    if style.italic:
        parts.append(' font-style="italic"')
    if style.underline or style.struck:
        line = "underline" if style.underline else "line-through"
        parts.append(f' text-decoration="{line}"')
    return "".join(parts)
