"""A tree's index on disk: a cache for the next process, and (as `Base`) the state before a command, to
recover the changes of one that was killed together with its session.
"""

from __future__ import annotations

import contextlib
import os
import struct
from pathlib import Path
from typing import Literal

import msgspec

from coder.fs.atomic import write_all, write_atomically
from coder.fs.private import make_private

_VERSION = 1
_LENGTH = struct.Struct("=I")
_MAX_DELTA = 20_000  # entries after which the index is rewritten

Kind = Literal["file", "link", "folder", "other"]


class IndexEntry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One path. `digest`: of a file's content or a symlink's target; empty where that is not kept."""

    kind: Kind
    mode: int
    size: int
    mtime: int
    ctime: int
    inode: int
    digest: bytes


Entries = dict[bytes, IndexEntry]


class Saved(msgspec.Struct, array_like=True):
    """The serialized index. `packs`: pack files that hold its contents, with their sizes."""

    version: int
    packs: list[tuple[str, int]]
    entries: Entries
    ignored: list[bytes]


class IndexFile:
    """The index shared by the sessions of a workspace. A cache: last writer wins."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._inode = 0  # of the version that matches our state

    def read(self, packs: list[tuple[str, int]]) -> Saved | None:
        """None where it is missing or its contents are gone: everything is read again."""
        with contextlib.suppress(OSError):
            with self.path.open("rb") as file:
                data = file.read()
                self._inode = os.fstat(file.fileno()).st_ino
            return _decode(data, packs)
        return None

    def write(self, packs: list[tuple[str, int]], entries: Entries, ignored: list[bytes]) -> None:
        """Never raises: a missing index is rebuilt."""
        with contextlib.suppress(OSError):
            make_private(self.path.parent)
            data = msgspec.msgpack.encode(Saved(_VERSION, packs, entries, ignored))
            write_atomically(self.path, data)
            self._inode = self.path.stat().st_ino

    def copy_to(self, other: Path) -> bool:
        """Hard-link to `other`; False where another session has replaced the index meanwhile."""
        try:
            os.link(self.path, other)
        except OSError:
            return False
        if other.stat().st_ino == self._inode:
            return True
        other.unlink()
        return False


class Base:
    """The tree before a session's newest command: an index and a delta log."""

    def __init__(self, directory: Path) -> None:
        self._index = directory / "base"
        self._delta = directory / "later"
        self._count = -1  # entries in the delta; negative where there is no index yet

    @property
    def needs_rewrite(self) -> bool:
        return not 0 <= self._count < _MAX_DELTA

    def write(
        self, index: IndexFile, packs: list[tuple[str, int]], entries: Entries, ignored: list[bytes]
    ) -> None:
        """Raises OSError."""
        self._delta.unlink(missing_ok=True)
        self._index.unlink(missing_ok=True)
        if not index.copy_to(self._index):
            own = IndexFile(self._index)
            own.write(packs, entries, ignored)
        self._count = 0

    def append(self, changed: dict[bytes, IndexEntry | None]) -> None:
        """Raises OSError."""
        if not changed:
            return
        data = msgspec.msgpack.encode(changed)
        fd = os.open(self._delta, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            write_all(fd, _LENGTH.pack(len(data)) + data)
        finally:
            os.close(fd)
        self._count += len(changed)

    def read(self, packs: list[tuple[str, int]]) -> Saved | None:
        saved = IndexFile(self._index).read(packs)
        if saved is None:
            return None
        with contextlib.suppress(OSError, msgspec.DecodeError, struct.error):
            data = self._delta.read_bytes()
            at = 0
            while at < len(data):
                (length,) = _LENGTH.unpack_from(data, at)
                at += _LENGTH.size + length
                changed = msgspec.msgpack.decode(data[at - length : at], type=dict[bytes, IndexEntry | None])
                for path, seen in changed.items():
                    if seen is None:
                        saved.entries.pop(path, None)
                    else:
                        saved.entries[path] = seen
        return saved


def _decode(data: bytes, packs: list[tuple[str, int]]) -> Saved | None:
    try:
        saved = msgspec.msgpack.decode(data, type=Saved)
    except msgspec.DecodeError:
        return None
    sizes = dict(packs)
    if saved.version != _VERSION or any(sizes.get(name, -1) < size for name, size in saved.packs):
        return None
    return saved
