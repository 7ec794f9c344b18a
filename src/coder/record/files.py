"""Small file habits that the whole record shares."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from coder.texts import Fault


class RecordError(Fault):
    """The record could not be written or read, in one sentence of the catalogue."""


def write_atomically(path: Path, data: bytes, mode: int = 0o600, *, beside: str = "") -> None:
    """Readers see the old content or the new, never a part; a failure leaves the old in place.

    `beside` names the file that is written first, where this process alone writes `path`: what a kill left of
    it is taken away by the next write.
    """
    # short: a long name has no room for more
    temporary = path.with_name(beside or f".coder-{os.urandom(6).hex()}.tmp")
    try:
        if beside:
            temporary.unlink(missing_ok=True)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            write_all(fd, data)
            os.fchmod(fd, mode)
        finally:
            os.close(fd)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def encode(value: Any) -> bytes:
    """JSON; text that is not valid Unicode (a file name's stray bytes) is written as `\\xNN`."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_valid(msgspec.to_builtins(value)))


def _valid(value: Any) -> Any:
    if isinstance(value, str):
        return valid_text(value)
    if isinstance(value, list | tuple):
        return [_valid(v) for v in value]
    if isinstance(value, dict):
        return {_valid(k): _valid(v) for k, v in value.items()}
    return value


def valid_text(text: str) -> str:
    """`text` with lone surrogates (undecodable bytes) spelt out."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        pass
    else:
        return text
    try:
        return text.encode("utf-8", errors="surrogateescape").decode("utf-8", errors="backslashreplace")
    except UnicodeEncodeError:  # a surrogate that stands for no byte
        return text.encode("utf-8", errors="backslashreplace").decode("utf-8")
