"""Finding the programs that coder itself starts: `rg`, `git`, `bash`, `bwrap`, the person's pager and editor.

They run outside the sandbox, with the person's rights, so they must be the person's own or the system's:
never one that lies in the workspace (an activated `.venv` brings what its project likes), that is found by
where one stands, or that somebody else may exchange.
"""

from __future__ import annotations

import os
import stat
from functools import lru_cache
from pathlib import Path


def find_program(name: str, path: str | None, workspace: Path | str) -> str | None:
    """The first `name` on `path` (a PATH; None for this process's own) that may be run. Looked for once."""
    searched = os.environ.get("PATH", os.defpath) if path is None else path
    return _found(name, searched, Path(workspace).resolve())


def find_outside(name: str, path: str | None, workspace: Path | str) -> str | None:
    """The first `name` on `path` that no project brings, whoever else may write it: for a program that the
    person has named, and that runs in the sandbox."""
    searched = os.environ.get("PATH", os.defpath) if path is None else path
    return _found(name, searched, Path(workspace).resolve(), shared=True)


def own_command(word: str, path: str | None) -> str | None:
    """What a person's setting ($PAGER, $EDITOR) names: by its place as it stands, by its name as found."""
    return word if os.sep in word else find_program(word, path, Path.cwd())


@lru_cache(maxsize=64)
def _found(name: str, path: str, workspace: Path, shared: bool = False) -> str | None:
    for folder in map(Path, path.split(os.pathsep)):
        program = folder / name
        if folder.is_absolute() and os.access(program, os.X_OK) and _is_own(program, workspace, shared):
            return str(program)
    return None


def _is_own(program: Path, workspace: Path, shared: bool) -> bool:
    """Whether this is a file of the person's or the system's by every name that leads to it: itself, what it
    links to, and the folders above both. `workspace` is a real path."""
    places = {program.parent.resolve() / program.name, program.resolve()}
    return program.is_file() and all(
        not place.is_relative_to(workspace) and (shared or all(map(_unshared, (place, *place.parents))))
        for place in places
    )


def _unshared(path: Path) -> bool:
    """Whether nobody but the person and root can change this."""
    try:
        info = path.lstat()
    except OSError:
        return False
    if stat.S_ISLNK(info.st_mode):
        return True  # what it leads to is looked at as well
    me = os.getuid()
    if info.st_uid not in (0, me):
        return False
    # In a sticky folder others may add, and not exchange.
    if info.st_mode & stat.S_IWOTH:
        return stat.S_ISDIR(info.st_mode) and bool(info.st_mode & stat.S_ISVTX)
    # Many systems give each person a group of the same number, and let it write.
    own_group = info.st_gid == 0 or (info.st_gid == os.getgid() == me)
    return not info.st_mode & stat.S_IWGRP or own_group
