"""The process's own streams, made fit for use whatever it was started with.

Closed streams are opened on nothing (else the record's file would get the number of stdout, and output would
go into it), text goes out as UTF-8 in any locale, and a stderr that cannot be written holds up no work.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys


def prepare() -> None:
    if sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode and sys.executable:
        # Names of files that hold no ASCII could not even be spelt; Python decides this once, at its start.
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606 - ourselves
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.FileIO(0, "r", closefd=False), encoding="utf-8")
    if sys.stdout is None:
        sys.stdout = _writer(1)
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    if sys.stderr is None:
        sys.stderr = _writer(2)
    elif isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = _Forgiving(sys.stderr.detach(), "utf-8", "backslashreplace", line_buffering=True)


def _writer(number: int) -> io.TextIOWrapper:
    raw = io.FileIO(number, "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", "backslashreplace")


class _Forgiving(io.TextIOWrapper):
    """Progress and complaints are worth nothing's failure."""

    def write(self, text: str, /) -> int:
        with contextlib.suppress(OSError):
            return super().write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            super().flush()


def forsake_stdout() -> None:
    """Nobody takes our output any more; Python must not complain about it at exit."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)
