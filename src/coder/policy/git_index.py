"""Which folders a repository's index takes for repositories of their own.

`git status` looks into each of them, by their settings: those must be as tame as the repository's own.
"""

from __future__ import annotations

import os
from pathlib import Path

from coder.tools.opening import read_whole

_GITLINK = (0o160000).to_bytes(4, "big")
_FIXED = 40  # times, device, mode and the like, before the object's name
_MOST_BYTES = 256 * 1024 * 1024


def gitlinks(git_folder: Path, hash_bytes: int) -> list[str]:
    """Their paths below the work tree. Raises ValueError where an index is not understood, OSError where
    it cannot be read whole."""
    found: list[str] = []
    for file in (git_folder / "index", *git_folder.glob("sharedindex.*")):
        if not file.exists():
            continue
        data = read_whole(file, _MOST_BYTES)
        if _GITLINK in data:  # also a file of that size: then all is read, and nothing found
            found += _read(data, hash_bytes)
    return found


def _read(data: bytes, hash_bytes: int) -> list[str]:
    version = int.from_bytes(data[4:8], "big")
    if data[:4] != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("an index that is not understood")
    found: list[str] = []
    at, path = 12, b""
    for _ in range(int.from_bytes(data[8:12], "big")):
        start, mode = at, data[at + 24 : at + 28]
        flags = int.from_bytes(data[at + _FIXED + hash_bytes : at + _FIXED + hash_bytes + 2], "big")
        at += _FIXED + hash_bytes + (4 if version >= 3 and flags & 0x4000 else 2)
        kept = b""
        if version == 4:  # a path tells how much of the one before it to drop
            drop, at = _number(data, at)
            kept = path[: len(path) - drop]
        end = data.index(b"\0", at)
        path = kept + data[at:end]
        at = end + 1 if version == 4 else start + (end - start + 8) // 8 * 8
        if mode == _GITLINK:
            found.append(os.fsdecode(path))
    return found


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = (value + 1) << 7 | data[at] & 0x7F
    return value, at + 1
