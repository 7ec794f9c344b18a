"""What a path holds, and making it hold something else: the hands of undo.

Links are never followed: a link is put back as a link, and nothing is written through one.
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

from coder.record.files import write_atomically


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
    if os.path.realpath(path.parent) != str(path.parent):
        return Held(), b""
    try:
        info = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return Held(), b""
    mode = stat.S_IMODE(info.st_mode)
    if stat.S_ISDIR(info.st_mode):
        return Held(None, mode, "folder"), b""
    if stat.S_ISLNK(info.st_mode):
        target = os.fsencode(path.readlink())
        return Held(digest(target), 0, "link"), target
    if not stat.S_ISREG(info.st_mode):
        return Held(None, mode, "other"), b""
    content = path.read_bytes()
    return Held(digest(content), mode), content


def led_astray(step: Step, steps: dict[str, Step]) -> bool:
    """Whether a folder above has become something else that this undo does not replace, or the path itself a
    folder with more in it than this undo takes away."""
    if step.idle:
        return False
    path = path_of(step.path)
    for parent in path.parents:
        if parent.is_dir() and not parent.is_symlink():
            continue
        above = steps.get(text_of(parent))
        if os.path.lexists(parent) and (above is None or above.goal.kind != "folder"):
            return True
    if step.now.kind == "folder" and step.goal.kind != "folder" and not step.goal.nothing:
        inside = (steps.get(text_of(child)) for child in path.rglob("*"))
        return any(child is None or not child.goal.nothing for child in inside)
    return False


def take(steps: Iterable[Step]) -> list[Step]:
    """Make every path hold its goal. What is in the way goes first, folders come before what is in them.
    The steps that changed something."""
    wanted = [step for step in steps if not step.idle]
    done = []
    folders = [s for s in wanted if s.now.kind == s.goal.kind == "folder"]
    for step in sorted(folders, key=lambda s: s.path):
        path_of(step.path).chmod(step.goal.mode | stat.S_IRWXU)
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
                path_of(step.path).chmod(step.goal.mode)
    return done


def _clear(step: Step) -> None:
    path = path_of(step.path)
    if step.now.kind == "folder":
        with contextlib.suppress(OSError):  # a person may have put something there
            path.rmdir()
    else:
        path.unlink(missing_ok=True)


def _make(path: Path, step: Step) -> None:
    if step.goal.kind == "folder":
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if step.goal.kind == "link":
        temporary = path.with_name(f".{path.name[:200]}.{os.getpid()}.tmp")
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(os.fsdecode(step.content))
        temporary.replace(path)
    elif step.now.same(step.goal):
        path.chmod(step.goal.mode)
    else:
        write_atomically(path, step.content, step.goal.mode)
