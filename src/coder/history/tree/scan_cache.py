"""Content-addressed cache in a few append-only pack files: fifty thousand small files would take seconds.

Undo copies what it needs, so packs may be dropped at any time.
"""

from __future__ import annotations

import contextlib
import os
import struct
import time
from hashlib import blake2b
from pathlib import Path

from coder.base.files import make_private

_RECORD = struct.Struct("=20sQQ")
_KEPT_PACKS = 8


def digest_of(content: bytes) -> bytes:
    return blake2b(content, digest_size=20).digest()


class BlobStore:
    """Packs in `directory`. Each process appends to its own pack and reads all."""

    def __init__(self, directory: Path, limit: int) -> None:
        self.directory = directory
        self.limit = limit
        self.size = 0
        self._where: dict[bytes, tuple[str, int, int]] | None = None
        self._name = f"{time.time_ns():020d}-{os.getpid()}"
        self._pack = -1
        self._index = -1
        self._end = 0
        self._pending: list[bytes] = []
        self._open: dict[str, int] = {}  # kept open: readable after another process unlinks them

    def packs(self) -> list[tuple[str, int]]:
        """Names and sizes, oldest first."""
        try:
            with os.scandir(self.directory) as found:
                return sorted((e.name, e.stat().st_size) for e in found if e.name.endswith(".pack"))
        except OSError:
            return []

    def forget_old(self, *, in_use: bool = False) -> None:
        """Evict packs, oldest first. `in_use`: other sessions may need any number of packs."""
        packs = self.packs()
        total = sum(size for _, size in packs)
        most = len(packs) if in_use else _KEPT_PACKS
        while packs and (total > self.limit or len(packs) > most):
            name, size = packs.pop(0)
            total -= size
            for path in (self.directory / name, (self.directory / name).with_suffix(".idx")):
                path.unlink(missing_ok=True)

    def _known(self) -> dict[bytes, tuple[str, int, int]]:
        if self._where is None:
            self._where = {}
            self.size = 0
            for name, size in self.packs():
                self.size += size
                with contextlib.suppress(OSError):
                    if name not in self._open:
                        self._open[name] = os.open(self.directory / name, os.O_RDONLY | os.O_CLOEXEC)
                    data = (self.directory / name).with_suffix(".idx").read_bytes()
                    whole = len(data) - len(data) % _RECORD.size
                    for digest, start, length in _RECORD.iter_unpack(data[:whole]):
                        if start + length <= size:
                            self._where[digest] = (name, start, length)
        return self._where

    def add(self, content: bytes) -> bytes | None:
        """Store `content` and return its digest; None if there is no room."""
        digest = digest_of(content)
        known = self._known()
        if digest in known:
            return digest
        if self.size + len(content) > self.limit:
            return None
        try:
            self._append(content)
        except OSError:
            return None  # disk full: reported as not covered
        known[digest] = (f"{self._name}.pack", self._end, len(content))
        self._pending.append(_RECORD.pack(digest, self._end, len(content)))
        self._end += len(content)
        self.size += len(content)
        return digest

    def _append(self, content: bytes) -> None:
        if self._pack < 0:
            make_private(self.directory)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._pack = os.open(self.directory / f"{self._name}.pack", flags, 0o600)
            self._index = os.open(self.directory / f"{self._name}.idx", flags, 0o600)
        done = os.write(self._pack, content)
        if done < len(content):
            os.ftruncate(self._pack, self._end)
            raise OSError("the disk is full")

    def flush(self) -> None:
        """Write the pack's index, for other processes."""
        if self._pending:
            with contextlib.suppress(OSError):
                os.write(self._index, b"".join(self._pending))
            self._pending.clear()

    def get(self, digest: bytes) -> bytes | None:
        """The content, verified against its digest; None if it is gone."""
        place = self._known().get(digest)
        if place is None:
            return None
        name, start, length = place
        try:
            content = self._read(name, start, length)
        except OSError:
            return None
        return content if digest_of(content) == digest else None

    def _read(self, name: str, start: int, length: int) -> bytes:
        fd = self._pack if name == f"{self._name}.pack" else self._open[name]
        parts = []
        while length and (part := os.pread(fd, length, start)):
            parts.append(part)
            start += len(part)
            length -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        self.flush()
        for fd in (self._pack, self._index, *self._open.values()):
            if fd >= 0:
                os.close(fd)
        self._pack = self._index = -1
        self._open.clear()
        self._where = None
