"""Opening paths without symlink races (TOCTOU).

Between checking a path and opening it by name, a directory can be swapped for a symlink. Paths that come here
are resolved (`Workspace.resolve`), so no component is a symlink; one that has become a symlink since is not
followed (openat with O_NOFOLLOW, component by component) and raises `SymlinkRace`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

# O_PATH: traversing a directory needs no permission to read it.
_TRAVERSE = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC  # opening a FIFO must not block


class SymlinkRace(OSError):
    """A component of a resolved path has become a symlink."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.ELOOP, "a link took its place while it was being opened", path)


def real_path(path: str | Path) -> str:
    """`os.path.realpath` that survives races; its fallback is refused on opening."""
    try:
        return os.path.realpath(path)
    except OSError:
        return os.path.abspath(path)  # noqa: PTH100 - a Path keeps the ..


@contextlib.contextmanager
def parent_of(path: Path, *, make: bool = False, mode: int = 0o777) -> Iterator[int]:
    """A descriptor of the directory that `path` is in. `make`: create missing directories, with `mode`."""
    descriptor = _open_directory_path(os.path.dirname(path), make=mode if make else None)  # noqa: PTH120 - hot: a Path costs more than the open
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_file(path: Path, flags: int = _READ, mode: int = 0o666) -> int:
    """A descriptor of the file at `path`; a symlink there is refused."""
    with parent_of(path) as directory:
        return _open_nofollow(path.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, directory, path)


def open_directory(path: str) -> int:
    """A descriptor of the directory at a resolved path, for `open_at`."""
    return _open_directory_path(path)


def open_at(name: str, directory: int) -> int:
    """Open the file `name` in an open directory for reading; a symlink is refused."""
    return _open_nofollow(name, _READ | os.O_NOFOLLOW, 0, directory, name)


def open_beneath(path: Path, bound: Path | None, flags: int = _READ, mode: int = 0o666) -> int:
    """Open `path`, following symlinks only within the resolved directory `bound` (None: anywhere)."""
    if bound is None:
        return os.open(path, flags | os.O_CLOEXEC, mode)
    real = Path(real_path(path))
    if not real.is_relative_to(bound):
        raise PermissionError(errno.EPERM, "it is a link that leads out of the project", os.fspath(path))
    return open_file(real, flags, mode)


def stream_of(path: Path) -> BinaryIO:
    """The regular file at a resolved path, for reading; neither a symlink nor a pipe is opened."""
    return _regular(open_file(path), path)


def create_file(path: Path, data: bytes) -> None:
    """A new file at a resolved path, with its directories; raises `FileExistsError` if there is one."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with parent_of(path, make=True) as directory:
        descriptor = os.open(path.name, flags, 0o666, dir_fd=directory)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)


def status_of(path: Path) -> os.stat_result:
    """lstat of what is at `path`."""
    if not path.name:
        return os.lstat(path)
    with parent_of(path) as directory:
        return os.stat(path.name, dir_fd=directory, follow_symlinks=False)


def read_file(path: Path, most: int | None = None) -> bytes:
    with _regular(open_file(path), path) as stream:
        return stream.read() if most is None else stream.read(most)


def read_whole(path: Path, most: int, bound: Path | None = None) -> bytes:
    """The regular file that `path` leads to (`open_beneath`). Raises OSError if longer than `most`."""
    with _regular(open_beneath(path, bound), path) as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), os.fspath(path))
    return data


def read_open(descriptor: int, path: Path, most: int) -> bytes:
    """Read the first `most` bytes of a descriptor and close it; OSError if it is no regular file."""
    with _regular(descriptor, path) as stream:
        return stream.read(most)


def _regular(descriptor: int, path: Path) -> BinaryIO:
    stream = os.fdopen(descriptor, "rb")
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return stream
    stream.close()
    raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))


def read_at(name: str, directory: int) -> bytes | None:
    """The content of the regular file `name` in `directory`; None if there is none."""
    try:
        descriptor = _open_nofollow(name, _READ | os.O_NOFOLLOW, 0, directory, name)
    except FileNotFoundError:
        return None
    with _regular(descriptor, Path(name)) as stream:
        return stream.read()


@contextlib.contextmanager
def scan_directory(path: Path) -> Iterator[tuple[Iterator[os.DirEntry[str]], int]]:
    """Entries of the directory (`path` is the bare name; `stat` works while open), and its descriptor."""
    descriptor = _open_directory_path(os.fspath(path), last=os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with os.scandir(descriptor) as found:
            yield found, descriptor
    finally:
        os.close(descriptor)


def delete_file(path: Path) -> None:
    with parent_of(path) as directory:
        os.unlink(path.name, dir_fd=directory)


def delete_directory(path: Path) -> None:
    """Remove an empty directory; a symlink to one stays."""
    with parent_of(path) as directory:
        os.rmdir(path.name, dir_fd=directory)


def missing_parents(path: Path) -> list[Path]:
    """The directories that writing `path` would create, innermost first."""
    missing = []
    for directory in path.parents:
        if os.path.lexists(directory):
            break
        missing.append(directory)
    return missing


# who has put it there


def repository_of(path: Path) -> Path | None:
    """The nearest directory at or above `path` with `.git`, unless another user has put it above."""
    mine = {0, os.geteuid(), owner_of(path)}
    found = (directory for directory in (path, *path.parents) if (directory / ".git").exists())
    return next((one for one in found if one == path or owner_of(one / ".git") in mine), None)


def owner_of(path: Path) -> int:
    """The user whose file, directory or link `path` is; -1 where it is not there."""
    try:
        return path.lstat().st_uid
    except OSError:
        return -1


def repository_chain(workspace: Path) -> list[Path]:
    """The workspace and its ancestors up to the repository's root; without one the workspace alone."""
    top = repository_of(workspace) or workspace
    return [directory for directory in (workspace, *workspace.parents) if directory.is_relative_to(top)]


# the core: from one component to the next


def _open_directory_path(path: str, *, make: int | None = None, last: int | None = None) -> int:
    """Open an absolute directory. `make`: mode of new directories; `last`: flags of the last component."""
    known = _open_directory_at_once(path, _TRAVERSE if last is None else last | os.O_NOFOLLOW)
    if known is not None:
        return known
    parts = [part for part in path.split("/") if part]
    if not path.startswith("/") or ".." in parts or "." in parts:
        raise ValueError(f"not a resolved path: {path!r}")
    here = os.open("/", _TRAVERSE)
    try:
        for at, part in enumerate(parts, 1):
            flags = _TRAVERSE if last is None or at < len(parts) else last | os.O_NOFOLLOW
            below = _open_component(part, flags, here, path, make=make)
            os.close(here)
            here = below
    except BaseException:
        os.close(here)
        raise
    return here


def _open_directory_at_once(path: str, flags: int) -> int | None:
    """Open the directory by its path if /proc confirms that it is real (five times faster), or None."""
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


def _open_component(part: str, flags: int, directory: int, path: str, *, make: int | None) -> int:
    try:
        return _open_nofollow(part, flags, 0, directory, path)
    except FileNotFoundError:
        if make is None:
            raise
    with contextlib.suppress(FileExistsError):  # created concurrently
        os.mkdir(part, make, dir_fd=directory)
    return _open_nofollow(part, flags, 0, directory, path)


def _open_nofollow(name: str, flags: int, mode: int, directory: int, path: str | Path) -> int:
    try:
        return os.open(name, flags, mode, dir_fd=directory)
    except OSError as error:
        # The errno for a symlink depends on the system, and is shared with what is no directory.
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK) and _was_link(name, directory):
            raise SymlinkRace(os.fspath(path)) from None
        raise


def _was_link(name: str, directory: int) -> bool:
    """Whether a symlink caused the error: it is one, or has already been swapped back to a directory."""
    try:
        mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    except OSError:
        return False
    return stat.S_ISLNK(mode) or stat.S_ISDIR(mode)
