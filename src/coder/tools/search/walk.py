"""Search fallback without ripgrep: the same results, slower, in a cancellable thread."""

from __future__ import annotations

import codecs
import os
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from coder.base.ignore import IgnoreRules
from coder.base.safe_open import open_file, scan_directory

MAX_SEARCHED_BYTES = 32 * 1024 * 1024  # of one file; larger ones are passed over

_WIDE = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))

Match = Callable[[str, int, int, str], bool]


class Walk:
    """A walk over the files below a directory, in path order, until a deadline or a cancel."""

    def __init__(self, root: Path, start: Path, seconds: float, closed: Collection[str] = ()) -> None:
        self._root, self._start, self._closed = root, start, closed
        self._deadline = time.monotonic() + seconds
        self._stopped = threading.Event()
        self.timed_out = False

    def stop(self) -> None:
        self._stopped.set()

    def _over(self) -> bool:
        if self._stopped.is_set():
            return True
        self.timed_out = self.timed_out or time.monotonic() > self._deadline
        return self.timed_out

    def files(self) -> Iterator[str]:
        """Absolute paths of the regular files, links not followed, ignored ones left out."""
        if self._start.is_file():
            yield os.fspath(self._start)
            return
        stack = [iter(_entries(os.fspath(self._start), IgnoreRules.at(self._root, self._start)))]
        while stack and not self._over():
            found = next(stack[-1], None)
            if found is None:
                stack.pop()
                continue
            path, rules = found
            if path in self._closed:
                continue
            if rules is None:
                yield path
            else:
                stack.append(iter(_entries(path, rules)))

    def search(self, regex: re.Pattern[str], wanted: Callable[[str], bool], found: Match) -> None:
        """Call `found` with each matching line (path, line, byte column, text) until it returns False."""
        for path in self.files():
            if not wanted(path):
                continue
            text = _text(path)
            if text is not None and not all(found(path, *hit) for hit in _hits(regex, text)):
                return


def _entries(directory: str, rules: IgnoreRules) -> Iterator[tuple[str, IgnoreRules | None]]:
    """Files (no rules) and directories (with theirs) that are not hidden, sorted by name."""
    try:
        with scan_directory(Path(directory)) as (found, _descriptor):
            entries = sorted((os.fsencode(e.name), e.name, _kind(e)) for e in found if e.name != ".git")
    except OSError:
        return
    for _, name, kind in entries:
        path = f"{directory.rstrip('/')}/{name}"
        if kind and not rules.hide(path, is_directory=kind == "folder"):
            yield path, rules.inside(path) if kind == "folder" else None


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else ""


def _text(path: str) -> str | None:
    """The file's text; None if it is binary, huge or unreadable. Like ripgrep: bytes are searched as
    they are, whatever 8-bit encoding they were meant in."""
    try:
        descriptor = open_file(Path(path))
        try:
            size = os.fstat(descriptor).st_size
            data = os.read(descriptor, size + 1) if size <= MAX_SEARCHED_BYTES else b"\0"
        finally:
            os.close(descriptor)
    except OSError:
        return None
    for bom, encoding in _WIDE:
        if data.startswith(bom):
            return data[len(bom) :].decode(encoding, "replace")
    return None if b"\0" in data else data.decode("utf-8", "surrogateescape")


def _hits(regex: re.Pattern[str], text: str) -> Iterator[tuple[int, int, str]]:
    if regex.flags & re.MULTILINE:
        yield from _hits_across_lines(regex, text)
        return
    crlf = "\r" in text
    for number, line in enumerate(text.split("\n"), 1):
        if crlf:
            line = line.removesuffix("\r")
        match = regex.search(line)
        if match is not None:
            yield number, _column(line, match.start()), line


def _hits_across_lines(regex: re.Pattern[str], text: str) -> Iterator[tuple[int, int, str]]:
    lines = text.split("\n")
    shown = 0
    for match in regex.finditer(text):
        first = text.count("\n", 0, match.start())
        last = text.count("\n", 0, max(match.start(), match.end() - 1))
        column = _column(text, match.start()) - _column(text, text.rfind("\n", 0, match.start()) + 1) + 1
        for index in range(max(first, shown), last + 1):
            yield index + 1, column, lines[index].removesuffix("\r")
        shown = max(shown, last + 1)


def _column(text: str, index: int) -> int:
    return len(text[:index].encode("utf-8", "surrogateescape")) + 1
