"""Putting bytes on disk so that a reader sees the old file or the new one, never half of it."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path


def replace_file(path: Path, data: bytes, mode: int | None = None) -> None:
    """Make `path` hold `data`: written beside it, then moved over it. Raises `OSError`, changing nothing.

    An existing file keeps its permission bits and owner, a new one gets what the umask leaves of
    0666; `mode` overrides. Missing parent folders are made.
    """
    kept = _stat(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".coder-{os.urandom(6).hex()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    # Bits are narrow until the owner is right: a private file is not readable for a moment either.
    descriptor = os.open(temporary, flags, 0o600 if kept else 0o666)
    try:
        try:
            _write_all(descriptor, data)
            if kept is not None:
                _keep_owner(descriptor, kept)
            bits = mode if mode is not None else stat.S_IMODE(kept.st_mode) if kept else None
            if bits is not None:
                os.fchmod(descriptor, bits)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def missing_parents(path: Path) -> list[Path]:
    """The folders that writing `path` would make, innermost first."""
    missing = []
    for folder in path.parents:
        if folder.exists():
            break
        missing.append(folder)
    return missing


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _keep_owner(descriptor: int, kept: os.stat_result) -> None:
    ours = os.fstat(descriptor)
    if (ours.st_uid, ours.st_gid) != (kept.st_uid, kept.st_gid):
        # Only root may give files away; for others the file becomes theirs, as with any editor.
        with contextlib.suppress(OSError):
            os.fchown(descriptor, kept.st_uid, kept.st_gid)
