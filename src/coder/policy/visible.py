"""Reveal invisible characters in text that a person is to approve.

Control, format and blank characters become their code point (`⟨U+200B⟩`), long runs of blanks and empty lines
a count (`␠×2500`). Nothing is left out."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from coder.texts import Catalog

_LONGEST_RUN: Final = 24  # blanks in a row: more push what follows off the screen
_DEEPEST: Final = 60  # the same for indentation
_EMPTY_LINES: Final = 4  # the same for empty lines
LONG_LINE: Final = 500  # characters, from which a warning is shown
# Printable by category, yet blank or zero-width.
_SHAPELESS: Final = (
    0x034F,
    *(0x115F, 0x1160, 0x3164, 0xFFA0),  # Hangul fillers
    *(0x17B4, 0x17B5, 0x16FE4, 0x1D159, 0x2800),
    *(0x13440, 0x13441, 0x13442),  # Egyptian blanks: letters since Unicode 15, so only in newer Pythons
    *(0x2D7F, 0x1107F, 0x10A3F, 0x11F42, 0x113D0),  # joiners
    *range(0x180B, 0x1810),
    *range(0xFE00, 0xFE10),  # variation selectors
    *range(0xE0100, 0xE01F0),
)


class Visible(NamedTuple):
    """`text` is safe to display. `hidden`: characters replaced by their code point; `runs`: whether blanks
    are counted; `lines` and `longest` are of the original, which is what runs."""

    text: str
    hidden: int
    runs: bool
    lines: int
    longest: int


class _Codes(dict[int, str | int]):
    """For `str.translate`, filled lazily."""

    def __missing__(self, code: int) -> str | int:
        char = chr(code)
        shown = char in "\n\t" or (char.isprintable() and code not in _SHAPELESS)
        self[code] = found = code if shown else f"⟨U+{code:04X}⟩"
        return found


_CODES: Final = _Codes()
# What `visible` inserts, for highlighting.
MARK: Final = r"⟨U\+[0-9A-F]{4,6}⟩(?:×\d+)?|[␠⇥⏎]{1,2}×\d+"


def visible(text: str) -> Visible:
    plain = text.isascii() and text.isprintable()
    coded = text if plain else text.translate(_CODES)
    hidden = 0 if coded == text else sum(1 for char in text if isinstance(_CODES[ord(char)], str))
    counted = coded
    if hidden:
        repeated = r"(⟨U\+[0-9A-F]{4,6}⟩)\1{3,}"
        counted = re.sub(repeated, lambda found: f"{found[1]}×{len(found[0]) // len(found[1])}", coded)
    empty = rf"(?:(?<=\n)|\A)(?:[ \t]*\n){{{_EMPTY_LINES},}}"
    shown = re.sub(empty, lambda found: f"⏎×{found[0].count(chr(10))}\n", counted)
    shown = re.sub(rf"(?m)(^[-+]?)?([ \t]{{{_LONGEST_RUN + 1},}})", _blanks, shown)
    lines = text.removesuffix("\n").split("\n")
    return Visible(shown, hidden, shown != counted, len(lines), max(map(len, lines)))


def _blanks(found: re.Match[str]) -> str:
    sign, run = found[1] or "", found[2]
    if found[1] is not None and len(run) <= _DEEPEST:
        return found[0]
    runs = re.findall(r" +|\t+", run)
    if len(runs) > 8:
        return f"{sign}␠⇥×{len(run)}"
    return sign + "".join(f"{'␠' if one[0] == ' ' else '⇥'}×{len(one)}" for one in runs)


def warnings(shown: Visible, texts: Catalog) -> list[str]:
    """What a person should know before reading the text."""
    found = []
    if shown.hidden:
        found.append(texts.say("approval.hidden", n=shown.hidden))
    if shown.runs:
        found.append(texts.say("approval.runs"))
    if shown.longest > LONG_LINE:
        found.append(texts.say("approval.long_line", n=shown.longest))
    return found
