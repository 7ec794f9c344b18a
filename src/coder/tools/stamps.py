"""What the model has seen of each file: so that changes by others are noticed, and what it has not seen of a
file is not overwritten."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

MOST_KEPT = 16 << 20  # bytes of contents kept to tell what changed; the oldest go first
LARGEST_KEPT = 1 << 20

Lines = tuple[int, int]  # first and last


class _Seen(msgspec.Struct):
    """A file as last seen: its hash, its content where that is kept, and the lines that were not shown."""

    digest: bytes
    content: bytes | None
    unseen: list[Lines]


class FileStamps:
    """By path, what was last shown to or written by the model."""

    def __init__(self) -> None:
        self._seen: dict[Path, _Seen] = {}
        self._touched: set[Path] = set()

    def saw(self, path: Path, content: bytes) -> None:
        """The model knows all of this content: it was shown it, or wrote it."""
        self._keep(path, _Seen(_digest(content), content, []))

    def saw_lines(self, path: Path, content: bytes, shown: list[Lines], total: int) -> None:
        """The model was shown some of the lines; with those of earlier calls they may be all."""
        before, digest = self._seen.get(path), _digest(content)
        unseen = before.unseen if before is not None and before.digest == digest else [(1, total)]
        for lines in (*shown, (total + 1, sys.maxsize)):
            unseen = _without(unseen, lines)
        self._keep(path, _Seen(digest, content, unseen))

    def changed_by_model(self, path: Path, content: bytes, *, all_known: bool) -> None:
        """The model changed a part of the file; it knows the rest only if it knew it before."""
        self._keep(
            path, _Seen(_digest(content), content, [] if all_known else [(1, content.count(b"\n") or 1)])
        )

    def take_touched(self) -> set[Path]:
        """What was shown or written since this was last asked."""
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
        """Whether `content`, just read from `path`, differs from what the model last saw of it."""
        seen = self._seen.get(path)
        return seen is not None and seen.digest != _digest(content)

    def content(self, path: Path) -> bytes | None:
        """What the model last saw, where it is kept."""
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


def _digest(content: bytes) -> bytes:
    from hashlib import blake2b

    return blake2b(content, digest_size=16).digest()
