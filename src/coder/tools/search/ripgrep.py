"""Running ripgrep: finding the binary, its options, and bounded reading of its output."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coder.base.ignore import IGNORE_FILE, SearchRoot, directories_above, odd_ignore_file
from coder.base.process.programs import DEVNULL, PIPE, Runs, find_bundled, find_program, start
from coder.base.safe_open import repository_of

if TYPE_CHECKING:
    from coder.base.process.programs import Process

SECONDS = 20.0  # a search that takes longer ends with what it found
MAX_LINE_BYTES = 4096  # of a matching line that ripgrep hands over
ACROSS_LINES = re.compile(r"\n|(?<!\\)(?:\\\\)*\\n|\(\?\w*s")
_TOO_OLD = re.compile(r"unrecognized flag|unexpected argument|wasn't expected")
_GLOB, _QUOTED = re.compile(r"[\\*?\[\]{}!]"), r"\\\g<0>"
_OLDEST = 13  # version of ripgrep
_CHUNK = 262_144
_SILENCE = 1.0  # seconds without a record


def find_ripgrep(path: str, workspace: Path | str) -> str | None:
    """The machine's own `rg` if it is recent enough, else the one that came with this installation."""
    beside = os.path.realpath(Path(sys.executable).parent)
    outside = [one for one in path.split(os.pathsep) if one and os.path.realpath(one) != beside]
    own = find_program("rg", os.pathsep.join(outside), workspace)
    if own is not None and _is_recent(own, Path(own).stat().st_mtime_ns):
        return own
    return find_bundled("rg", [str(Path(sys.executable).parent)], workspace) or own


@lru_cache(maxsize=8)
def _is_recent(program: str, _changed: int) -> bool:
    """Whether it has the options that we use."""
    from coder.base.process.programs import DEVNULL, PIPE, Runs, TimeoutExpired, run

    line = [program, "--version"]
    try:
        _, shown = run(line, runs=Runs.HARDENED, timeout=_SILENCE, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL)
    except (OSError, TimeoutExpired):
        return False
    version = re.match(rb"ripgrep (\d{1,9})\.", shown)
    return version is not None and int(version[1]) >= _OLDEST


def common_options(place: SearchRoot) -> list[str]:
    options = ["--no-config", "--hidden", "--no-messages", "--color=never"]
    options += ["--no-ignore-dot", "--no-ignore-global", "--no-ignore-exclude", "--glob=!.git"]
    below = len(os.fspath(place.base).rstrip("/")) + 1
    left_out = [*place.left_out, *place.environments]
    options += [f"--glob=!/{_GLOB.sub(_QUOTED, path[below:])}" for path in left_out]
    directory = place.start if place.start.is_dir() else place.start.parent
    if repository_of(directory) is not None:
        return options
    options.append("--no-require-git")
    # Without a repository ripgrep would heed every .gitignore up to `/`.
    if any((above / IGNORE_FILE).exists() for above in place.base.parents):
        options.append("--no-ignore-parent")
        files = [above / IGNORE_FILE for above in directories_above(place.root, directory)]
        options += [f"--ignore-file={file}" for file in files if file.exists()]
    return options


def line_options(pattern: str, glob_names: list[str]) -> list[str]:
    options = ["--line-number", "--column", "--byte-offset", "--with-filename", "--null", "--no-heading"]
    options.append("--crlf")
    options += ["--engine=auto", f"--max-columns={MAX_LINE_BYTES}", "--max-columns-preview"]
    if ACROSS_LINES.search(pattern):
        options.append("--multiline")
    if glob_names:
        # As a type, not with --glob: that would bring back what .gitignore hides.
        options += [f"--type-add=wanted:{name}" for name in glob_names]
        options.append("--type=wanted")
    return options


def sentence(message: str) -> str:
    """Ripgrep's error message without its ASCII drawing."""
    errors = re.findall(r"^(?:error|PCRE2): (.+)$", message, re.MULTILINE)
    if errors and "look-around" in errors[0] and len(errors) > 1:
        errors.pop(0)  # the engine with look-around has the better message
    return errors[0] if errors else " ".join(message.removeprefix("rg: ").split())[:300]


class Ended(msgspec.Struct, frozen=True):
    """How a run ended. `unusable`: this ripgrep is not one we can use (too old, not startable)."""

    code: int
    message: str
    timed_out: bool
    unusable: bool


async def run(command: list[str], cwd: Path, separator: bytes, take: Callable[[bytes], bool]) -> Ended:
    """Run ripgrep, handing over each record until `take` answers False or time is up. In a thread, on plain
    pipes: `asyncio`'s own subprocesses can outlive a cancel that comes while they start."""
    process = _Process(command, cwd)
    try:
        return await asyncio.to_thread(process.feed, separator, take, SECONDS)
    finally:
        process.stop()


def run_briefly(command: list[str], cwd: Path, take: Callable[[bytes], bool], seconds: float) -> Ended:
    """The same synchronously, for short queries; records end in NUL."""
    return _Process(command, cwd).feed(b"\0", take, seconds)


class _Process:
    """One run of ripgrep, which `stop` ends from any thread."""

    def __init__(self, command: list[str], cwd: Path) -> None:
        self._command, self._cwd = command, cwd
        self._guard = threading.Lock()  # between starting, stopping and reaping: no signal to a stranger
        self._running: Process | None = None
        self._stopped = False

    def stop(self) -> None:
        with self._guard:
            self._stopped = True
            if self._running is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._running.pid, signal.SIGKILL)

    def feed(self, separator: bytes, take: Callable[[bytes], bool], seconds: float) -> Ended:
        try:
            with self._guard:
                if self._stopped:
                    return Ended(-1, "", timed_out=False, unusable=False)
                self._running = child = start(
                    self._command,
                    runs=Runs.HARDENED,
                    cwd=self._cwd,
                    stdin=DEVNULL,
                    stdout=PIPE,
                    stderr=PIPE,
                    start_new_session=True,
                )
        except (OSError, ValueError):  # not startable, or an argument that no program can be given
            return Ended(-1, "", timed_out=False, unusable=True)
        timed_out, stalled, message = False, False, ""
        with child:  # closes the pipes and reaps
            assert child.stdout is not None
            assert child.stderr is not None
            try:
                complete = _feed(child.stdout.fileno(), separator, take, seconds, self._cwd)
            except _Stalled:
                complete, stalled = False, True
            except TimeoutError:
                complete, timed_out = False, True
            if not complete:
                self.stop()
            message = child.stderr.read(_CHUNK).decode("utf-8", "replace").strip()
            with self._guard:
                code = child.wait()  # both pipes are at their end: it is about to be gone
                self._running = None
        too_old = code == 2 and _TOO_OLD.search(message) is not None
        return Ended(code, message, timed_out, stalled or too_old)


class _Stalled(Exception):
    """Ripgrep hangs on a `.gitignore` that is a FIFO."""


def _feed(
    stream: int, separator: bytes, take: Callable[[bytes], bool], seconds: float, directory: Path
) -> bool:
    """Hand over the records of `stream`; False where `take` had enough before its end. Where nothing comes
    for a while it is looked up, once, whether something in `directory` makes ripgrep wait."""
    deadline = time.monotonic() + seconds
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    rest = b""
    looked = False
    while True:
        left = max(0.0, deadline - time.monotonic())
        if not poll.poll((left if looked else min(left, _SILENCE)) * 1000):
            if looked or left <= _SILENCE:
                raise TimeoutError
            looked = True
            if odd_ignore_file(directory):
                raise _Stalled
            continue
        chunk = os.read(stream, _CHUNK)
        if not chunk:
            return not rest or take(rest)
        *records, rest = (rest + chunk).split(separator)
        if not all(take(record) for record in records):
            return False
