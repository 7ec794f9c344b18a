"""What a path holds, and making it hold something else: the hands of undo.

Links are never followed: a link is put back as a link, and nothing is read or written through one, also
where a folder becomes a link at that very moment (`tools.opening`).
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import msgspec

from coder.tools.opening import (
    LinkInTheWay,
    delete_file,
    delete_folder,
    open_file,
    parent_of,
    read_at,
)
from coder.tools.storing import replace_file


class Held(msgspec.Struct, frozen=True):
    """What a path held: nothing (a `file` without `blob`), bytes, a link's target, or a folder."""

    blob: str | None = None
    mode: int = 0
    kind: Literal["file", "link", "folder", "other"] = "file"

    @property
    def nothing(self) -> bool:
        return self.kind == "file" and self.blob is None

    def same(self, other: Held) -> bool:
        """The same content; permission bits are looked at apart."""
        return self.kind == other.kind and self.blob == other.blob


class Step(msgspec.Struct, frozen=True):
    """One path on its way from what it holds to what it shall hold. `content` is not read for folders."""

    path: str
    now: Held
    goal: Held
    content: bytes = b""
    merged: bool = False

    @property
    def idle(self) -> bool:
        return self.now.same(self.goal) and (self.goal.nothing or self.now.mode == self.goal.mode)


def path_of(text: str) -> Path:
    return Path(os.fsdecode(text.encode("utf-8", errors="surrogateescape")))


def text_of(path: Path) -> str:
    return os.fsencode(path).decode("utf-8", errors="surrogateescape")


def digest(content: bytes) -> str:
    return blake2b(content, digest_size=20).hexdigest()


def state_of(path: Path) -> tuple[Held, bytes]:
    """What the path holds, with the bytes; raises OSError where that cannot be told. What is reached only by
    way of a folder that has become a link is something else, and not at this path."""
    try:
        with parent_of(path) as folder:
            return _found(path.name, folder)
    except (FileNotFoundError, NotADirectoryError, LinkInTheWay):
        return Held(), b""


def _found(name: str, folder: int) -> tuple[Held, bytes]:
    info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    mode = stat.S_IMODE(info.st_mode)
    if stat.S_ISDIR(info.st_mode):
        return Held(None, mode, "folder"), b""
    if stat.S_ISLNK(info.st_mode):
        target = os.fsencode(os.readlink(name, dir_fd=folder))
        return Held(digest(target), 0, "link"), target
    if not stat.S_ISREG(info.st_mode):
        return Held(None, mode, "other"), b""
    content = read_at(name, folder) or b""
    return Held(digest(content), mode), content


def take(steps: Iterable[Step]) -> list[Step]:
    """Make every path hold its goal. What is in the way goes first, folders come before what is in them.
    The steps that changed something."""
    wanted = [step for step in steps if not step.idle]
    done = []
    folders = [s for s in wanted if s.now.kind == s.goal.kind == "folder"]
    for step in sorted(folders, key=lambda s: s.path):
        _set_bits(path_of(step.path), step.goal.mode | stat.S_IRWXU)
    for step in sorted(wanted, key=lambda s: s.path, reverse=True):  # the innermost first
        if step.goal.nothing or (step.now.kind != step.goal.kind and not step.now.nothing):
            _clear(step)
    for step in sorted(wanted, key=lambda s: s.path):
        path = path_of(step.path)
        if step.goal.nothing:
            if not os.path.lexists(path):
                done.append(step)
            continue
        _make(path, step)
        done.append(step)
    for step in sorted(wanted, key=lambda s: s.path, reverse=True):
        if step.goal.kind == "folder":  # last: a folder without write permission cannot be filled
            with contextlib.suppress(OSError):
                _set_bits(path_of(step.path), step.goal.mode)
    return done


def _clear(step: Step) -> None:
    path = path_of(step.path)
    if step.now.kind == "folder":
        with contextlib.suppress(OSError):  # a person may have put something there
            delete_folder(path)
    else:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            delete_file(path)


def _make(path: Path, step: Step) -> None:
    with parent_of(path, make=True) as folder:
        if step.goal.kind == "folder":
            with contextlib.suppress(FileExistsError):
                os.mkdir(path.name, dir_fd=folder)
        elif step.goal.kind == "link":
            temporary = f".coder-{os.urandom(6).hex()}.tmp"
            os.symlink(os.fsdecode(step.content), temporary, dir_fd=folder)
            os.rename(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        elif step.now.same(step.goal):
            _set_bits(path, step.goal.mode)
        else:
            replace_file(path, step.content, step.goal.mode)


def _set_bits(path: Path, mode: int) -> None:
    """By a descriptor: a change by name would follow a link."""
    descriptor = open_file(path)
    try:
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)
