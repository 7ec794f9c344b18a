"""Text from models, files and programs cannot control the terminal: escapes are shown, not obeyed."""

from __future__ import annotations

import os
from typing import TextIO

_SHOWN = {code: f"\\x{code:02x}" for code in (*range(32), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}
_SHOWN[0x1B] = "␛"
# Characters that reorder or hide what stands beside them (Trojan source).
_TURNING = (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)
_BREAKING = (0x2028, 0x2029)  # line breaks to some readers
_SHOWN |= {code: f"\\u{code:04x}" for code in (*_TURNING, *_BREAKING)}
_IN_JSON = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *_TURNING, *_BREAKING)}


_PROGRESS = (
    3  # from so many returns in a line on it is a progress bar; fewer may hide something, and are shown
)


def safe(text: str) -> str:
    text = text.translate(_SHOWN)
    return text.encode("utf-8", errors="replace").decode("utf-8") if not text.isascii() else text


def safe_json(data: bytes) -> bytes:
    """JSON that means the same and acts on no terminal: encoders escape the first 32 characters only."""
    if data.isascii() and b"\x7f" not in data:
        return data
    return data.decode("utf-8").translate(_IN_JSON).encode("utf-8")


def printed(text: str) -> str:
    """As `safe`, for what a program printed: a line that was drawn over itself again and again (a progress
    bar) is its last state, and `…` says that there was more."""
    return safe("\n".join(map(_drawn_over, text.split("\n"))) if "\r" in text else text)


def _drawn_over(line: str) -> str:
    line = line.removesuffix("\r")
    last = line.rpartition("\r")[2]
    return f"…{last}" if line.count("\r") >= _PROGRESS else line


def to_nowhere(stream: TextIO) -> None:
    """The terminal behind it is gone: what the stream still holds would fail again, at the latest when Python
    leaves."""
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def flat(text: str) -> str:
    """As `safe`, for text that must stay on one row."""
    return safe(text).replace("\n", " ").replace("\t", " ")
