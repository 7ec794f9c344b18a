"""Lines of a file of any size, streamed in bounded memory."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterator
from typing import BinaryIO

import msgspec

CHUNK = 1 << 20
MAX_LINE = 2000  # characters of one line that are kept; the rest is counted


class Line(msgspec.Struct, frozen=True):
    """A line, cut at `MAX_LINE`; `cut` counts the characters left out."""

    text: str
    cut: int = 0


class Cancelled(Exception):
    """The caller was cancelled."""


def shorten(text: str) -> Line:
    return Line(text[:MAX_LINE], len(text) - MAX_LINE) if len(text) > MAX_LINE else Line(text)


def lines_from(file: BinaryIO, encoding: str, skip: int, stopped: Callable[[], bool]) -> Iterator[Line]:
    """The lines after the first `skip`, from where `file` stands. A last line without `\n` counts."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    kept, length, open_line = "", 0, False
    while True:
        if stopped():
            raise Cancelled
        data = file.read(CHUNK)
        chunk = decoder.decode(data, final=not data)
        if skip and (passed := chunk.count("\n")) < skip:
            skip -= passed
            chunk = "" if data else chunk
        *whole, rest = chunk.split("\n")
        for piece in whole:
            line = kept + piece[: MAX_LINE + 1 - len(kept)]
            length += len(piece)
            if skip:
                skip -= 1
            else:
                yield _line(line, length)
            kept, length, open_line = "", 0, False
        if rest:
            kept += rest[: MAX_LINE + 1 - len(kept)]
            length += len(rest)
            open_line = True
        if not data:
            if open_line and not skip:
                yield _line(kept, length)
            return


def _line(kept: str, length: int) -> Line:
    if length > MAX_LINE:
        return Line(kept[:MAX_LINE], length - MAX_LINE)
    return Line(kept.removesuffix("\r"))


def count_lines(file: BinaryIO, stopped: Callable[[], bool]) -> int:
    """Lines of a file in an encoding where the byte 0x0A is always a newline."""
    count, last = 0, b"\n"
    while data := file.read(CHUNK):
        if stopped():
            raise Cancelled
        count += data.count(b"\n")
        last = data[-1:]
    return count + (last != b"\n")


def seek_last(file: BinaryIO, wanted: int, stopped: Callable[[], bool]) -> int:
    """Move to where the last `wanted` lines begin; answers how many there are (fewer in a short file)."""
    at = file.seek(0, os.SEEK_END)
    ends_open = False
    if at:
        file.seek(at - 1)
        ends_open = file.read(1) != b"\n"
    # The newline that ends line k is the one before the last k lines.
    needed = wanted + (0 if ends_open else 1)
    seen = 0
    while at > 0:
        if stopped():
            raise Cancelled
        size = min(CHUNK, at)
        at -= size
        file.seek(at)
        data = file.read(size)
        here = data.count(b"\n")
        if seen + here >= needed:
            position = len(data)
            for _ in range(needed - seen):
                position = data.rfind(b"\n", 0, position)
            file.seek(at + position + 1)
            return wanted
        seen += here
    file.seek(0)
    return seen + ends_open
