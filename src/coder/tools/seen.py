"""What the model has seen of each file (optimistic concurrency): changes by others are detected, and unseen
parts are not overwritten."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from coder.base.text import split_lines

MOST_KEPT = 16 << 20  # bytes of contents kept for diffs; the oldest are evicted first
LARGEST_KEPT = 1 << 20

Lines = tuple[int, int]  # first and last
EVERYTHING: Lines = (1, sys.maxsize)


class _Seen(msgspec.Struct):
    """A file as last seen: its hash, its content if kept, and the lines not shown."""

    digest: bytes
    content: bytes | None
    unseen: list[Lines]


class FileStamps:
    """Per path, what the model was last shown or wrote."""

    def __init__(self) -> None:
        self._seen: dict[Path, _Seen] = {}
        self._touched: set[Path] = set()

    def saw(self, path: Path, content: bytes) -> None:
        """The model knows this content: it was shown it, or wrote it."""
        self._keep(path, _Seen(_digest(content), content, []))

    def saw_lines(self, path: Path, content: bytes, shown: list[Lines], total: int) -> None:
        """The model was shown some of the lines; with those of earlier calls they may be all."""
        before, digest = self._seen.get(path), _digest(content)
        unseen = before.unseen if before is not None and before.digest == digest else [(1, total)]
        for lines in (*shown, (total + 1, sys.maxsize)):
            unseen = _without(unseen, lines)
        self._keep(path, _Seen(digest, content, unseen))

    def saw_changes(self, path: Path, content: bytes) -> None:
        """The model was shown all that others changed since it last saw the file."""
        seen = self._seen.get(path)
        if seen is not None and seen.content is not None:
            unseen = _carried(seen.unseen, seen.content, content, lambda replaced: False)
            self._keep(path, _Seen(_digest(content), content, unseen))

    def changed_by_model(self, path: Path, before: bytes, content: bytes) -> None:
        """The model changed a part of the file. `before` may contain changes by others that it has not
        seen."""
        seen = self._seen.get(path)
        unseen = [EVERYTHING]
        if seen is not None and seen.digest == _digest(before):
            unseen = seen.unseen
        elif seen is not None and seen.content is not None:
            unseen = _carried(seen.unseen, seen.content, before, _by_others)
        self._keep(path, _Seen(_digest(content), content, _carried(unseen, before, content, any)))

    def take_touched(self) -> set[Path]:
        """The files shown or written since the last call."""
        touched, self._touched = self._touched, set()
        return touched

    def forget(self, path: Path) -> None:
        self._seen.pop(path, None)

    def known(self, path: Path) -> bool:
        return path in self._seen

    def unseen(self, path: Path) -> list[Lines]:
        """The lines of a known file that the model was not shown."""
        return self._seen[path].unseen

    def changed(self, path: Path, content: bytes) -> bool:
        """Whether `content`, just read from `path`, differs from what the model last saw."""
        seen = self._seen.get(path)
        return seen is not None and seen.digest != _digest(content)

    def content(self, path: Path) -> bytes | None:
        """The content that the model last saw, if kept."""
        seen = self._seen.get(path)
        return seen.content if seen is not None else None

    def _keep(self, path: Path, seen: _Seen) -> None:
        self._touched.add(path)
        if seen.content is not None and len(seen.content) > LARGEST_KEPT:
            seen.content = None
        self._seen.pop(path, None)  # to the end: the newest
        self._seen[path] = seen
        total = 0
        for kept in reversed(self._seen.values()):
            total += len(kept.content or b"")
            if total > MOST_KEPT:
                kept.content = None


def _without(spans: list[Lines], taken: Lines) -> list[Lines]:
    """The spans less the lines of `taken`."""
    first, last = taken
    pieces = [piece for a, b in spans for piece in ((a, min(b, first - 1)), (max(a, last + 1), b))]
    return [(a, b) for a, b in pieces if a <= b]


def _by_others(replaced: list[bool]) -> bool:
    return True


def _carried(
    unseen: list[Lines], before: bytes, after: bytes, unknown_if: Callable[[list[bool]], bool]
) -> list[Lines]:
    """The lines of `after` that are not known, of a file that was `before` with `unseen` lines. `unknown_if`
    decides on new lines by whether those that they replace were unknown. The model's own are unknown where
    `any` was: of a line that it has not seen it may have changed a part."""
    if not unseen and unknown_if is not _by_others:
        return []
    from coder.base.diff import line_blocks
    from coder.tools.text.file import NotText, load

    try:
        old, new = split_lines(load(before).text), split_lines(load(after).text)
    except NotText:
        return [(1, after.count(b"\n") or 1)]
    unknown = [False] * len(old)
    for first, last in unseen:
        unknown[first - 1 : last] = [True] * (min(last, len(old)) - first + 1)
    now: list[bool] = []
    at = 0
    for a, b, c, d in line_blocks(old, new):
        now += unknown[at:a] + [unknown_if(unknown[a:b])] * (d - c)
        at = b
    now += unknown[at:]
    return _true_runs(now)


def _true_runs(flags: list[bool]) -> list[Lines]:
    runs: list[Lines] = []
    for number, flag in enumerate(flags, 1):
        if flag and runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        elif flag:
            runs.append((number, number))
    return runs


def _digest(content: bytes) -> bytes:
    from hashlib import blake2b

    return blake2b(content, digest_size=16).digest()
