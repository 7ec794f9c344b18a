"""Sanitizes text from models, files and programs: control characters are escaped."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import TextIO

from coder.ui.terminal.render.theme import PROGRAM
from coder.ui.terminal.render.width import Line, Span

_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(32), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}
_ESCAPED[0x1B] = "␛"
# Bidirectional controls, which reorder or hide text (Trojan Source).
_BIDI = (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)
_BREAKING = (0x2028, 0x2029)  # line breaks to some readers
_ESCAPED |= {code: f"\\u{code:04x}" for code in (*_BIDI, *_BREAKING)}
_IN_JSON = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *_BIDI, *_BREAKING)}


_PROGRESS_RETURNS = 3  # a line with as many carriage returns is a progress bar; fewer may hide text


def safe(text: str) -> str:
    text = text.translate(_ESCAPED)
    return text.encode("utf-8", errors="replace").decode("utf-8") if not text.isascii() else text


def safe_json(data: bytes) -> bytes:
    """Equivalent JSON that is safe to print: encoders escape C0 controls only."""
    if data.isascii() and b"\x7f" not in data:
        return data
    return data.decode("utf-8").translate(_IN_JSON).encode("utf-8")


def safe_output(text: str) -> str:
    """`safe` for program output: a line overwritten by carriage returns (a progress bar) becomes its last
    state, after a `…`."""
    return safe("\n".join(map(last_overwrite, text.split("\n"))) if "\r" in text else text)


def last_overwrite(line: str) -> str:
    """The final state of a line of program output."""
    line = line.removesuffix("\r")
    last = line.rpartition("\r")[2]
    return f"…{last}" if line.count("\r") >= _PROGRESS_RETURNS else line


def redirect_to_devnull(stream: TextIO) -> None:
    """For a stream whose terminal is gone: flushing its buffer at exit would fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def flat(text: str) -> str:
    """`safe` for text that must stay on one row."""
    return safe(text).replace("\n", " ").replace("\t", " ")


_SGR = re.compile(r"\x1b\[([\d;:]{0,64})m")
_EFFECTS = {
    "1": "22",
    "2": "22",
    "3": "23",
    "4": "24",
    "7": "27",
    "9": "29",
}  # by code: the code that ends it
_OFF = {off: [on for on, ends in _EFFECTS.items() if ends == off] for off in _EFFECTS.values()}
_FOREGROUND = frozenset(map(str, (*range(30, 38), *range(90, 98))))
_BACKGROUND = frozenset(map(str, (*range(40, 48), *range(100, 108))))
_EXTENDED = {"5": 1, "2": 3}  # numbers that follow `38;5` and `38;2`
_BYTE = 256


class Colours:
    """The colour state between lines of output."""

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

    def apply(self, parameters: str) -> None:
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
    """`38;5;N` or `38;2;R;G;B`; empty if incomplete or out of range."""
    kind = next(following, "")
    numbers = [next(following, "") for _ in range(_EXTENDED.get(kind, 0))]
    valid = numbers and all(n.isdecimal() and int(n) < _BYTE for n in numbers)
    return ";".join([code, kind, *numbers]) if valid else ""


def _colour(code: str) -> str:
    """The colour that foreground and background codes have in common."""
    if code[:3] in ("38;", "48;"):
        return code[3:]
    return str(int(code) % 10 + (8 if len(code) > 2 or code[0] == "9" else 0)) if code else ""


def has_colours(text: str) -> bool:
    return "\x1b[" in text and _SGR.search(text) is not None


def coloured_lines(text: str, default: str) -> list[Line]:
    """The lines of program output; `default`: the style of uncoloured text."""
    colours = Colours()
    return [_spans(last_overwrite(line), colours, default) for line in text.split("\n")]


def _spans(line: str, colours: Colours, default: str) -> Line:
    spans: list[Span] = []
    parts: Sequence[str] = _SGR.split(line)
    for at, part in enumerate(parts):
        if at % 2:
            colours.apply(part)
        elif part:
            spans.append((colours.style or default, safe(part)))
    return spans
