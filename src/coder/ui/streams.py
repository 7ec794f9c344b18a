"""Prepares the standard streams, and prints to them.

Closed streams are opened on /dev/null (a record's file could get their descriptor), text is UTF-8 in any
locale, and errors while writing to stderr are ignored. Commands print only by `show` and `show_json`, which
escape.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from coder.base.process.programs import restart_python
from coder.history.sinks import encode
from coder.texts import CoderError

if TYPE_CHECKING:
    from typing import TextIO


def show(text: str = "", to: TextIO | None = None, *, fit: bool = False, hang: int = 0) -> None:
    """Print text, with control and bidirectional characters escaped. `fit`: as `wrap_for_stream`."""
    from coder.ui.terminal.render.escapes import safe

    stream = to or sys.stdout
    text = safe(text)
    print(wrap_for_stream(text, stream, hang) if fit else text, file=stream, flush=True)


def show_json(value: Any) -> None:
    """Print a value as one line of JSON, with the same characters escaped."""
    from coder.ui.terminal.render.escapes import safe_json

    data = value if isinstance(value, bytes) else encode(value)
    print(safe_json(data).decode("utf-8"), flush=True)


def wrap_for_stream(text: str, stream: TextIO, hang: int = 0) -> str:
    """The text, broken between words if `stream` is a terminal; `hang` indents the rows below the first."""
    if not stream.isatty():
        return text

    import shutil  # with its compressors, 1.4 ms: not on the way to the first request

    from coder.ui.terminal.render.width import plain, wrap

    width, rest = shutil.get_terminal_size().columns, [("", " " * hang)]
    return "\n".join(plain(row) for line in text.split("\n") for row in wrap([("", line)], width, rest=rest))


def prepare() -> None:
    if sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode and sys.executable:
        # Non-ASCII file names need UTF-8 mode, which Python only sets at start-up.

        restart_python(["-X", "utf8", *sys.orig_argv[1:]])
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free descriptor is `number`
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.FileIO(0, "r", closefd=False), encoding="utf-8")
    if sys.stdout is None:
        sys.stdout = _writer(1)
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    if sys.stderr is None:
        sys.stderr = _writer(2)
    elif isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = _IgnoringErrors(sys.stderr.detach(), "utf-8", "backslashreplace", line_buffering=True)


def _writer(number: int) -> io.TextIOWrapper:
    raw = io.FileIO(number, "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", "backslashreplace")


class _IgnoringErrors(io.TextIOWrapper):
    """Ignores write errors: stderr may be closed."""

    def write(self, text: str, /) -> int:
        with contextlib.suppress(OSError):
            return super().write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            super().flush()


def redirect_stdout_to_devnull() -> None:
    """After EPIPE, so that Python's flush at exit does not fail."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)


class Exit(IntEnum):
    ANSWERED = 0
    FAILED = 1
    USAGE = 2
    STEP_LIMIT = 3
    PROMPT_LIMIT = 4
    UNVERIFIED = 5
    CANCELLED = 130


BY_TURN_STATUS = {
    "ok": Exit.ANSWERED,
    "error": Exit.FAILED,
    "max_steps": Exit.STEP_LIMIT,
    "prompt_limit": Exit.PROMPT_LIMIT,
    "cancelled": Exit.CANCELLED,
}


class UsageError(CoderError):
    """Wrong usage."""


def complain(text: str) -> None:
    show(f"coder: {text}", sys.stderr, fit=True)
