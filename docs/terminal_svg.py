"""A terminal's screen as an SVG picture: its text, its colours, a window around it.

Every run of cells has its own place and width, so that the grid holds whatever font the reader has; a
character that takes two cells (Chinese, for instance) gets two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

CELL, LINE = 8.4, 19.0
PADDING, BAR = 18.0, 40.0


class Palette(NamedTuple):
    """The window's colours; `named`: the sixteen colours by the names that pyte gives them."""

    paper: str
    ink: str
    dim: str
    frame: str
    named: dict[str, str]


def _named(*colours: str) -> dict[str, str]:
    names = ("black", "red", "green", "brown", "blue", "magenta", "cyan", "white")
    both = (*names, *(f"bright{name}" for name in names))
    return {**dict(zip(both, colours, strict=True)), "brightyellow": colours[11]}


DARK = Palette(
    "#15181e",
    "#d8dee6",
    "#7d8794",
    "#2a2f38",
    _named(
        *("#3b4252", "#ef7b85", "#8fcf8a", "#e6c07b", "#7cb4f0", "#cf9af0", "#6fc7d1", "#d8dee6"),
        *("#7d8794", "#ff9aa2", "#a8e6a1", "#f2d48f", "#9ccbff", "#dfb6ff", "#8fe1ea", "#ffffff"),
    ),
)
LIGHT = Palette(
    "#ffffff",
    "#24292f",
    "#6e7781",
    "#d0d7de",
    _named(
        *("#24292f", "#cf222e", "#116329", "#9a6700", "#0550ae", "#8250df", "#1b7c83", "#6e7781"),
        *("#57606a", "#a40e26", "#1a7f37", "#7d4e00", "#0969da", "#6639ba", "#3192aa", "#24292f"),
    ),
)
# Drawn one by one: renderers may collapse several blanks, and take other characters from another font.
_PIECES = re.compile(r"[!-~]+(?: [!-~]+)*|[^\x00-\x7f]+")
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


def picture(rows: Sequence[Row], columns: int, title: str, description: str, palette: Palette = DARK) -> str:
    """The whole document, with a text for those who cannot see it."""
    width = columns * CELL + 2 * PADDING
    height = BAR + len(rows) * LINE + PADDING
    return "\n".join(
        [*_frame(width, height, title, description, palette), *_body(rows, palette), "</g>", "</svg>", ""]
    )


def _frame(width: float, height: float, title: str, description: str, palette: Palette) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img" aria-labelledby="t d">'
    )
    yield f'<title id="t">{escape(title)}</title>'
    yield f'<desc id="d">{escape(description)}</desc>'
    yield (
        f'<rect x="0.5" y="0.5" width="{width - 1:g}" height="{height - 1:g}" rx="10" fill="{palette.paper}" '
        f'stroke="{palette.frame}"/>'
    )
    for at, colour in enumerate(("#ec6a5e", "#f4bf4f", "#61c554")):
        yield f'<circle cx="{PADDING + 4 + at * 20:g}" cy="{BAR / 2 - 1:g}" r="6" fill="{colour}"/>'
    yield (
        f'<text x="{width / 2:g}" y="{BAR / 2 + 4:g}" text-anchor="middle" fill="{palette.dim}" '
        f'font-family="system-ui, sans-serif" font-size="13">{escape(title)}</text>'
    )
    yield f'<g font-family="{FONT}" font-size="14" fill="{palette.ink}" xml:space="preserve">'


def _body(rows: Sequence[Row], palette: Palette) -> Iterator[str]:
    for number, row in enumerate(rows):
        for column, run in _runs(row):
            yield from _run(column, BAR + number * LINE, run, palette)


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


def _run(column: int, top: float, run: list[Cell], palette: Palette) -> Iterator[str]:
    style = run[0].style
    ink, paper = _colours(style, palette)
    if paper != palette.paper:
        width = sum(cell.width for cell in run) * CELL
        x = PADDING + column * CELL
        yield f'<rect x="{x:g}" y="{top:g}" width="{width:g}" height="{LINE:g}" fill="{paper}"/>'
    text = "".join(cell.text for cell in run)
    for found in _PIECES.finditer(text):
        x = PADDING + (column + sum(cell.width for cell in run[: found.start()])) * CELL
        length = sum(cell.width for cell in run[found.start() : found.end()]) * CELL
        yield (
            f'<text x="{x:g}" y="{top + 14:g}" textLength="{length:g}" lengthAdjust="spacingAndGlyphs"'
            f"{_attributes(style, ink, palette)}>{escape(found[0])}</text>"
        )


def _colours(style: Style, palette: Palette) -> tuple[str, str]:
    ink = _colour(style.ink, palette.ink, palette)
    paper = _colour(style.paper, palette.paper, palette)
    if style.dim and style.ink == "default":
        ink = palette.dim
    return (paper, ink) if style.reverse else (ink, paper)


def _colour(name: str, default: str, palette: Palette) -> str:
    if name == "default":
        return default
    return palette.named.get(name, f"#{name}")


def _attributes(style: Style, ink: str, palette: Palette) -> str:
    parts = [f' fill="{ink}"'] if ink != palette.ink else []
    if style.bold:
        parts.append(' font-weight="600"')
    if style.italic:
        parts.append(' font-style="italic"')
    if style.underline or style.struck:
        line = "underline" if style.underline else "line-through"
        parts.append(f' text-decoration="{line}"')
    return "".join(parts)
