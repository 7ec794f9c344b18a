"""JSON encoding of the record, and its error."""

from __future__ import annotations

from typing import Any

import msgspec

from coder.texts import Fault


class RecordError(Fault):
    """The record could not be written or read."""


def encode(value: Any) -> bytes:
    """JSON; undecodable bytes (of a file name) are written as `\\xNN`."""
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
    """`text` with lone surrogates escaped."""
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
