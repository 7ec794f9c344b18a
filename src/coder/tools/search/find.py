"""Find files and lines: by ripgrep if installed, else by a walk of our own with the same results.

`.gitignore` holds outside repositories too, hidden files are searched, `.git` never, links are not followed.
What is read from ripgrep is bounded while it is read: it is ended once there is enough."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import errno
import os
import re
import stat
import time
import warnings
from collections.abc import Callable, Iterable
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import msgspec

from coder.base.ignore import SearchRoot
from coder.base.safe_open import open_at, open_directory, parent_of
from coder.tools.search import ripgrep
from coder.tools.search.walk import Walk
from coder.tools.tool import ToolContext

NAMED_SECONDS = 1.0
NAMED_MOST = 50


class BadPattern(Exception):
    """The regular expression is not one; the text says why in one sentence."""


class Line(msgspec.Struct, frozen=True):
    """A matching line: path relative to the searched base, line from 1, byte column of the match from 1.
    `offset`: where in the file ripgrep found it."""

    path: str
    number: int
    column: int
    text: str
    offset: int = 0


class Outcome(msgspec.Struct):
    """What a search came to. `cut`: it was ended because there was enough."""

    paths: list[str] = []
    lines: list[Line] = []
    cut: bool = False
    timed_out: bool = False
    engine: str = "ripgrep"


async def find_files(
    context: ToolContext, place: SearchRoot, wanted: Callable[[str], bool], limit: int
) -> Outcome:
    """The files below `place` whose path (relative to its base) is wanted, in no particular order."""
    outcome = Outcome()

    def take(record: bytes) -> bool:
        path = os.fsdecode(record).removeprefix("./")
        if wanted(path):
            outcome.paths.append(path)
        outcome.cut = len(outcome.paths) >= limit
        return not outcome.cut

    program = ripgrep.find_ripgrep(context.environment.get("PATH", ""), context.workspace.root)
    if program is not None:
        command = [program, *ripgrep.common_options(place), "--files", "--null", "--", place.argument]
        ended = await ripgrep.run(command, place.base, b"\0", take)
        if not ended.unusable:
            outcome.timed_out = ended.timed_out
            return outcome
    return await _walk_files(place, wanted, limit)


def named(context: ToolContext, path: Path) -> list[Path]:
    """Files and directories elsewhere in the workspace with the last name of `path`, likeliest first: those
    that share most of its ending. The search is bounded in time."""
    place = SearchRoot(context.workspace.root, context.workspace.root, context.workspace.closed)
    wanted = path.name.casefold()
    found: set[str] = set()
    deadline = time.monotonic() + NAMED_SECONDS

    def take(record: bytes) -> bool:
        parts = os.fsdecode(record).removeprefix("./").split("/")
        for at, part in enumerate(parts):
            if part.casefold() == wanted:
                found.add("/".join(parts[: at + 1]))
        return len(found) < NAMED_MOST and time.monotonic() < deadline

    program = ripgrep.find_ripgrep(context.environment.get("PATH", ""), context.workspace.root)
    command = [program or "", *ripgrep.common_options(place), "--files", "--null", "--", place.argument]
    if program is None or ripgrep.run_briefly(command, place.base, take, NAMED_SECONDS).unusable:
        walk = Walk(place.root, place.start, NAMED_SECONDS, [*place.closed, *place.environments])
        skip = len(os.fspath(place.base).rstrip("/")) + 1
        all(take(os.fsencode(file[skip:])) for file in walk.files())
    ending = [part.casefold() for part in reversed(path.parts)]

    def likeness(candidate: str) -> tuple[int, int, str]:
        parts = [part.casefold() for part in reversed(candidate.split("/"))]
        shared = next((n for n, (a, b) in enumerate(zip(parts, ending, strict=False)) if a != b), len(parts))
        return -shared, len(parts), candidate

    return [place.base / candidate for candidate in sorted(found, key=likeness)[:3]]


def only_named(context: ToolContext, path: Path) -> Path | None:
    """The only file of the workspace with the last name of `path`; None if that is not certain."""
    begun = time.monotonic()
    found = named(context, path)
    if len(found) != 1 or time.monotonic() - begun > NAMED_SECONDS or found[0].name != path.name:
        return None
    return found[0] if found[0].is_file() else None


async def find_lines(
    context: ToolContext,
    place: SearchRoot,
    pattern: str,
    glob_names: list[str],
    wanted: Callable[[str], bool],
    limit: int,
) -> Outcome:
    """The first `limit` matching lines in path order, of the files whose path is wanted. `glob_names` only
    narrows what is searched. Raises `BadPattern`."""
    program = ripgrep.find_ripgrep(context.environment.get("PATH", ""), context.workspace.root)
    if program is None:
        return await _walk_lines(place, pattern, wanted, limit)
    command = [program, *ripgrep.common_options(place), *ripgrep.line_options(pattern, glob_names)]
    # A parallel search is twice as fast but unordered: used if all matches fit and can be sorted here. Else
    # matches are frequent, and a search in path order soon has enough; each match is revalidated before it
    # counts, so that invalid ones do not use up the limit.
    plenty = max(1000, 5 * limit)
    for options, enough, recheck in ([], plenty, False), (["--sort", "path"], limit, True):
        found = Outcome()
        ended = await ripgrep.run(
            [*command, *options, "-e", pattern, "--", place.argument],
            place.base,
            b"\n",
            _line_taker(found, wanted, enough, place.base if recheck else None),
        )
        if ended.unusable:
            return await _walk_lines(place, pattern, wanted, limit)
        if ended.code == 2 and not found.lines and ended.message:
            raise BadPattern(ripgrep.sentence(ended.message))
        found.timed_out = ended.timed_out
        if not found.cut:
            break
    found.lines.sort(key=lambda line: (os.fsencode(line.path).split(b"/"), line.number))
    if not found.cut:
        found.lines = await asyncio.to_thread(_all_there, place.base, found.lines)
    return found


def _all_there(base: Path, lines: list[Line]) -> list[Line]:
    with LineCheck(base) as proof:
        return [
            line
            for line in lines
            if proof.holds(line.path, line.offset, line.text.encode("utf-8", "surrogateescape"))
        ]


def _line_taker(
    found: Outcome, wanted: Callable[[str], bool], enough: int, recheck_in: Path | None
) -> Callable[[bytes], bool]:
    verdicts: dict[bytes, bool] = {}

    def take(record: bytes) -> bool:
        name, separator, rest = record.partition(b"\0")
        pieces = rest.split(b":", 3)
        if not separator or len(pieces) != 4:
            return True  # what ripgrep says about a binary file
        path = os.fsdecode(name).removeprefix("./")
        if name not in verdicts:
            verdicts[name] = wanted(path)
        if not verdicts[name]:
            return True
        text = pieces[3].removesuffix(b"\r").decode("utf-8", "surrogateescape")
        line = Line(path, int(pieces[0]), int(pieces[1]), text, int(pieces[2]))
        if recheck_in is None or _all_there(recheck_in, [line]):
            found.cut = len(found.lines) >= enough
            if not found.cut:
                found.lines.append(line)
        return not found.cut

    return take


async def _walk_files(place: SearchRoot, wanted: Callable[[str], bool], limit: int) -> Outcome:
    walk = Walk(place.root, place.start, ripgrep.SECONDS, [*place.closed, *place.environments])
    outcome = Outcome(engine="python")
    base = len(os.fspath(place.base).rstrip("/")) + 1

    def work() -> None:
        for path in walk.files():
            if wanted(path[base:]):
                outcome.paths.append(path[base:])
                if len(outcome.paths) >= limit:
                    outcome.cut = True
                    return

    await _in_thread(work, walk)
    outcome.timed_out = walk.timed_out
    return outcome


async def _walk_lines(place: SearchRoot, pattern: str, wanted: Callable[[str], bool], limit: int) -> Outcome:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what some future Python may read differently
            regex = re.compile(pattern, re.MULTILINE if ripgrep.ACROSS_LINES.search(pattern) else 0)
    except (re.error, RecursionError, OverflowError) as error:
        raise BadPattern(str(error)) from error
    walk = Walk(place.root, place.start, ripgrep.SECONDS, [*place.closed, *place.environments])
    outcome = Outcome(engine="python")
    base = len(os.fspath(place.base).rstrip("/")) + 1

    def found(path: str, number: int, column: int, text: str) -> bool:
        outcome.cut = len(outcome.lines) >= limit
        if not outcome.cut:
            outcome.lines.append(Line(path[base:], number, column, text))
        return not outcome.cut

    await _in_thread(lambda: walk.search(regex, lambda path: wanted(path[base:]), found), walk)
    outcome.timed_out = walk.timed_out
    return outcome


async def _in_thread(work: Callable[[], None], walk: Walk) -> None:
    """Off the loop; a cancelled call tells the walk to stop, which it does at the next file."""
    try:
        await asyncio.to_thread(work)
    finally:
        walk.stop()


_WIDE = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_WIDE_BYTES = 32 * 1024 * 1024  # of a file that has to be read whole to find a line in it
_LONG = 1000
_PREVIEW = re.compile(rb" \[\.\.\. (?:omitted end of long line|\d+ more match(?:es)?)\]$")


class LineCheck:
    """A context manager that keeps the last directory and file open, as matches come file by file."""

    def __init__(self, base: Path) -> None:
        self._base = os.fspath(base).rstrip("/")
        self._directory, self._file = "", ""
        self._descriptors = [-1, -1]  # of the directory, of the file
        self._decoded: bytes | None = None

    def __enter__(self) -> LineCheck:
        return self

    def __exit__(self, *_error: object) -> None:
        self._leave()

    def holds(self, path: str, offset: int, text: bytes) -> bool:
        """Whether the file `path` below the base has `text` at `offset`, both as ripgrep tells them."""
        try:
            self._enter(path)
            return self._has(offset, text)
        except (OSError, ValueError):
            return False

    def _enter(self, path: str) -> None:
        if path == self._file:
            if self._descriptors[1] < 0:
                raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
            return
        self._leave_file()
        self._file, self._decoded = path, None
        directory, _, name = path.rpartition("/")
        if self._descriptors[0] < 0 or directory != self._directory:
            self._leave()
            self._file = path
            self._descriptors[0] = open_directory(f"{self._base}/{directory}".rstrip("/"))
            self._directory = directory
        self._descriptors[1] = open_at(name, self._descriptors[0])

    def _leave_file(self) -> None:
        if self._descriptors[1] >= 0:
            os.close(self._descriptors[1])
        self._descriptors[1], self._file = -1, ""

    def _leave(self) -> None:
        self._leave_file()
        if self._descriptors[0] >= 0:
            os.close(self._descriptors[0])
        self._descriptors[0] = -1

    def _has(self, offset: int, text: bytes) -> bool:
        file = self._descriptors[1]
        if _starts(os.pread(file, len(text), offset), text):
            return True
        mark = os.pread(file, 3, 0)
        if mark == codecs.BOM_UTF8:  # which ripgrep does not count
            return _starts(os.pread(file, len(text), offset + 3), text)
        if mark[:2] not in _WIDE:
            return False
        if self._decoded is None:
            data = os.pread(file, _WIDE_BYTES, 2)
            self._decoded = data.decode(_WIDE[mark[:2]], "replace").encode("utf-8", "replace")
        return _starts(self._decoded[offset : offset + len(text)], text)


def _starts(found: bytes, text: bytes) -> bool:
    """Whether this is the text; of a long line ripgrep gives the beginning, and words of its own after it."""
    return found == text or (len(text) > _LONG and found.startswith(_PREVIEW.sub(b"", text)))


def files_there(base: Path, names: Iterable[str]) -> dict[str, int]:
    """Those of `names` (paths below `base`) that are regular files there, and when each was last changed."""
    found: dict[str, int] = {}
    by_directory = [(path.rpartition("/")[0], path) for path in names]
    for _, group in groupby(sorted(by_directory), key=itemgetter(0)):
        paths = [path for _, path in group]
        # What was exchanged while it was searched is not there, whatever it is by now.
        with contextlib.suppress(OSError, ValueError), parent_of(base / paths[0]) as directory:
            for path in paths:
                with contextlib.suppress(OSError):
                    info = os.stat(path.rpartition("/")[2], dir_fd=directory, follow_symlinks=False)
                    if stat.S_ISREG(info.st_mode):
                        found[path] = info.st_mtime_ns
    return found
