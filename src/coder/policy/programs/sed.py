"""A strict acceptor (allowlist) for sed scripts that cannot write files or run commands.

Accepts addresses, the commands that only print or move text, `s` with harmless flags, `y` and braces. Refuses
the rest: `w`, `W`, `e`, `r`, `s///w`, `s///e` above all.
"""

from __future__ import annotations

import re

_PLAIN = frozenset("pPdDnNgGhHx=lqQzF{}")
_DELIMITERS = frozenset("/|,#:@!~%+_")
# Escapes and bracket expressions that end in the same place for every implementation.
_CERTAIN = re.compile(r"\\.|\[(?!\^?\])(?:[^][]|\[:\w+:\])+\]")
_S_FLAGS = frozenset("gpiIm0123456789")


class _Refused(Exception):
    """The script contains something that is not on the list."""


def is_harmless_script(script: str) -> bool:
    """Whether no command of the script can write or run anything."""
    try:
        at = 0
        while at < len(script):
            at = _command(script, _skip(script, at, " \t\n;"))
    except _Refused:
        return False
    return True


def _command(script: str, at: int) -> int:
    """Parse one command with its addresses; returns its end."""
    if at >= len(script):
        return at
    at = _address(script, at)
    after = _skip(script, at, " \t")
    if script[after : after + 1] == ",":
        at = _address(script, _skip(script, after + 1, " \t"))
    at = _skip(script, at, " \t!")
    letter = script[at : at + 1]
    if letter == "s":
        return _end(script, _flags(script, _two_parts(script, at + 1)))
    if letter == "y":
        return _end(script, _two_parts(script, at + 1))
    if letter in ("q", "Q"):
        return _end(script, _skip(script, at + 1, " 0123456789"))
    if letter == "{":
        return at + 1
    if letter and letter in _PLAIN:
        return _end(script, at + 1)
    raise _Refused


def _address(script: str, at: int) -> int:
    char = script[at : at + 1]
    if char.isdigit() or char in ("+", "~"):
        return _skip(script, at + 1, "0123456789~")
    if char == "$":
        return at + 1
    if char == "/":
        at = _part(script, at + 1, "/")
        return _skip(script, at, "I")
    return at


def _two_parts(script: str, at: int) -> int:
    delimiter = script[at : at + 1]
    if delimiter not in _DELIMITERS or not delimiter:
        raise _Refused
    return _part(script, _part(script, at + 1, delimiter), delimiter)


def _part(script: str, at: int, delimiter: str) -> int:
    """Skip past the closing delimiter. Implementations differ on a delimiter in brackets: refused."""
    start = at
    while at < len(script):
        if script[at] == "\\":
            at += 2
            continue
        if script[at] == "\n":
            raise _Refused
        if script[at] == delimiter:
            if "[" in _CERTAIN.sub("", script[start:at]):
                raise _Refused
            return at + 1
        at += 1
    raise _Refused


def _flags(script: str, at: int) -> int:
    while at < len(script) and script[at] in _S_FLAGS:
        at += 1
    return at


def _end(script: str, at: int) -> int:
    at = _skip(script, at, " \t")
    if at < len(script) and script[at] not in ";\n}":
        raise _Refused
    return at


def _skip(script: str, at: int, chars: str) -> int:
    while at < len(script) and script[at] in chars:
        at += 1
    return at
