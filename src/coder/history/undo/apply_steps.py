"""Read the state of a path and change it to another: the file operations of undo.

Symlinks are restored as symlinks and never followed, not even one swapped in for a parent directory
(TOCTOU, see `fs.safe_open`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import msgspec

from coder.base.files import lock_directories, replace_file, replace_link
from coder.base.safe_open import (
    SymlinkRace,
    delete_directory,
    delete_file,
    open_file,
    parent_of,
    read_at,
    status_of,
)

_LARGEST = 256 << 20  # more than any tool writes or the journal keeps of a command's change

_NO_PERMISSION = (errno.EACCES, errno.EPERM, errno.EROFS)


class PathState(msgspec.Struct, frozen=True, omit_defaults=True):
    """State of a path: absent (a `file` without `blob`), a file, a symlink, or a directory."""

    blob: str | None = None
    mode: int = 0
    kind: Literal["file", "link", "folder", "other"] = "file"

    @property
    def absent(self) -> bool:
        return self.kind == "file" and self.blob is None

    def same(self, other: PathState) -> bool:
        """The same kind and content; permission bits are compared separately."""
        return self.kind == other.kind and self.blob == other.blob


class PathStep(msgspec.Struct, frozen=True):
    """Change one path from its state `now` to `goal`. `content` is unused for directories."""

    path: str
    now: PathState
    goal: PathState
    content: bytes = b""
    merged: bool = False

    @property
    def is_noop(self) -> bool:
        return self.now.same(self.goal) and (self.goal.absent or self.now.mode == self.goal.mode)


def decoded_path(text: str) -> Path:
    return Path(os.fsdecode(text.encode("utf-8", errors="surrogateescape")))


def text_of(path: Path) -> str:
    return os.fsencode(path).decode("utf-8", errors="surrogateescape")


def content_digest(content: bytes) -> str:
    return blake2b(content, digest_size=20).hexdigest()


def path_state(path: Path) -> tuple[PathState, bytes]:
    """A path's state and bytes; absent behind a symlinked parent. Raises OSError (unreadable, too large)."""
    try:
        with parent_of(path) as directory:
            try:
                return _read_state(path.name, directory)
            except PermissionError:
                with temporarily_readable(path):
                    return _read_state(path.name, directory)
    except (FileNotFoundError, NotADirectoryError, SymlinkRace):
        return PathState(), b""


@contextlib.contextmanager
def temporarily_readable(path: Path) -> Iterator[None]:
    """Give the owner read permission for the duration of the block."""
    mode = stat.S_IMODE(status_of(path).st_mode)
    _chmod_nofollow(path, mode | stat.S_IRUSR | stat.S_IXUSR)
    try:
        yield
    finally:
        _chmod_nofollow(path, mode)


def _read_state(name: str, directory: int) -> tuple[PathState, bytes]:
    info = os.stat(name, dir_fd=directory, follow_symlinks=False)
    mode = stat.S_IMODE(info.st_mode)
    if stat.S_ISDIR(info.st_mode):
        return PathState(None, mode, "folder"), b""
    if stat.S_ISLNK(info.st_mode):
        target = os.fsencode(os.readlink(name, dir_fd=directory))
        return PathState(content_digest(target), 0, "link"), target
    if not stat.S_ISREG(info.st_mode):
        return PathState(None, mode, "other"), b""
    if info.st_size > _LARGEST:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), name)
    content = read_at(name, directory) or b""
    return PathState(content_digest(content), mode), content


def apply_steps(steps: Iterable[PathStep]) -> list[PathStep]:
    """Apply the steps: removals first, parents before children. Returns the steps that changed something."""
    pending = [step for step in steps if not step.is_noop]
    directories = [s for s in pending if s.now.kind == s.goal.kind == "folder"]
    for step in sorted(directories, key=lambda s: s.path):
        _chmod_nofollow(decoded_path(step.path), step.goal.mode | stat.S_IRWXU)
    for step in sorted(pending, key=lambda s: s.path, reverse=True):  # the innermost first
        if step.goal.absent or (step.now.kind != step.goal.kind and not step.now.absent):
            _remove(step)
    # Checked before anything is created: a symlink in the place of a directory would show its target.
    done = [step for step in pending if step.goal.absent and not os.path.lexists(decoded_path(step.path))]
    for step in sorted(pending, key=lambda s: s.path):
        if not step.goal.absent:
            _create(decoded_path(step.path), step)
            done.append(step)
    for step in sorted(pending, key=lambda s: s.path, reverse=True):
        if step.goal.kind == "folder":  # last: nothing can be created in a read-only directory
            with contextlib.suppress(OSError):
                _chmod_nofollow(decoded_path(step.path), step.goal.mode)
    return done


def _check_unchanged(step: PathStep) -> None:
    """Optimistic concurrency check: refuse to replace what was written after planning."""
    path = decoded_path(step.path)
    now = path_state(path)[0]
    if not now.same(step.now) and not now.same(step.goal):
        raise OSError(errno.EBUSY, "it is being changed at this very moment", step.path)


def _remove(step: PathStep) -> None:
    path = decoded_path(step.path)
    if step.now.kind == "folder":
        try:
            delete_directory(path)
        except OSError as error:
            if error.errno in _NO_PERMISSION:  # otherwise not empty: reported as kept
                raise
        return
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), lock_directories([path]):
        _check_unchanged(step)
        delete_file(path)


def _create(path: Path, step: PathStep) -> None:
    with parent_of(path, make=True) as directory:
        if step.goal.kind == "folder":
            with contextlib.suppress(FileExistsError):
                os.mkdir(path.name, dir_fd=directory)
        elif step.goal.kind == "link":
            replace_link(path, os.fsdecode(step.content))
        elif step.now.same(step.goal):
            _chmod_nofollow(path, step.goal.mode)
        else:
            with lock_directories([path]):
                if step.now.kind == "file":
                    _check_unchanged(step)
                replace_file(path, step.content, step.goal.mode)


def _chmod_nofollow(path: Path, mode: int) -> None:
    """chmod by descriptor, since chmod by name follows symlinks. O_PATH needs no read permission."""
    descriptor = open_file(path, getattr(os, "O_PATH", os.O_RDONLY))
    try:
        if stat.S_ISLNK(os.fstat(descriptor).st_mode):
            raise SymlinkRace(os.fspath(path))
        if hasattr(os, "O_PATH"):
            Path(f"/proc/self/fd/{descriptor}").chmod(mode)
        else:
            os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)
