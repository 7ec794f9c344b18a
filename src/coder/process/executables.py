"""Finding the programs that coder itself starts: `rg`, `git`, `bash`, `bwrap`, the person's pager and editor.

They run outside the sandbox with the person's rights, so PATH hijacking must be ruled out: no program from
the workspace (an activated `.venv` brings what its project likes), from a relative PATH entry, or that
another user can replace.
"""

from __future__ import annotations

import os
import stat
from functools import lru_cache
from pathlib import Path


def find_program(name: str, path: str | None, workspace: Path | str) -> str | None:
    """The first trusted `name` on `path` (a PATH; None for this process's own). Cached."""
    searched = os.environ.get("PATH", os.defpath) if path is None else path
    return _search(name, searched, str(workspace))


def find_outside(name: str, path: str | None, workspace: Path | str) -> str | None:
    """The first `name` on `path` outside the workspace, even if other users can write it: for a program that
    the person has named, and that runs in the sandbox.
    """
    searched = os.environ.get("PATH", os.defpath) if path is None else path
    return _search(name, searched, str(workspace), shared=True)


def own_command(word: str, path: str | None) -> str | None:
    """The program in a person's setting ($PAGER, $EDITOR): a path as it is, a name looked up."""
    return word if os.sep in word else find_program(word, path, Path.cwd())


@lru_cache(maxsize=64)
def _search(name: str, path: str, workspace: str, shared: bool = False) -> str | None:
    root = Path(workspace).resolve()
    for directory in map(Path, path.split(os.pathsep)):
        program = directory / name
        if directory.is_absolute() and os.access(program, os.X_OK) and _is_trusted(program, root, shared):
            return str(program)
    return None


def _is_trusted(program: Path, workspace: Path, shared: bool) -> bool:
    """Whether the file, its symlink target and the directories above both belong to the person or the system.
    `workspace` is a real path.
    """
    places = {program.parent.resolve() / program.name, program.resolve()}
    return program.is_file() and all(
        not place.is_relative_to(workspace) and (shared or all(map(_only_ours, (place, *place.parents))))
        for place in places
    )


def _only_ours(path: Path) -> bool:
    """Whether only this user and root can change it."""
    try:
        info = path.lstat()
    except OSError:
        return False
    if stat.S_ISLNK(info.st_mode):
        return True  # its target is checked too
    me = os.getuid()
    if info.st_uid not in (0, me):
        return False
    # In a sticky directory others can add entries but not replace them.
    if info.st_mode & stat.S_IWOTH:
        return stat.S_ISDIR(info.st_mode) and bool(info.st_mode & stat.S_ISVTX)
    # User private groups: many systems give each user a group of the same id, with write permission.
    own_group = info.st_gid == 0 or (info.st_gid == os.getgid() == me)
    return not info.st_mode & stat.S_IWGRP or own_group
