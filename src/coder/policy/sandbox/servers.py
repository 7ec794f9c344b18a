"""The sandbox of a program that runs on while others work: an MCP server."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from coder.policy.sandbox.ladder import Sandbox
from coder.policy.sandbox.places import AccessRules, first_below

_KEPT_BACK = (".git", ".coder")


class LongSandbox(Sandbox):
    """A lock on git's settings ends when the person's git replaces that
    file, and nobody looks at the repository between calls: all of `.git` is locked, unless it was granted."""

    _named: Sequence[str] = ()

    def wrap(self, argv: list[str], *, git_settings: bool = False) -> list[str]:
        self._named = [word for word in argv if os.path.isabs(word) and os.path.exists(word)]
        return super().wrap(argv, git_settings=git_settings)

    def places(self, *, git_settings: bool = False) -> AccessRules:
        found = super().places(git_settings=git_settings)
        # The person named the program and its files, wherever they are.
        seen = dict.fromkeys([*found.seen_in_temp, *first_below(found.temp, self._named)])
        found = msgspec.structs.replace(found, seen_in_temp=list(seen))
        if self.level.rung == "landlock":
            return self._without_locks(found)
        git = [folder for folder in found.pinned if folder not in found.writable]
        return msgspec.structs.replace(found, locked=[*found.locked, *git])

    def _without_locks(self, found: AccessRules) -> AccessRules:
        """The weaker rung cannot lock, and putting back when the server ends would undo the person's own
        changes: of the workspace it may write what is there, less git's and our folder. All of it, to make
        new files at the top for example, only where the person grants that."""
        root, *granted = found.writable
        if root in granted:
            return found
        inside = [path for path in _entries(root) if os.path.basename(path) not in _KEPT_BACK]
        return msgspec.structs.replace(found, writable=[*inside, *granted], locked=[], absent=[], pinned=[])


def _entries(folder: str) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.path for entry in entries if not entry.is_symlink()]
