"""Sanitizes text from models, files and programs: control characters are escaped, not sent to the
terminal."""

from __future__ import annotations

import os
from typing import TextIO

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
    """A line of program output as it looks in the end."""
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
