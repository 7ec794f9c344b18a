"""Paths hidden by `.gitignore` files, for walks without ripgrep.

Rules count from the top of the repository, or of the workspace where there is no repository: a
`.gitignore` further up (in a home directory, say) is not about this project.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection
from itertools import pairwise
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING

import msgspec

from coder.base.safe_open import read_open, repository_of

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORE_FILE = ".gitignore"
_ENVIRONMENTS = (".venv", "venv")  # as the prompt names them
_MAX_IGNORE_BYTES = 1_000_000
_MOST_STARS = 3  # in one name of a pattern: each more multiplies the time that a long name may take


class SearchRoot(msgspec.Struct, frozen=True):
    """Search `start`; results are relative to `base`. `closed`: places that are not walked into."""

    root: Path
    start: Path
    closed: Collection[str] = ()

    @property
    def left_out(self) -> list[str]:
        """The closed places below `start` that exist."""
        below = os.fspath(self.start).rstrip("/") + "/"
        return [path for path in self.closed if path.startswith(below) and os.path.lexists(path)]

    @property
    def withheld(self) -> list[str]:
        """`left_out` without coder's own directory."""
        return [path for path in self.left_out if not path.startswith(f"{self.root}/.coder/")]

    @property
    def environments(self) -> list[str]:
        """Virtual environments below `start`, whose packages would hide the project's own matches."""
        below = os.fspath(self.start).rstrip("/") + "/"
        found = [self.root / name for name in _ENVIRONMENTS if (self.root / name / "pyvenv.cfg").exists()]
        return [path for path in map(os.fspath, found) if path.startswith(below)]

    @property
    def base(self) -> Path:
        if self.start == self.root or self.root in self.start.parents:
            return self.root
        return self.start if self.start.is_dir() else self.start.parent

    @property
    def argument(self) -> str:
        relative = self.start.relative_to(self.base)
        return f"./{relative}" if relative.parts else "."


def directories_above(root: Path, start: Path) -> list[Path]:
    """The directories whose rules hold in `start` besides its own, outermost first."""
    top = repository_of(start) or root
    if start == top or top not in start.parents:
        return []
    between = [directory for directory in start.parents if directory == top or top in directory.parents]
    return between[::-1]


class IgnoreRules:
    """The rules in force in one directory: its own over those of the directories above it."""

    def __init__(self, layers: tuple[tuple[str, GitIgnoreSpec], ...] = ()) -> None:
        self._layers = layers

    @classmethod
    def at(cls, root: Path, start: Path) -> IgnoreRules:
        """The rules for the entries of `start`; its own alone if it is itself ignored."""
        rules = cls()
        for directory, below in pairwise([*directories_above(root, start), start]):
            rules = rules.inside(os.fspath(directory))
            if rules.hide(os.fspath(below), is_directory=True):
                rules = cls()
                break
        return rules.inside(os.fspath(start))

    def inside(self, directory: str) -> IgnoreRules:
        """The rules for the entries of `directory`."""
        lines = _lines(Path(directory, IGNORE_FILE))
        if not lines:
            return self
        from pathspec import GitIgnoreSpec

        try:
            spec = GitIgnoreSpec.from_lines(lines)
        except ValueError:
            return self  # a pattern git itself would pass over
        return IgnoreRules(((directory.rstrip("/"), spec), *self._layers))

    def hide(self, path: str, *, is_directory: bool) -> bool:
        for directory, spec in self._layers:
            relative = path[len(directory) + 1 :] + ("/" if is_directory else "")
            verdict = spec.check_file(relative).include
            if verdict is not None:
                return verdict
        return False


def _lines(path: Path) -> list[str]:
    try:
        # Not through a link: git does not either, and a pipe is not waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        data = read_open(descriptor, path, _MAX_IGNORE_BYTES)
    except OSError:
        return []
    lines = data.decode("utf-8", "surrogateescape").splitlines()
    return [line for line in lines if line.strip() and _is_quick(line)]


def _is_quick(pattern: str) -> bool:
    """Whether it matches in bounded time: `*a*a*a*a*b` takes hours for one long name."""
    names = pattern.split("/")
    stars = [len(re.findall(r"\*+", name)) for name in names]
    return max(stars) <= _MOST_STARS and sum(stars) <= 2 * _MOST_STARS and names.count("**") <= 2


def odd_ignore_file(directory: Path, seconds: float = 5.0) -> bool:
    """Whether a `.gitignore` below or above is no regular file: ripgrep would wait for a pipe for ever."""
    deadline = time.monotonic() + seconds
    if any(_is_odd(above / IGNORE_FILE) for above in directory.parents):
        return True
    waiting = [os.fspath(directory)]
    while waiting and time.monotonic() < deadline:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.name == IGNORE_FILE and not entry.is_file(follow_symlinks=False):
                        return True
                    if entry.name != ".git" and entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue
    return False


def _is_odd(path: Path) -> bool:
    try:
        return not S_ISREG(path.lstat().st_mode)
    except OSError:
        return False
