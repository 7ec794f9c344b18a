"""The sandbox of a long-running program: an MCP server."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from coder.policy.sandbox.caches import Layer
from coder.policy.sandbox.ladder import Sandbox
from coder.policy.sandbox.places import ORDINARY, AccessRules, LineAccess, first_below

_EXCLUDED = (".git", ".coder")


class LongSandbox(Sandbox):
    """Locks all of `.git`, unless granted: a lock on git's settings is lost when the person's git replaces
    the file, and nothing checks the repository between calls.
    """

    _named: Sequence[str] = ()

    def wrap(self, argv: list[str], access: LineAccess = ORDINARY) -> list[str]:
        self._named = [word for word in argv if os.path.isabs(word) and os.path.exists(word)]
        return super().wrap(argv, access)

    def places(self, access: LineAccess = ORDINARY, layer: Layer | None = None) -> AccessRules:
        found = super().places(access, layer)
        # The person named the program and its files, so they are visible.
        seen = dict.fromkeys([*found.seen_in_temp, *first_below(found.temp, self._named)])
        found = msgspec.structs.replace(found, seen_in_temp=list(seen))
        if self.level.rung == "landlock":
            return self._without_locks(found)
        git = [directory for directory in found.pinned if directory not in found.writable]
        return msgspec.structs.replace(found, locked=[*found.locked, *git])

    def _without_locks(self, found: AccessRules) -> AccessRules:
        """Landlock cannot lock, and restoring files when the server ends would undo the person's own
        changes: so the server may write the workspace's existing entries except `.git` and `.coder`.
        Writing all of it (new files at the top) must be granted.
        """
        root, *granted = found.writable
        if root in granted:
            return found
        inside = [path for path in _entries(root) if os.path.basename(path) not in _EXCLUDED]
        return msgspec.structs.replace(found, writable=[*inside, *granted], locked=[], absent=[], pinned=[])


def _entries(directory: str) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.path for entry in entries if not entry.is_symlink()]
