"""Commands that the person allowed with `always`, per project, stored in `$CODER_HOME`.

Every change is a read-modify-replace under a lock, so concurrent processes lose nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

import msgspec

from coder.config.files import JsonFile
from coder.texts import Text


class _AllowFile(msgspec.Struct, frozen=True):
    """The form of `allowlist.json`; `project` is for human readers."""

    project: str = ""
    names: list[str] = []


class Allowlist:
    """Commands that run without approval in one project. An unreadable file allows nothing."""

    def __init__(self, home: Path, root: Path) -> None:
        self._home, self._root = home, root.resolve()

    @cached_property
    def _file(self) -> JsonFile[_AllowFile]:
        """Lazy: a digest loads OpenSSL, which the first request need not wait for."""
        path = project_directory(self._home, self._root) / "allowlist.json"
        return JsonFile(path, _AllowFile, "config.allowlist_not_saved")

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def problem(self) -> Text | None:
        """Why the file was unreadable when it was last read."""
        return self._file.problem

    def names(self) -> list[str]:
        """In the order of approval."""
        return self._file.read().names

    def add(self, *names: str) -> None:
        """Allow these from now on. Raises `ConfigError` if that cannot be saved."""
        self._file.change(lambda known: self._with(dict.fromkeys([*known.names, *names])))

    def revoke(self, name: str) -> bool:
        """Revoke one; returns whether it was allowed. Raises `ConfigError`."""
        known: list[str] = []

        def without(file: _AllowFile) -> _AllowFile:
            known.extend(file.names)
            return self._with(kept for kept in known if kept != name)

        self._file.change(without)
        return name in known

    def _with(self, names: Iterable[str]) -> _AllowFile:
        return _AllowFile(project=str(self._root), names=list(names))


def project_directory(home: Path, root: Path) -> Path:
    """A project's directory in `$CODER_HOME`, named by the digest of its real path."""
    from hashlib import sha256

    real = str(root.resolve()).encode("utf-8", errors="surrogateescape")
    return home / "projects" / sha256(real).hexdigest()[:32]
