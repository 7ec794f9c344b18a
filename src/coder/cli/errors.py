"""Exit statuses, and error messages on stderr."""

from __future__ import annotations

import sys
from enum import IntEnum
from typing import TextIO

from coder.texts import Fault


class Exit(IntEnum):
    """The process's exit status."""

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


class UsageError(Fault):
    """Wrong usage."""


def complain(text: str) -> None:
    from coder.terminal.render.sanitize import safe

    print(fitted(f"coder: {safe(text)}", sys.stderr), file=sys.stderr)


def fitted(text: str, stream: TextIO, hang: int = 0) -> str:
    """The text, broken between words if `stream` is a terminal; `hang` indents the rows below the first."""
    if not stream.isatty():
        return text
    import shutil  # with its compressors, 1.4 ms: not on the way to the first request

    from coder.terminal.render.width import plain, wrap

    width, rest = shutil.get_terminal_size().columns, [("", " " * hang)]
    return "\n".join(plain(row) for line in text.split("\n") for row in wrap([("", line)], width, rest=rest))
