"""Runs `$PAGER` for text longer than the screen."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from coder.process.programs import Runs, find_chosen, own_environment, run


def pager_command(
    environ: Mapping[str, str], workspace: Path, *, at_end: bool = False, hint: str = ""
) -> list[str] | None:
    """`$PAGER`, else `less`; None if it is not installed or does not wait (`cat`). `at_end`: show the end
    first. `hint`: stands beside the prompt of `less`, whose plain one tells nobody how to leave. It stays
    even if the text fits the screen (`-+F`): it would only repeat what is there."""
    try:
        chosen = shlex.split(environ.get("PAGER", "")) or ["less"]
    except ValueError:
        chosen = ["less"]
    program = find_chosen(chosen[0], environ.get("PATH"), workspace)
    if program is None or os.path.basename(program) == "cat":  # noqa: PTH119 - a name, not a path to open
        return None
    usual = ["-R", "-+F", f"-Ps?e(END):\\:. {hint}", *(["+G"] if at_end else [])]
    return [program, *chosen[1:], *(usual if chosen == ["less"] else [])]


def page(command: list[str], text: str, environ: Mapping[str, str]) -> None:
    """Block until the pager exits. Leaving it early (EPIPE) is not an error."""
    try:
        data = text.encode("utf-8", errors="replace")
        charset = {"LESSCHARSET": "utf-8"}  # the locale may be one that is not installed
        run(command, runs=Runs.FOR_PERSON, given=data, environment={**charset, **own_environment(environ)})
    except OSError:
        return
