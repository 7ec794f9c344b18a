"""Where a shell line may be working: the workspace, and the folders that its `cd`s lead to."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from coder.policy.scratch import scratch_of

MOST_FOLDERS = 16
_PROTECTED = (".git", ".coder")


class WorkingFolders:
    """The folders that a relative path of the line may start from.

    A `cd` may fail, so every folder before it stays possible. `known`: every `cd` could be followed.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.real_root = os.path.realpath(root)
        self.folders = [root]
        self.known = True
        self.entered = 0  # how often a folder was entered
        self.begins_in = ""  # where the line goes first, and stays
        # By which settings the repositories that git looks at in the line name programs.
        self.drivers: dict[tuple[Path, bool], frozenset[str]] = {}

    def enter(self, target: str | None) -> None:
        """A `cd` to `target` (None: to somewhere unknown)."""
        self.entered += 1
        if target is None or target.startswith("~"):
            self.known = False
            return
        # The shell takes `link/..` for where it stands; where that is not there, for what the disk says.
        for folder in self.folders[:]:
            for reached in (folder / target, Path(os.path.normpath(folder / target))):
                if reached not in self.folders:
                    self.folders.append(reached)
        if len(self.folders) > MOST_FOLDERS:
            self.known = False
            del self.folders[MOST_FOLDERS:]

    def looks_at_repository(self, below: str = ".", *, into: bool) -> bool:
        """git is run in `below`: whether it is known what that would start, so that it can be kept from it.
        `into`: it looks into repositories within as well."""
        from coder.policy.programs.git_environment import driver_names

        for folder in (place / below for place in self.folders):
            if (folder, into) not in self.drivers:
                found = driver_names(folder, self.root, into=into) if self.known else None
                if found is None:
                    return False
                self.drivers[folder, into] = found
        return self.known

    def named(self, name: str) -> str:
        """A name that means something else in each folder, with the one that the line goes to; nothing where
        it may be another."""
        if len(self.folders) == 1 and self.known:
            return name
        return f"{name} (in {os.path.normpath(self.begins_in)})" if name and self.begins_in else ""

    def inside(self, target: str) -> bool:
        """Whether `target` certainly lies in the workspace, wherever the line may be by then."""
        if target.startswith("~") or not (self.known or target.startswith("/")):
            return False
        return all(self._contains(_real(folder / target)) for folder in self.folders)

    def in_scratch(self, target: str) -> bool:
        """Whether `target` certainly lies in the scratch folder."""
        if not target.startswith("/"):
            return False
        return _real(Path(target)).startswith(_real(Path(self.scratch)) + "/")

    @property
    def scratch(self) -> str:
        try:
            return scratch_of(self.root)
        except OSError:
            return "/nonexistent"

    def holds_program(self, name: str) -> bool:
        """Whether the shell finds a program of this name in the workspace, where the model may have written
        it. By the shell's rule, not ours (`process.executables`): nothing is started here."""
        found = shutil.which(name)
        return found is not None and (self._contains(_real(Path(found))) or not Path(found).is_absolute())

    def protected(self, target: str) -> bool:
        """Whether `target` is among the files by which git or coder itself is steered."""
        for folder in self.folders:
            real = _real(folder / target)
            below = real.removeprefix(self.real_root) if self._contains(real) else real
            if any(part in _PROTECTED for part in Path(below).parts):
                return True
        return False

    def exists(self, target: str) -> bool:
        """Whether something of that name (a dangling link too) may be there already."""
        if not self.known and not target.startswith("/"):
            return True
        try:
            return any(os.path.lexists(folder / target) for folder in self.folders)
        except (OSError, ValueError):
            return True

    def _contains(self, real: str) -> bool:
        return real == self.real_root or real.startswith(self.real_root.rstrip("/") + "/")


def _real(path: Path) -> str:
    return os.path.realpath(path)
