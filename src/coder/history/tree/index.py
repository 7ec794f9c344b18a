"""A tree's index on disk: a cache for the next process, and (as `Base`) the state before a command, to
recover the changes of one that was killed together with its session.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from coder.base.files import make_private, write_all, write_atomically

_VERSION = 1
_LENGTH = struct.Struct("=I")
_MAX_DELTA = 20_000  # entries after which the index is rewritten

EntryKind = Literal["file", "link", "folder", "other"]


class IndexEntry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One path. `digest`: of a file's content or a symlink's target; empty if that is not kept."""

    kind: EntryKind
    mode: int
    size: int
    mtime: int
    ctime: int
    inode: int
    digest: bytes


Entries = dict[bytes, IndexEntry]


class SavedIndex(msgspec.Struct, array_like=True):
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

    def read(self, packs: list[tuple[str, int]]) -> SavedIndex | None:
        """None if it is missing or its contents are gone: everything is read again."""
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
            data = msgspec.msgpack.encode(SavedIndex(_VERSION, packs, entries, ignored))
            write_atomically(self.path, data)
            self._inode = self.path.stat().st_ino

    def copy_to(self, other: Path) -> bool:
        """Hard-link to `other`; False if another session has replaced the index meanwhile."""
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

    def read(self, packs: list[tuple[str, int]]) -> SavedIndex | None:
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


def _decode(data: bytes, packs: list[tuple[str, int]]) -> SavedIndex | None:
    try:
        saved = msgspec.msgpack.decode(data, type=SavedIndex)
    except msgspec.DecodeError:
        return None
    sizes = dict(packs)
    if saved.version != _VERSION or any(sizes.get(name, -1) < size for name, size in saved.packs):
        return None
    return saved


_EVENT = struct.Struct("iIII")
_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_Q_OVERFLOW, _IGNORED = 0x4000, 0x8000
_ONLYDIR, _DONT_FOLLOW = 0x01000000, 0x02000000
_MASK = (
    _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONLYDIR | _DONT_FOLLOW
)
MOST_DIRECTORIES = 20_000  # the per-user limit of watches is shared with editors


class InotifyWatch:
    """Watched directories. `lost`: events may be missing."""

    def __init__(self) -> None:
        self._fd = -1
        self._directories: dict[int, bytes] = {}
        self._numbers: dict[bytes, int] = {}
        self._created: set[bytes] = set()
        self._add: Callable[..., int] | None = None
        self._remove: Callable[..., int] | None = None
        self.lost = not self._open()

    def _open(self) -> bool:
        if not sys.platform.startswith("linux"):
            return False
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            self._add, self._remove = libc.inotify_add_watch, libc.inotify_rm_watch
        except (OSError, AttributeError):
            return False
        return self._fd >= 0

    def add(self, directory: bytes) -> None:
        """Call before listing the directory, so that no entry is missed in between."""
        if self.lost or self._add is None:
            return
        number = self._add(self._fd, directory, _MASK) if len(self._directories) < MOST_DIRECTORIES else -1
        if number < 0:
            # A vanished directory is fine; running out of watches is not.
            self.lost = os.path.isdir(directory)
            return
        old = self._directories.get(number)
        if old is not None:
            self._numbers.pop(old, None)
        self._directories[number] = directory
        self._numbers[directory] = number

    def watching(self, directory: bytes) -> bool:
        """Also True once events are lost."""
        return self.lost or directory in self._numbers

    def forget(self, directory: bytes) -> None:
        """Stop watching this directory and all below it."""
        below = directory + b"/"
        for path in [p for p in self._numbers if p == directory or p.startswith(below)]:
            number = self._numbers.pop(path)
            self._directories.pop(number, None)
            if self._remove is not None:
                self._remove(self._fd, number)

    def changed(self) -> set[bytes] | None:
        """Paths changed since the last call; None if events are lost."""
        found: set[bytes] = set()
        while not self.lost:
            try:
                data = os.read(self._fd, 1 << 18)
            except BlockingIOError:
                return found
            except OSError:
                break
            at = 0
            while at < len(data):
                number, mask, _, length = _EVENT.unpack_from(data, at)
                at += _EVENT.size
                name = data[at : at + length].rstrip(b"\0")
                at += length
                if mask & _Q_OVERFLOW:
                    self.lost = True
                directory = self._directories.get(number)
                if directory is None:
                    continue
                if mask & _IGNORED:
                    del self._directories[number]
                    if self._numbers.get(directory) == number:
                        del self._numbers[directory]
                elif name:
                    path = directory + b"/" + name
                    found.add(path)
                    if mask & (_CREATE | _MOVED_TO):
                        self._created.add(path)
        return None

    def take_created(self) -> set[bytes]:
        """Paths created since the last call, still present or not."""
        created, self._created = self._created, set()
        return created

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
        self.lost = True
        self._directories.clear()
        self._numbers.clear()
