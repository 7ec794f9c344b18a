"""Colours of program output: SGR sequences become styles, every other escape sequence stays text.

A style is `sgr:` and the parameters that are in force, which the theme paints as far as the terminal goes.
Concealed text and text in the colour of its background are shown: a program must not hide what it printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from coder.terminal.render.sanitize import last_overwrite, safe
from coder.terminal.render.theme import PROGRAM
from coder.terminal.render.width import Line, Span

_SGR = re.compile(r"\x1b\[([\d;:]{0,64})m")
_EFFECTS = {"1": "22", "2": "22", "3": "23", "4": "24", "7": "27", "9": "29"}  # each and what ends it
_OFF = {off: [on for on, ends in _EFFECTS.items() if ends == off] for off in _EFFECTS.values()}
_FOREGROUND = frozenset(map(str, (*range(30, 38), *range(90, 98))))
_BACKGROUND = frozenset(map(str, (*range(40, 48), *range(100, 108))))
_EXTENDED = {"5": 1, "2": 3}  # numbers that follow `38;5` and `38;2`
_BYTE = 256


class Colours:
    """The state of the colours from one line of output to the next."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._effects: list[str] = []
        self._fore = self._back = ""

    @property
    def style(self) -> str:
        fore, back = self._fore, self._back
        if back and _colour(fore) == _colour(back):
            fore = back = ""
        codes = ";".join(code for code in (*self._effects, fore, back) if code)
        return f"{PROGRAM}{codes}" if codes else ""

    def take(self, parameters: str) -> None:
        """Apply one sequence."""
        codes = iter(re.split("[;:]", parameters))
        for code in codes:
            code = code.lstrip("0")
            if not code:
                self._reset()
            elif code in _EFFECTS:
                self._effects = [*(one for one in self._effects if one != code), code]
            elif code in _OFF:
                self._effects = [one for one in self._effects if one not in _OFF[code]]
            elif code in _FOREGROUND or code == "39":
                self._fore = code if code != "39" else ""
            elif code in _BACKGROUND or code == "49":
                self._back = code if code != "49" else ""
            elif code == "38":
                self._fore = _extended(code, codes)
            elif code == "48":
                self._back = _extended(code, codes)


def _extended(code: str, following: Iterator[str]) -> str:
    """`38;5;N` or `38;2;R;G;B`; nothing where it is broken off or out of range."""
    kind = next(following, "")
    numbers = [next(following, "") for _ in range(_EXTENDED.get(kind, 0))]
    valid = numbers and all(n.isdecimal() and int(n) < _BYTE for n in numbers)
    return ";".join([code, kind, *numbers]) if valid else ""


def _colour(code: str) -> str:
    """What foreground and background codes have in common."""
    if code[:3] in ("38;", "48;"):
        return code[3:]
    return str(int(code) % 10 + (8 if len(code) > 2 or code[0] == "9" else 0)) if code else ""


def has_colours(text: str) -> bool:
    return "\x1b[" in text and _SGR.search(text) is not None


def coloured_lines(text: str, default: str) -> list[Line]:
    """The lines of program output; `default`: the style of what has no colour."""
    colours = Colours()
    return [_spans(last_overwrite(line), colours, default) for line in text.split("\n")]


def _spans(line: str, colours: Colours, default: str) -> Line:
    spans: list[Span] = []
    parts: Sequence[str] = _SGR.split(line)
    for at, part in enumerate(parts):
        if at % 2:
            colours.take(part)
        elif part:
            spans.append((colours.style or default, safe(part)))
    return spans
