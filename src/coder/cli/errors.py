"""Exit statuses, and error messages on stderr."""

from __future__ import annotations

import sys
from enum import IntEnum

from coder.cli.streams import show
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
    show(f"coder: {text}", sys.stderr, fit=True)
