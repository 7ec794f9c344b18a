"""Opening a path so that no link can lead elsewhere: its folder first, surely that one, then what is in it.

Whoever checks a path and then opens it by name can be fooled: between the two, a folder may be exchanged
for a link. Paths that come here have been resolved already (`Workspace.resolve`), so none of their parts is
a link. Should one have become a link since, it is not followed, and `LinkInTheWay` says so.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

# A folder is only passed through: with O_PATH no permission to read it is needed, as in any path.
_PASS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC  # never waits, should the file be a pipe


class LinkInTheWay(OSError):
    """A part of a resolved path is a link now."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.ELOOP, "a link took its place while it was being opened", path)


def real_path(path: str | Path) -> str:
    """`os.path.realpath`, which fails where a link becomes a folder while it looks. What comes back then has
    a link in it, and is not opened here."""
    try:
        return os.path.realpath(path)
    except OSError:
        return os.path.abspath(path)  # noqa: PTH100 - a Path keeps the ..


@contextlib.contextmanager
def parent_of(path: Path, *, make: bool = False) -> Iterator[int]:
    """The folder that `path` is in, as a descriptor. `make`: missing folders are made on the way."""
    descriptor = _folder(os.path.dirname(path), make=make)  # noqa: PTH120 - hot: a Path costs more than the opening
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_file(path: Path, flags: int = _READ, mode: int = 0o666) -> int:
    """A descriptor of the file at `path` itself; what is there as a link is not opened."""
    with parent_of(path) as folder:
        return _opened(path.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, folder, path)


def open_folder(path: str) -> int:
    """The folder at a resolved path, to look things up in (`open_in`)."""
    return _folder(path, make=False)


def open_in(name: str, folder: int) -> int:
    """The file `name` in a folder that is open, to read; what is there as a link is not opened."""
    return _opened(name, _READ | os.O_NOFOLLOW, 0, folder, name)


def open_inside(path: Path, bound: Path | None, flags: int = _READ, mode: int = 0o666) -> int:
    """The file that `path` leads to; its links are followed as far as they stay inside `bound`, which is a
    resolved path (None: the file is the person's own, and may be a link to anywhere)."""
    if bound is None:
        return os.open(path, flags | os.O_CLOEXEC, mode)
    real = Path(real_path(path))
    if not real.is_relative_to(bound):
        raise PermissionError(errno.EPERM, "it is a link that leads out of the project", os.fspath(path))
    return open_file(real, flags, mode)


def status_of(path: Path) -> os.stat_result:
    """What is at `path`, a link as a link."""
    if not path.name:
        return os.lstat(path)
    with parent_of(path) as folder:
        return os.stat(path.name, dir_fd=folder, follow_symlinks=False)


def read_file(path: Path, most: int | None = None) -> bytes:
    """The bytes of the regular file at `path`, at most `most` of them."""
    with _regular(open_file(path), path) as stream:
        return stream.read() if most is None else stream.read(most)


def read_whole(path: Path, most: int, bound: Path | None = None) -> bytes:
    """All of the regular file that `path` leads to, as `open_inside` follows it. OSError where that is
    something else, or longer than `most` bytes."""
    with _regular(open_inside(path, bound), path) as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), os.fspath(path))
    return data


def read_open(descriptor: int, path: Path, most: int) -> bytes:
    """The first `most` bytes of what was opened, which is closed; OSError where it is no regular file."""
    with _regular(descriptor, path) as stream:
        return stream.read(most)


def _regular(descriptor: int, path: Path) -> BinaryIO:
    stream = os.fdopen(descriptor, "rb")
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return stream
    stream.close()
    raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))


def read_at(name: str, folder: int) -> bytes | None:
    """What the regular file `name` in `folder` holds; None where there is nothing of that name."""
    try:
        descriptor = _opened(name, _READ | os.O_NOFOLLOW, 0, folder, name)
    except FileNotFoundError:
        return None
    with _regular(descriptor, Path(name)) as stream:
        return stream.read()


@contextlib.contextmanager
def entries_of(path: Path) -> Iterator[tuple[Iterator[os.DirEntry[str]], int]]:
    """What the folder at `path` holds, and its descriptor. An entry's `path` is its name alone, and can be
    asked about while this is open."""
    descriptor = _folder(os.fspath(path), make=False, last=os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with os.scandir(descriptor) as found:
            yield found, descriptor
    finally:
        os.close(descriptor)


def delete_file(path: Path) -> None:
    with parent_of(path) as folder:
        os.unlink(path.name, dir_fd=folder)


def delete_folder(path: Path) -> None:
    """An empty folder; a link to one stays."""
    with parent_of(path) as folder:
        os.rmdir(path.name, dir_fd=folder)


def missing_parents(path: Path) -> list[Path]:
    """The folders that writing `path` would make, innermost first."""
    missing = []
    for folder in path.parents:
        if os.path.lexists(folder):
            break
        missing.append(folder)
    return missing


def _folder(path: str, *, make: bool, last: int | None = None) -> int:
    """A folder by its absolute path; `last` is how the innermost one is opened."""
    known = _known_folder(path, _PASS if last is None else last | os.O_NOFOLLOW)
    if known is not None:
        return known
    parts = [part for part in path.split("/") if part]
    if not path.startswith("/") or ".." in parts or "." in parts:
        raise ValueError(f"not a resolved path: {path!r}")
    here = os.open("/", _PASS)
    try:
        for at, part in enumerate(parts, 1):
            flags = _PASS if last is None or at < len(parts) else last | os.O_NOFOLLOW
            below = _entered(part, flags, here, path, make=make)
            os.close(here)
            here = below
    except BaseException:
        os.close(here)
        raise
    return here


def _known_folder(path: str, flags: int) -> int | None:
    """The folder in one go where the system says that what was opened is at this very path (a fifth of the
    cost of going there part by part); None where it does not, for whatever reason."""
    descriptor = -1
    try:
        descriptor = os.open(path, flags)
        if os.readlink(f"/proc/self/fd/{descriptor}") == path:  # noqa: PTH115 - hot
            return descriptor
    except (OSError, ValueError):
        pass
    if descriptor >= 0:
        os.close(descriptor)
    return None


def _entered(part: str, flags: int, folder: int, path: str, *, make: bool) -> int:
    try:
        return _opened(part, flags, 0, folder, path)
    except FileNotFoundError:
        if not make:
            raise
    with contextlib.suppress(FileExistsError):  # somebody else may have made it meanwhile
        os.mkdir(part, dir_fd=folder)
    return _opened(part, flags, 0, folder, path)


def _opened(name: str, flags: int, mode: int, folder: int, path: str | Path) -> int:
    try:
        return os.open(name, flags, mode, dir_fd=folder)
    except OSError as error:
        # A link gives one error or the other, depending on the system; so does what is no folder.
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK) and _was_link(name, folder):
            raise LinkInTheWay(os.fspath(path)) from None
        raise


def _was_link(name: str, folder: int) -> bool:
    """Whether it was a link that could not be opened: it is one, or is already the folder again."""
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except OSError:
        return False
    return stat.S_ISLNK(mode) or stat.S_ISDIR(mode)
