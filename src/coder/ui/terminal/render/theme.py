"""Colours by role, from the terminal's 16-colour palette, to fit the person's colour scheme.

Only tints (backgrounds) and comments on them need more colours; other terminals get a colour instead. Yellow
is reserved for questions (`ask`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from coder.ui.terminal.render.width import Line, line_width

NAMES = ("dark", "light", "none")
PROGRAM = "sgr:"  # begins a style that is a program's own, see `render.sgr`
FILL = "fill"  # role of an empty span: its background up to the end of the row

_COMMON = {
    "strong": "1",
    "em": "3",
    "under": "4",
    "strike": "9",
    "dim": "2",
    "bar": "2",
    "good": "32",
    "bad": "31",
    "note": "35",
    "ask": "33",
    "retry": "34",
    "title": "1",
    "hunk": "36",
    "link": "4",
    "quote": "2",
    "mark": "2",
    "prompt": "1",
    "chosen": "7",
}
_DARK = {
    "heading": "1;96",
    "code": "96",
    "keyword": "95",
    "string": "92",
    "comment": "90",
    "number": "96",
    "name": "94",
    "spin": "96",
    "scope": "90",
    "retry": "94",
}
_LIGHT = {
    "heading": "1;34",
    "code": "36",
    "keyword": "35",
    "string": "32",
    "comment": "90",
    "number": "36",
    "name": "34",
    "spin": "34",
    "scope": "90",
}
# By role: 16 colours, 256 colours, 24 bits.
_TINTS = {
    "dark": {
        "said": ("1", "48;5;236", "48;2;44;44;52"),
        "added": ("32", "48;5;22", "48;2;14;50;26"),
        "removed": ("31", "48;5;52", "48;2;70;20;24"),
        "added_word": ("1;32", "48;5;28", "48;2;28;98;50"),
        "removed_word": ("1;31", "48;5;88", "48;2;130;34;40"),
        "tinted_comment": ("90", "38;5;250", "38;2;180;180;180"),
    },
    "light": {
        "ask": ("1;33", "1;38;5;130", "1;38;2;150;100;0"),  # plain yellow cannot be read on white
        "said": ("1", "48;5;254", "48;2;232;232;238"),
        "added": ("32", "48;5;194", "48;2;220;247;224"),
        "removed": ("31", "48;5;224", "48;2;255;226;226"),
        "added_word": ("1;32", "48;5;157", "48;2;164;230;176"),
        "removed_word": ("1;31", "48;5;217", "48;2;255;182;182"),
        "tinted_comment": ("90", "38;5;240", "38;2;84;84;84"),
    },
    "none": {},
}
_CODES: dict[str, dict[str, str]] = {"dark": _COMMON | _DARK, "light": _COMMON | _LIGHT, "none": {}}
_24_BITS = 2  # depth
_256_COLOURS = ("256", "kitty", "alacritty", "foot", "ghostty", "wezterm", "direct")


class Theme:
    """Turns spans into text with SGR sequences. `name` may change while running (`/theme`). `depth` is 0 for
    16 colours, 1 for 256, 2 for 24 bits."""

    def __init__(self, name: str, depth: int = 0) -> None:
        self.name = name if name in NAMES else "dark"
        self.depth = depth

    @property
    def enabled(self) -> bool:
        return self.name != "none"

    def line(self, line: Line) -> str:
        return "".join(self.paint(style, text) for style, text in line)

    def paint(self, style: str, text: str) -> str:
        if not style:
            return text
        codes = _sgr(self.name, self.depth, style)
        if not text:
            return f"\x1b[{codes}m\x1b[K\x1b[0m" if "48;" in codes and style.endswith(FILL) else ""
        return f"\x1b[{codes}m{text}\x1b[0m" if codes else text


@functools.cache
def _sgr(name: str, depth: int, style: str) -> str:
    """The SGR parameters of a style. The last of conflicting roles wins."""
    codes, tints = _CODES[name], _TINTS[name]
    found = [tints[role][depth] if role in tints else codes.get(role, "") for role in style.split()]
    if style.startswith(PROGRAM) and codes:
        found = [_program_colours(style.removeprefix(PROGRAM), depth)]
    return ";".join(code for code in found if code)


def _program_colours(codes: str, depth: int) -> str:
    """A program's own SGR parameters, without colours that this terminal does not have."""
    if depth < _24_BITS:
        codes = re.sub(r"[34]8;2;\d+;\d+;\d+", "", codes)
    if not depth:
        codes = re.sub(r"[34]8;5;\d+", "", codes)
    return codes.strip(";")


def tinted_row(row: Line, role: str, width: int) -> Line:
    """The row with `role`'s tint up to its end. At the right margin erasing would delete the last
    character."""
    return [*row, (f"{role} {FILL}", "")] if width and line_width(row) % width else row


def chosen_theme(setting: str, environ: Mapping[str, str]) -> str:
    """`ui.theme`, unless `NO_COLOR` or a dumb terminal rules colours out."""
    if environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return "none"
    if setting in NAMES:
        return setting
    # COLORFGBG is "foreground;background"; 7 and 15 are the light backgrounds.
    return "light" if environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15") else "dark"


def colour_depth(environ: Mapping[str, str]) -> int:
    """From the environment: 2 for 24 bits, 1 for 256 colours, else 0."""
    if environ.get("COLORTERM", "") in ("truecolor", "24bit"):
        return 2
    return int(any(name in environ.get("TERM", "") for name in _256_COLOURS))


def theme_for(setting: str, environ: Mapping[str, str]) -> Theme:
    return Theme(chosen_theme(setting, environ), colour_depth(environ))
