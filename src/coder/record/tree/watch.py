"""Being told by the kernel what changed in a tree, so that fifty thousand files need not be asked one by one.

inotify by ctypes. Where it is missing, full or overflown the tree is walked instead: slower, and as right.
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
MOST_FOLDERS = 20_000  # watches are memory of the kernel, and people's limits are shared with their editors


class Watch:
    """Folders under watch. `changed` gives the paths to look at, or None where nobody can tell any more."""

    def __init__(self) -> None:
        self._fd = -1
        self._folders: dict[int, bytes] = {}
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

    def add(self, folder: bytes) -> None:
        """Before its entries are read: what is made in between is then told twice rather than never."""
        if self.lost or self._add is None:
            return
        number = self._add(self._fd, folder, _MASK) if len(self._folders) < MOST_FOLDERS else -1
        if number < 0:
            # A folder that has vanished meanwhile is no loss; a full table is.
            self.lost = os.path.isdir(folder)
            return
        old = self._folders.get(number)
        if old is not None:
            self._numbers.pop(old, None)
        self._folders[number] = folder
        self._numbers[folder] = number

    def watching(self, folder: bytes) -> bool:
        """True as well where nothing is watched: then nothing is told either."""
        return self.lost or folder in self._numbers

    def forget(self, folder: bytes) -> None:
        """This folder and all below it are gone, or are someone else's business now."""
        below = folder + b"/"
        for path in [p for p in self._numbers if p == folder or p.startswith(below)]:
            number = self._numbers.pop(path)
            self._folders.pop(number, None)
            if self._remove is not None:
                self._remove(self._fd, number)

    def changed(self) -> set[bytes] | None:
        """The paths told of since the last call."""
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
                folder = self._folders.get(number)
                if folder is None:
                    continue
                if mask & _IGNORED:
                    del self._folders[number]
                    if self._numbers.get(folder) == number:
                        del self._numbers[folder]
                elif name:
                    path = folder + b"/" + name
                    found.add(path)
                    if mask & (_CREATE | _MOVED_TO):
                        self._created.add(path)
        return None

    def take_created(self) -> set[bytes]:
        """The names that came since the last call, whether they are still there or not."""
        created, self._created = self._created, set()
        return created

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
        self.lost = True
        self._folders.clear()
        self._numbers.clear()
