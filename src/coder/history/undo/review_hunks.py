"""Parts of a session's changes, to be kept or taken back one by one.

A hunk is taken back by its lines: what changed in the file since is merged with, and where that cannot be
done cleanly, the file is in conflict.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from coder.base.diff import DiffBlock, grouped, hunk_lines, line_blocks
from coder.base.text import split_lines
from coder.history.undo.apply_steps import PathState, content_digest, decoded_path, path_state
from coder.history.undo.plan import MERGED_BYTES, JournalChange, three_way
from coder.tools.text.hunks import Hunk

Places = Mapping[int, Collection[int] | None]
"""Hunks by number, each whole (None), or these of its runs of changed lines."""


class FileHunks(msgspec.Struct, frozen=True):
    """One file from `old` to `new` (None: absent). `places`: numbers of the hunks that are still there."""

    path: str
    before: PathState
    after: PathState
    old: bytes | None
    new: bytes | None
    made: list[str]
    hunks: list[Hunk]
    places: list[int]

    def goal(self, taken_back: Places, now: PathState, held: bytes) -> tuple[PathState, bytes] | None:
        """The state without these hunks, which are numbers in `places`; None on conflict."""
        if now.same(self.before):
            return now, held
        whole = sum(runs is None for runs in taken_back.values())
        wanted = self.old if whole == len(self._groups()) else self._without(taken_back)
        if now.same(self.after):
            return self._state(wanted, now)
        if self.new is None or wanted is None or now.kind != "file" or now.absent:
            return None
        merged = three_way(self.new, held, wanted) if len(held) <= MERGED_BYTES else None
        return None if merged is None else (PathState(content_digest(merged), now.mode), merged)

    def _state(self, content: bytes | None, now: PathState) -> tuple[PathState, bytes]:
        if content is None:
            return PathState(), b""
        mode = self.before.mode if now.absent or content == self.old else now.mode
        return PathState(content_digest(content), mode), content

    def _groups(self) -> list[list[DiffBlock]]:
        return _groups(self.old, self.new)

    def _without(self, taken_back: Places) -> bytes:
        old, new = _lines(self.old), _lines(self.new)
        groups = self._groups()
        blocks = [
            block
            for at, runs in sorted(taken_back.items())
            for run, block in enumerate(groups[at])
            if runs is None or run in runs
        ]
        found: list[str] = []
        place = 0
        for a, b, c, d in blocks:
            found += [*new[place:c], *old[a:b]]
            place = d
        return "".join([*found, *new[place:]]).encode("latin-1")


def file_hunks(
    path: str, own: list[JournalChange], old: bytes | None, new: bytes | None, name: str
) -> FileHunks | None:
    """None if nothing of it is left to decide on."""
    before, after = own[0].before, own[-1].after
    made = [directory for change in own for directory in change.made]
    hunks = _hunks(old, new, name)
    found = FileHunks(path, before, after, old, new, made, hunks, list(range(len(hunks))))
    now, held = path_state(decoded_path(path))
    if not now.same(after):  # some may have been taken back, or changed, since
        places = [at for at in found.places if not _is_gone(found, at, now, held)]
        found = msgspec.structs.replace(found, hunks=[hunks[at] for at in places], places=places)
    return found if found.hunks else None


def _is_gone(file: FileHunks, at: int, now: PathState, held: bytes) -> bool:
    goal = file.goal({at: None}, now, held)
    return goal is not None and goal[0].same(now)


def _hunks(old: bytes | None, new: bytes | None, name: str) -> list[Hunk]:
    names = (
        "--- " + ("/dev/null" if old is None else f"a/{name}"),
        "+++ " + ("/dev/null" if new is None else f"b/{name}"),
    )
    if old == new:
        return []
    if _whole(old, new):
        body = [*_about("-", old), *_about("+", new)]
        return [Hunk(names, f"@@ -{int(old is not None)} +{int(new is not None)} @@", body)]
    before, after = _lines(old), _lines(new)
    found = []
    for group in _groups(old, new):
        head, *body = hunk_lines(group, _shown(before), _shown(after))
        found.append(Hunk(names, head, body))
    return found


def _about(sign: str, content: bytes | None) -> list[str]:
    return [] if content is None else [f"{sign}({len(content)} bytes)"]


def _whole(old: bytes | None, new: bytes | None) -> bool:
    """Binary, or without lines: it is kept or taken back as one."""
    return any(b"\0" in side for side in (old or b"", new or b"")) or not (old or new)


def _groups(old: bytes | None, new: bytes | None) -> list[list[DiffBlock]]:
    if _whole(old, new):
        return [[]]
    blocks = line_blocks(_lines(old), _lines(new))
    return grouped(blocks) if old is not None and new is not None else [blocks]


def _lines(content: bytes | None) -> list[str]:
    """Latin-1 round-trips every byte, whatever the real encoding."""
    return split_lines((content or b"").decode("latin-1"))


def _shown(lines: list[str]) -> list[str]:
    texts = (line.encode("latin-1").decode("utf-8", errors="replace") for line in lines)
    return [text[:-2] + "\n" if text.endswith("\r\n") else text for text in texts]
