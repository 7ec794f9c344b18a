"""The possible working directories of a shell line: the workspace, and where its `cd`s lead."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING

from coder.base.process.git import driver_names
from coder.policy.shell.words import Word
from coder.policy.workspace import scratch_of

if TYPE_CHECKING:
    from coder.policy.programs.effects import Written

MOST_DIRECTORIES = 16
_DEVICES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})


class WorkingDirectories:
    """The directories that a relative path of the line may start from. A `cd` may fail, so every earlier
    directory stays possible. `known`: every `cd` could be followed."""

    def __init__(
        self, root: Path, start: Path | None = None, *, confined: bool = False, home: str = ""
    ) -> None:
        """`start`: where the line runs, by default in `root`. `home`: of the command, if it is not ours."""
        self.root = root
        self.confined = confined  # read-only lines run in a sandbox
        self._home = home
        self._real: dict[Path, str] = {}  # one look for each path of the line
        self.real_root = self.real(root)
        self.directories = [start or root]
        self.known = True
        self.cd_count = 0  # number of `cd`s
        self.begins_in = ""  # the target of a leading and only `cd`
        # Settings that name programs, of the repositories that git reads in the line.
        self.drivers: dict[tuple[Path, bool], frozenset[str]] = {}

    def enter(self, target: str | None) -> None:
        """A `cd` to `target` (None: to somewhere unknown)."""
        self.cd_count += 1
        if target is None or target.startswith("~"):
            self.known = False
            return
        # The shell resolves `link/..` lexically, and physically if that does not exist.
        for directory in self.directories[:]:
            for reached in (directory / target, Path(os.path.normpath(directory / target))):
                if reached not in self.directories:
                    self.directories.append(reached)
        if len(self.directories) > MOST_DIRECTORIES:
            self.known = False
            del self.directories[MOST_DIRECTORIES:]

    def git_is_contained(self, below: str = ".", *, into: bool) -> bool:
        """Whether all programs that git would start in `below` are known, so that they can be disabled.
        `into`: nested repositories as well."""
        for directory in (place / below for place in self.directories):
            if (directory, into) not in self.drivers:
                found = driver_names(directory, self.root, into=into) if self.known else None
                if found is None:
                    return False
                self.drivers[directory, into] = found
        return self.known

    def named(self, name: str) -> str:
        """An allowlist name that depends on the directory, with that directory; empty if it is ambiguous."""
        if len(self.directories) == 1 and self.known:
            return name
        return f"{name} (in {os.path.normpath(self.begins_in)})" if name and self.begins_in else ""

    def inside(self, target: str) -> bool:
        """Whether `target` certainly lies in the workspace, from every possible directory."""
        if target.startswith("~") or not (self.known or target.startswith("/")):
            return False
        return all(self._contains(self.real(directory / target)) for directory in self.directories)

    def starting_in(self, directory: Path) -> WorkingDirectories:
        """The same for a command that certainly runs in `directory`. The shell follows `link/..` in it either
        way."""
        here = copy(self)
        here.directories = list(dict.fromkeys((directory, Path(os.path.normpath(directory)))))
        return here

    def named_inside(self, target: str) -> bool:
        """Whether `target` is a path of the workspace, wherever links in it lead."""
        paths = [os.path.normpath(directory / target) for directory in self.directories]
        root = os.fspath(self.root).rstrip("/") + "/"
        return self.known and all(path.startswith((root, f"{self.real_root}/")) for path in paths)

    def outside(self, word: Word, directories: Sequence[Path]) -> str:
        """The real path of an operand outside the workspace, as `target` finds it; "" if it lies inside."""
        path = self.target(word, directories)
        inside = self._contains(path) or path.startswith(self.real(Path(self.scratch)) + "/")
        return "" if inside or path in _DEVICES else path

    def target(self, word: Word, directories: Sequence[Path]) -> str:
        """What a command that writes this operand writes, from one of `directories`: a real path; "" if that
        is not certain."""
        name = word.text
        if not word.exact or not name:
            return ""
        if word.shell_text == "~" or word.shell_text.startswith("~/"):
            name = f"{self._home or Path.home()}{name[1:]}"
        elif not name.startswith("/"):
            if not self.known or len(directories) > 1:
                return ""
            name = f"{directories[0]}/{name}"
        # A new file has no real path of its own, but its directory has.
        above, _, last = name.rstrip("/").rpartition("/")
        found = Path(self.real(Path(above or "/")), last)
        return self.real(found) if last in ("", ".", "..") or found.is_symlink() else str(found)

    def exchangeable(self, write: Written, outside: str) -> bool:
        """Whether a link that a background job puts into the workspace, after the question, would lead this
        write elsewhere. `outside`: where it leads now, if out of the workspace."""
        name = write.word.text
        if self.cd_count:
            return True
        if not outside:  # a link in place of the operand itself is removed or renamed, not followed
            return "/" in name or not write.entry or bool(write.into)
        if write.word.shell_text.startswith("~"):
            return False
        passed = map(self.real, Path(self.root, name).parents)
        return any(real != self.real_root and self._contains(real) for real in passed)

    def in_scratch(self, target: str) -> bool:
        """Whether `target` certainly lies in the scratch directory."""
        if not target.startswith("/"):
            return False
        return self.real(Path(target)).startswith(self.real(Path(self.scratch)) + "/")

    @property
    def scratch(self) -> str:
        try:
            return scratch_of(self.root)
        except OSError:
            return "/nonexistent"

    def holds_program(self, name: str) -> bool:
        """Whether an unconfined line finds this program in the workspace: the model may have written it. By
        the shell's lookup, not `process.programs`: nothing is started here."""
        if self.confined:
            return False
        found = shutil.which(name)
        return found is not None and (self._contains(self.real(Path(found))) or not Path(found).is_absolute())

    def protected(self, target: str) -> bool:
        """Whether `target` is among the files that control git, coder or other agents."""
        from coder.tools.paths import steers

        for directory in self.directories:
            real = self.real(directory / target)
            root = Path(self.real_root if self._contains(real) else "/")
            if ".git" in Path(real).relative_to(root).parts or steers(root, Path(real)):
                return True
        return False

    def exists(self, target: str) -> bool:
        """Whether `target` (a dangling symlink too) may exist."""
        if not self.known and not target.startswith("/"):
            return True
        try:
            return any(os.path.lexists(directory / target) for directory in self.directories)
        except (OSError, ValueError):
            return True

    def real(self, path: Path) -> str:
        """Its real path, looked up once."""
        if path not in self._real:
            self._real[path] = os.path.realpath(path)
        return self._real[path]

    def _contains(self, real: str) -> bool:
        return real == self.real_root or real.startswith(self.real_root.rstrip("/") + "/")
