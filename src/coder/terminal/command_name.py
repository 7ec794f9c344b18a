"""What a person types to run this program."""

from __future__ import annotations

import shutil
import sys


def command_name() -> str:
    """With its path if `coder` is not on PATH, as after `./dev demo`."""
    if shutil.which("coder"):
        return "coder"
    return f"{sys.executable} -m coder" if sys.argv[0].endswith("__main__.py") else sys.argv[0]
