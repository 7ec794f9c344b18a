"""inotify through ctypes: the kernel reports changes, so that fifty thousand files need no stat each.

Fallback where it is missing, out of watches or overflown: walking the tree, slower and as exact.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Callable

_EVENT = struct.Struct("iIII")
_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_Q_OVERFLOW, _IGNORED = 0x4000, 0x8000
_ONLYDIR, _DONT_FOLLOW = 0x01000000, 0x02000000
_MASK = (
    _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONLYDIR | _DONT_FOLLOW
)
MOST_DIRECTORIES = 20_000  # the per-user limit of watches is shared with editors


class Watch:
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
        """Paths changed since the last call; None where events are lost."""
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
