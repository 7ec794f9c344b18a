"""Colours by role, from the terminal's 16-colour palette, so that they fit the person's own colour scheme."""

from __future__ import annotations

from collections.abc import Mapping

from coder.terminal.render.width import Line

NAMES = ("dark", "light", "none")

_COMMON = {
    "strong": "1",
    "em": "3",
    "under": "4",
    "strike": "9",
    "dim": "2",
    "good": "32",
    "bad": "31",
    "note": "33",
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
    "code": "93",
    "keyword": "95",
    "string": "92",
    "comment": "90",
    "number": "96",
    "name": "94",
    "spin": "96",
    "scope": "90",
}
_LIGHT = {
    "heading": "1;34",
    "code": "35",
    "keyword": "35",
    "string": "32",
    "comment": "90",
    "number": "36",
    "name": "34",
    "spin": "34",
    "scope": "90",
    "note": "35",
}
_CODES: dict[str, dict[str, str]] = {"dark": _COMMON | _DARK, "light": _COMMON | _LIGHT, "none": {}}


class Theme:
    """Turns spans into text with SGR sequences. `name` may change while running (`/theme`)."""

    def __init__(self, name: str) -> None:
        self.name = name if name in NAMES else "dark"

    @property
    def enabled(self) -> bool:
        return self.name != "none"

    def line(self, line: Line) -> str:
        return "".join(self.paint(style, text) for style, text in line)

    def paint(self, style: str, text: str) -> str:
        codes = _CODES[self.name]
        found = ";".join(codes[role] for role in style.split() if role in codes)
        return f"\x1b[{found}m{text}\x1b[0m" if found and text else text


def chosen_theme(setting: str, environ: Mapping[str, str]) -> str:
    """`ui.theme`, unless `NO_COLOR` or a dumb terminal rules colours out."""
    if environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return "none"
    if setting in NAMES:
        return setting
    # COLORFGBG is "foreground;background"; 7 and 15 are the light backgrounds.
    return "light" if environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15") else "dark"
