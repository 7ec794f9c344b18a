"""Files on disk: opened without symlink races (TOCTOU), replaced atomically, kept private."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from coder.base.safe_open import parent_of, read_at, scan_directory

try:
    from _blake2 import blake2b  # what `hashlib` exports; without OpenSSL, which takes 2 ms to load
except ImportError:
    from hashlib import blake2b


def digest(data: bytes, size: int, *, key: bytes = b"", person: bytes = b"") -> str:
    """BLAKE2b of `size` bytes, as hexadecimal digits."""
    return blake2b(data, digest_size=size, key=key, person=person).hexdigest()


_LOCK_SECONDS = 1.0  # our own writes take less; a foreign holder must not block us


class ChangedMeanwhile(Exception):
    """The file differs from what the change was computed from (optimistic concurrency); nothing was done."""


def write_all(descriptor: int, data: bytes) -> None:
    rest: bytes | memoryview = data
    while (written := os.write(descriptor, rest)) < len(rest):
        rest = memoryview(rest)[written:]


def write_atomically(
    path: Path,
    data: bytes,
    mode: int = 0o600,
    *,
    beside: str = "",
    sync: bool = False,
    new: bool = False,
    resolved: bool = False,
) -> None:
    """Atomically write `path` with exactly `mode`. `resolved`: in a project, see `replace_file`. `beside`:
    name of the temporary file, if only this process writes. `new`: raise `FileExistsError`."""
    temporary = beside or _temporary_name()
    with parent_of(path) if resolved else _own_directory(path.parent) as directory:
        if beside:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=directory)
        with _renamed_into_place(temporary, path.name, directory, new=new):
            _write_new(temporary, data, mode, directory, sync=sync)


@contextlib.contextmanager
def _own_directory(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def replace_file(path: Path, data: bytes, mode: int | None = None) -> None:
    """Atomically replace a resolved `path`, making directories. Keeps mode and owner; a new file gets 0666
    minus the umask; `mode` overrides. Raises `OSError`, changing nothing."""
    with parent_of(path, make=True) as directory:
        _replace(path.name, directory, data, mode)


def replace_link(path: Path, target: str) -> None:
    """As `replace_file`, for a symlink."""
    temporary = _temporary_name()
    with parent_of(path, make=True) as directory, _renamed_into_place(temporary, path.name, directory):
        os.symlink(target, temporary, dir_fd=directory)


def exchange_file(path: Path, before: bytes | None, after: bytes | None, mode: int | None = None) -> None:
    """Compare and swap: from `before` to `after` (None: absent), else `ChangedMeanwhile`."""
    with parent_of(path, make=after is not None) as directory:
        if read_at(path.name, directory) != before:
            raise ChangedMeanwhile
        if after is None:
            os.unlink(path.name, dir_fd=directory)
        else:
            _replace(path.name, directory, after, mode)


def read_or_none(path: Path) -> bytes | None:
    """The file's content; None if it is missing or unreadable (writing it will report why)."""
    try:
        with parent_of(path) as directory:
            return read_at(path.name, directory)
    except OSError:
        return None


# the core: write a temporary file and rename it


def _temporary_name() -> str:
    """Unpredictable, so that nobody can plant a symlink; short, because a long name has no room for more."""
    return f".coder-{os.urandom(6).hex()}.tmp"


@contextlib.contextmanager
def _renamed_into_place(temporary: str, name: str, directory: int, *, new: bool = False) -> Iterator[None]:
    """Rename what the block creates to its final name; clean up on failure."""
    try:
        yield
        if not new or not _hard_linked(temporary, name, directory):
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise


def _hard_linked(temporary: str, name: str, directory: int) -> bool:
    """A hard link, unlike a rename, fails if the target exists. False if the file system has none."""
    try:
        os.link(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except FileExistsError:
        raise
    except OSError:
        return False
    os.unlink(temporary, dir_fd=directory)
    return True


def _write_new(
    temporary: str,
    data: bytes,
    mode: int | None,
    directory: int,
    *,
    existing: os.stat_result | None = None,
    sync: bool = False,
) -> None:
    # O_EXCL: a symlink planted in a project must not be followed
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    # 0600 until the owner is set: a private file must not be readable even for a moment.
    descriptor = os.open(temporary, flags, 0o666 if mode is None else 0o600, dir_fd=directory)
    try:
        write_all(descriptor, data)
        if existing is not None:
            _copy_owner(descriptor, existing)
        if mode is not None:
            os.fchmod(descriptor, mode)
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace(name: str, directory: int, data: bytes, mode: int | None) -> None:
    existing = _stat(name, directory)
    if mode is None and existing is not None:
        mode = stat.S_IMODE(existing.st_mode)
    temporary = _temporary_name()
    with _renamed_into_place(temporary, name, directory):
        _write_new(temporary, data, mode, directory, existing=existing)


def _stat(name: str, directory: int) -> os.stat_result | None:
    """Of the regular file there. A symlink is replaced, so its mode does not count."""
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def _copy_owner(descriptor: int, existing: os.stat_result) -> None:
    ours = os.fstat(descriptor)
    if (ours.st_uid, ours.st_gid) != (existing.st_uid, existing.st_gid):
        # Only root may chown; otherwise the file becomes ours, as with any editor.
        with contextlib.suppress(OSError):
            os.fchown(descriptor, existing.st_uid, existing.st_gid)


# locks


@contextlib.contextmanager
def lock_directories(paths: Iterable[Path]) -> Iterator[None]:
    """Hold advisory locks on the files' directories; skips those not free within `_LOCK_SECONDS`."""
    with contextlib.ExitStack() as stack:
        for directory in sorted({path.parent for path in paths}):  # one global order: no deadlock
            try:
                descriptor = stack.enter_context(_open_directory(directory))
            except OSError:  # missing, or not readable
                continue
            wait_for_lock(descriptor)
        yield


@contextlib.contextmanager
def _open_directory(directory: Path) -> Iterator[int]:
    with scan_directory(directory) as (_, descriptor):
        yield descriptor


def wait_for_lock(descriptor: int) -> None:
    """Lock it, or go on without the lock after `_LOCK_SECONDS`."""
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


PRIVATE: Final = 0o600


def write_durably(path: Path, data: bytes, mode: int = PRIVATE, *, resolved: bool = False) -> None:
    """Replace a file atomically after an fsync. `resolved`: see `write_atomically`."""
    # a name that `_remove_leftovers` recognises
    beside = f".{path.name}.{os.urandom(6).hex()}.tmp"
    write_atomically(path, data, mode, beside=beside, sync=True, resolved=resolved)


def make_private(directory: Path) -> None:
    """Create a directory with mode 0700, its missing parents too (`mkdir(parents=True)` gives those 0777)."""
    if not directory.is_dir():
        make_private(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file beside `path`, so that read-modify-replace is one transaction among processes."""
    make_private(path.parent)
    lock = path.with_name(f"{path.name}.lock")
    with _flock(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)):
        _remove_leftovers(path)
        yield


@contextmanager
def locked_by_directory(path: Path, *, make: bool = False) -> Iterator[None]:
    """`locked` without a lock file, which would litter a project. `make`: create the directory."""
    with parent_of(path, make=make) as parent:
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
    try:
        wait_for_lock(descriptor)  # not for ever: whoever can read the directory can hold this lock
        _remove_leftovers(path)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _flock(descriptor: int) -> Iterator[None]:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # releases the lock


def _remove_leftovers(path: Path) -> None:
    """Remove temporary files of a process killed while writing. We hold the lock, so none is in use."""
    with os.scandir(path.parent) as entries:
        left = [e.name for e in entries if e.name.startswith(f".{path.name}.") and e.name.endswith(".tmp")]
    for name in left:
        path.with_name(name).unlink(missing_ok=True)


def set_aside(path: Path) -> None:
    """Rename an unreadable file before it is recreated, so that its content can still be inspected."""
    path.replace(path.with_name(f"{path.name}.damaged"))


def coder_home(environ: Mapping[str, str]) -> Path:
    """`$CODER_HOME`, else `~/.coder`. Raises `RuntimeError` if there is no home directory."""
    if named := environ.get("CODER_HOME"):
        return Path(named).expanduser().absolute()
    return Path(environ.get("HOME") or Path.home()) / ".coder"
