"""Running ripgrep: which one, with what options, and reading no more of it than is wanted."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coder.tools.base import ToolContext
from coder.tools.ignoring import IGNORE_FILE, Place, folders_above, repository_of

if TYPE_CHECKING:
    import asyncio

SECONDS = 20.0  # a search that takes longer ends with what it found
MAX_LINE_BYTES = 4096  # of a matching line that ripgrep hands over
ACROSS_LINES = re.compile(r"\n|(?<!\\)(?:\\\\)*\\n|\(\?\w*s")
_TOO_OLD = re.compile(r"unrecognized flag|unexpected argument|wasn't expected")
_CHUNK = 262_144


def find_ripgrep(path: str) -> str | None:
    """The `rg` on `path`, else the one that came with this installation."""
    folders = [Path(folder) for folder in path.split(os.pathsep) if folder]
    for folder in [*folders, Path(sys.executable).parent]:
        candidate = folder / "rg"
        if os.access(candidate, os.X_OK) and candidate.is_file():
            return str(candidate)
    return None


def common_options(place: Place) -> list[str]:
    options = ["--no-config", "--hidden", "--no-messages", "--color=never"]
    options += ["--no-ignore-dot", "--no-ignore-global", "--no-ignore-exclude", "--glob=!.git"]
    folder = place.start if place.start.is_dir() else place.start.parent
    if repository_of(folder) is not None:
        return options
    options.append("--no-require-git")
    # Without a repository ripgrep would heed every .gitignore up to `/`.
    if any((above / IGNORE_FILE).exists() for above in place.base.parents):
        options.append("--no-ignore-parent")
        files = [above / IGNORE_FILE for above in folders_above(place.root, folder)]
        options += [f"--ignore-file={file}" for file in files if file.exists()]
    return options


def line_options(pattern: str, glob_names: list[str]) -> list[str]:
    options = ["--line-number", "--column", "--with-filename", "--null", "--no-heading", "--crlf"]
    options += ["--engine=auto", f"--max-columns={MAX_LINE_BYTES}", "--max-columns-preview"]
    if ACROSS_LINES.search(pattern):
        options.append("--multiline")
    if glob_names:
        # As a type, not with --glob: that would bring back what .gitignore hides.
        options += [f"--type-add=wanted:{name}" for name in glob_names]
        options.append("--type=wanted")
    return options


def sentence(message: str) -> str:
    """Ripgrep's complaint without its drawing."""
    errors = re.findall(r"^(?:error|PCRE2): (.+)$", message, re.MULTILINE)
    if errors and "look-around" in errors[0] and len(errors) > 1:
        errors.pop(0)  # the engine that has look-around knows better what is wrong
    return errors[0] if errors else " ".join(message.removeprefix("rg: ").split())[:300]


class Ended(msgspec.Struct, frozen=True):
    """How a run ended. `unusable`: this ripgrep is not one we can use (too old, not startable)."""

    code: int
    message: str
    timed_out: bool
    unusable: bool


async def run(
    command: list[str], cwd: Path, context: ToolContext, separator: bytes, take: Callable[[bytes], bool]
) -> Ended:
    """Run ripgrep, handing over each record until `take` answers False or time is up."""
    import asyncio

    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=cwd,
            env=dict(context.environment),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError:
        return Ended(-1, "", timed_out=False, unusable=True)
    timed_out = complete = False
    try:
        async with asyncio.timeout(SECONDS):
            assert process.stdout is not None
            complete = await _feed(process.stdout, separator, take)
    except TimeoutError:
        timed_out = True
    finally:
        if not complete:
            _end_group(process.pid)
        _, stderr = await process.communicate()
    message = stderr.decode("utf-8", "replace").strip()
    code = process.returncode if process.returncode is not None else -1
    unusable = code == 2 and _TOO_OLD.search(message) is not None
    return Ended(code, message, timed_out, unusable)


async def _feed(stream: asyncio.StreamReader, separator: bytes, take: Callable[[bytes], bool]) -> bool:
    """Hand over the records of `stream`; False where `take` had enough before its end."""
    rest = b""
    while chunk := await stream.read(_CHUNK):
        *records, rest = (rest + chunk).split(separator)
        if not all(take(record) for record in records):
            return False
    return not rest or take(rest)


def _end_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
