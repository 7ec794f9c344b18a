"""Revalidate ripgrep's results (TOCTOU): it opens files by name, and a directory may become a link meanwhile.

Every line is compared with the file that is there, opened directory by directory, and every name is
looked up in its directory in the same way. What does not hold is left out, and counted nowhere: a search must
not tell whether a pattern matches somewhere else.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from coder.fs.safe_open import open_at, open_directory, parent_of

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
                changed_at = _changed_at(path.rpartition("/")[2], directory)
                if changed_at is not None:
                    found[path] = changed_at
    return found


def _changed_at(name: str, directory: int) -> int | None:
    try:
        info = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return None
    return info.st_mtime_ns if stat.S_ISREG(info.st_mode) else None
