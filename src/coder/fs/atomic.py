"""Atomic writes: a reader sees the old file or the new one, never half of it, also after a crash."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from coder.fs.safe_open import parent_of, read_at

_LOCK_SECONDS = 1.0  # nobody of ours holds it longer than a write takes; others must not stop us


class ChangedMeanwhile(Exception):
    """The file is not any more what the change was computed from; nothing was done."""


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def write_atomically(
    path: Path, data: bytes, mode: int = 0o600, *, beside: str = "", sync: bool = False, new: bool = False
) -> None:
    """Make `path`, in a folder of ours, hold `data` with the bits `mode`, whatever the umask says.

    `beside` names the temporary file where this process alone writes `path`: what a kill left of it is taken
    away by the next write. `sync` waits for the disk. With `new` an existing file stays: `FileExistsError`.
    """
    temporary = path.with_name(beside or _temporary_name())
    if beside:
        temporary.unlink(missing_ok=True)
    with _moved(temporary, path, new=new):
        _write_new(temporary, data, mode, sync=sync)


def replace_file(path: Path, data: bytes, mode: int | None = None) -> None:
    """Make `path` hold `data`: written beside it, then moved over it. Raises `OSError`, changing nothing.

    `path` is a resolved one: no link in it is followed. An existing file keeps its permission bits and
    owner, a new one gets what the umask leaves of 0666; `mode` overrides. Missing parent folders are made.
    """
    with parent_of(path, make=True) as folder:
        _replace(path.name, folder, data, mode)


def replace_link(path: Path, target: str) -> None:
    """As `replace_file`, for a symbolic link."""
    temporary = _temporary_name()
    with parent_of(path, make=True) as folder, _moved(temporary, path.name, folder):
        os.symlink(target, temporary, dir_fd=folder)


def exchange_file(path: Path, before: bytes | None, after: bytes | None, mode: int | None = None) -> None:
    """From `before` to `after` (None: not there), unless the file is something else by now."""
    with parent_of(path, make=after is not None) as folder:
        if read_at(path.name, folder) != before:
            raise ChangedMeanwhile
        if after is None:
            os.unlink(path.name, dir_fd=folder)
        else:
            _replace(path.name, folder, after, mode)


def content_now(path: Path) -> bytes | None:
    """What the file holds, None where there is none; also where it cannot be told, which writing will say."""
    try:
        with parent_of(path) as folder:
            return read_at(path.name, folder)
    except OSError:
        return None


# the core: write beside, move over, leave nothing behind


def _temporary_name() -> str:
    """Nobody can have prepared it. Short: a long name has no room for more."""
    return f".coder-{os.urandom(6).hex()}.tmp"


@contextlib.contextmanager
def _moved(
    temporary: str | Path, name: str | Path, folder: int | None = None, *, new: bool = False
) -> Iterator[None]:
    """What the block makes under the temporary name gets its own; where it fails, nothing is left of it."""
    try:
        yield
        if not new or not _linked(Path(temporary), name):
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _linked(temporary: Path, name: str | Path) -> bool:
    """By a link, which unlike a rename replaces nothing; False on a file system without links."""
    try:
        os.link(temporary, name)
    except FileExistsError:
        raise
    except OSError:
        return False
    temporary.unlink()
    return True


def _write_new(
    temporary: str | Path,
    data: bytes,
    mode: int | None,
    folder: int | None = None,
    *,
    kept: os.stat_result | None = None,
    sync: bool = False,
) -> None:
    # O_EXCL: a link planted in a project must not be followed
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    # Bits are narrow until the owner is right: a private file is not readable for a moment either.
    descriptor = os.open(temporary, flags, 0o666 if mode is None else 0o600, dir_fd=folder)
    try:
        write_all(descriptor, data)
        if kept is not None:
            _keep_owner(descriptor, kept)
        if mode is not None:
            os.fchmod(descriptor, mode)
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace(name: str, folder: int, data: bytes, mode: int | None) -> None:
    kept = _stat(name, folder)
    if mode is None and kept is not None:
        mode = stat.S_IMODE(kept.st_mode)
    temporary = _temporary_name()
    with _moved(temporary, name, folder):
        _write_new(temporary, data, mode, folder, kept=kept)


def _stat(name: str, folder: int) -> os.stat_result | None:
    """Of the regular file that is there; a link that took its place is replaced, and has no bits to keep."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def _keep_owner(descriptor: int, kept: os.stat_result) -> None:
    ours = os.fstat(descriptor)
    if (ours.st_uid, ours.st_gid) != (kept.st_uid, kept.st_gid):
        # Only root may give files away; for others the file becomes theirs, as with any editor.
        with contextlib.suppress(OSError):
            os.fchown(descriptor, kept.st_uid, kept.st_gid)


# locks


@contextlib.contextmanager
def alone_with(paths: Iterable[Path]) -> Iterator[None]:
    """With the locks of the folders that these files are in, so that sessions in one workspace take turns.

    Where a lock cannot be had soon there is none: it is for those who want one, never in the way.
    """
    with contextlib.ExitStack() as stack:
        for folder in sorted(
            {path.parent for path in paths}
        ):  # the same order for all: nobody waits in a ring
            try:
                descriptor = stack.enter_context(_opened_folder(folder))
            except OSError:  # not there yet, or closed to us
                continue
            _lock(descriptor)
        yield


@contextlib.contextmanager
def _opened_folder(folder: Path) -> Iterator[int]:
    with parent_of(folder / "x") as passed:
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=passed)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    import fcntl

    until = time.monotonic() + _LOCK_SECONDS
    while time.monotonic() < until:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.002)
        except OSError:  # a file system without locks
            return
        else:
            return
