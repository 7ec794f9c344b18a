"""Make visible what a screen does not show, in text that a person reads to decide on it.

Controls, format characters, odd blanks and letters without a shape are replaced by their code (`⟨U+200B⟩`),
long runs of blanks and of empty lines by their count (`␠×2500`). Nothing is left out.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from coder.texts import Texts

_LONGEST_RUN: Final = 24  # blanks in a row: more push what follows out of sight
_DEEPEST: Final = 60  # the same where a line begins: code is indented
_EMPTY_LINES: Final = 4  # the same for empty lines
LONG_LINE: Final = 500  # characters of a line about which it is said that it is long
# Printable by their category and yet blank on the screen, or joined to what stands before them.
_SHAPELESS: Final = (
    0x034F,
    *(0x115F, 0x1160, 0x3164, 0xFFA0),  # Hangul fillers
    *(0x17B4, 0x17B5, 0x16FE4, 0x1D159, 0x2800),
    *(0x13440, 0x13441, 0x13442),  # Egyptian blanks: letters from Unicode 15 on, so by the newer Pythons
    *(0x2D7F, 0x1107F, 0x10A3F, 0x11F42, 0x113D0),  # joiners of scripts that few fonts have
    *range(0x180B, 0x1810),
    *range(0xFE00, 0xFE10),  # variation selectors
    *range(0xE0100, 0xE01F0),
)


class Visible(NamedTuple):
    """`text` fit to be shown. `hidden`: how many characters stand there by their code; `runs`: whether blanks
    are counted; `lines` and `longest` are of the original, which is what will run."""

    text: str
    hidden: int
    runs: bool
    lines: int
    longest: int


class _Codes(dict[int, str | int]):
    """For `str.translate`: filled as characters come."""

    def __missing__(self, code: int) -> str | int:
        char = chr(code)
        shown = char in "\n\t" or (char.isprintable() and code not in _SHAPELESS)
        self[code] = found = code if shown else f"⟨U+{code:04X}⟩"
        return found


_CODES: Final = _Codes()
# What `visible` puts in place of something, so that it can be coloured.
MARK: Final = r"⟨U\+[0-9A-F]{4,6}⟩(?:×\d+)?|[␠⇥⏎]{1,2}×\d+"


def visible(text: str) -> Visible:
    plain = text.isascii() and text.isprintable()
    coded = text if plain else text.translate(_CODES)
    hidden = 0 if coded == text else sum(1 for char in text if isinstance(_CODES[ord(char)], str))
    counted = re.sub(r"(⟨U\+[0-9A-F]{4,6}⟩)\1{3,}", _repeated, coded) if hidden else coded
    shown = re.sub(rf"(?:(?<=\n)|\A)(?:[ \t]*\n){{{_EMPTY_LINES},}}", _empty_lines, counted)
    shown = re.sub(rf"(?m)(^[-+]?)?([ \t]{{{_LONGEST_RUN + 1},}})", _blanks, shown)
    lines = text.removesuffix("\n").split("\n")
    return Visible(shown, hidden, shown != counted, len(lines), max(map(len, lines)))


def _repeated(found: re.Match[str]) -> str:
    return f"{found[1]}×{len(found[0]) // len(found[1])}"


def _empty_lines(found: re.Match[str]) -> str:
    return f"⏎×{found[0].count(chr(10))}\n"


def _blanks(found: re.Match[str]) -> str:
    sign, run = found[1] or "", found[2]
    if found[1] is not None and len(run) <= _DEEPEST:
        return found[0]
    runs = re.findall(r" +|\t+", run)
    if len(runs) > 8:
        return f"{sign}␠⇥×{len(run)}"
    return sign + "".join(f"{'␠' if one[0] == ' ' else '⇥'}×{len(one)}" for one in runs)


def warnings(seen: Visible, texts: Texts) -> list[str]:
    """What a person should know of a text before reading it."""
    found = []
    if seen.hidden:
        found.append(texts.say("approval.hidden", n=seen.hidden))
    if seen.runs:
        found.append(texts.say("approval.runs"))
    if seen.longest > LONG_LINE:
        found.append(texts.say("approval.long_line", n=seen.longest))
    return found
