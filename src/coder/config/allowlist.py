"""Commands that the person allowed with `always`, per project, stored in `$CODER_HOME`.

Every change is a read-modify-replace under a lock, so concurrent processes lose nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from coder.base.files import locked, set_aside, write_durably
from coder.config import ConfigError
from coder.config.files import read_bounded, reason
from coder.texts import Text

if TYPE_CHECKING:
    from pathlib import Path


class _AllowFile(msgspec.Struct, frozen=True):
    """The form of `allowlist.json`; `project` is for human readers."""

    project: str = ""
    names: list[str] = []


class Allowlist:
    """Commands that run without approval in one project. An unreadable file allows nothing; `problem` then
    says why."""

    def __init__(self, home: Path, root: Path) -> None:
        self._home, self._root = home, root.resolve()
        self.problem: Text | None = None

    @cached_property
    def path(self) -> Path:
        """Made when it is needed: a digest loads OpenSSL, which the first request need not wait for."""
        return project_directory(self._home, self._root) / "allowlist.json"

    def names(self) -> list[str]:
        """In the order of approval."""
        self.problem = None
        try:
            data = read_bounded(self.path, str(self.path))
            return [] if data is None else msgspec.json.decode(data, type=_AllowFile).names
        except ConfigError as error:
            self.problem = error.phrase
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self.problem = Text("config.corrupt_store", file=str(self.path), why=reason(error))
        return []

    def add(self, *names: str) -> None:
        """Allow these from now on. Raises `ConfigError` if that cannot be saved."""
        self._change(lambda known: dict.fromkeys([*known, *names]))

    def revoke(self, name: str) -> bool:
        """Revoke one; returns whether it was allowed. Raises `ConfigError`."""
        had: list[bool] = []

        def less(known: list[str]) -> list[str]:
            had.append(name in known)
            return [kept for kept in known if kept != name]

        self._change(less)
        return had == [True]

    def _change(self, change: Callable[[list[str]], Iterable[str]]) -> None:
        try:
            with locked(self.path):
                file = _AllowFile(project=str(self._root), names=list(change(self.names())))
                if self.problem is not None:
                    set_aside(self.path)
                write_durably(self.path, msgspec.json.format(msgspec.json.encode(file)))
        except OSError as error:
            raise ConfigError("config.allowlist_not_saved", file=str(self.path), why=reason(error)) from None


def project_directory(home: Path, root: Path) -> Path:
    """A project's directory in `$CODER_HOME`, named by the digest of its real path."""
    from hashlib import sha256

    real = str(root.resolve()).encode("utf-8", errors="surrogateescape")
    return home / "projects" / sha256(real).hexdigest()[:32]
