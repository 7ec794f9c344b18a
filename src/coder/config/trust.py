"""Which folders the person trusts, and with which settings.

Remembered in `$CODER_HOME/trust.json` by the folder's real path. Of each setting only a digest is
kept (a value may be a key), so that a project that asks for more later asks the person again,
naming what changed; one that asks for less stays trusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from coder.config.errors import ConfigError, shown
from coder.config.files import locked, read_bounded, reason, write_whole
from coder.config.schema import Config
from coder.texts import Phrase

if TYPE_CHECKING:
    from pathlib import Path

    from coder.config.load import Loaded

TrustStatus = Literal["trusted", "untrusted", "changed"]


class TrustedFolder(msgspec.Struct, frozen=True):
    """When a folder was trusted, and the digest of every setting it was trusted with."""

    at: str = ""
    settings: dict[str, str] = {}


class TrustDifference(msgspec.Struct, frozen=True):
    """What a project asks for now against what it was trusted with, as dotted keys, fit to print."""

    added: list[str]
    changed: list[str]
    removed: list[str]


class _TrustFile(msgspec.Struct, frozen=True):
    """The form of `trust.json`."""

    folders: dict[str, TrustedFolder] = {}


class TrustStore:
    """The remembered trust. A file that cannot be read trusts nobody; `problem` then says why."""

    def __init__(self, home: Path) -> None:
        self.path = home / "trust.json"
        self.problem: Phrase | None = None

    def status(self, root: Path, relevant: Mapping[str, Any]) -> TrustStatus:
        """How `root` stands with the settings it has now (`Loaded.relevant`)."""
        known = self._read().folders.get(_real(root))
        if known is None:
            return "untrusted"
        asked = _digests(relevant)
        return "trusted" if all(known.settings.get(key) == asked[key] for key in asked) else "changed"

    def trust(self, root: Path, relevant: Mapping[str, Any]) -> None:
        """Remember the person's yes, for exactly these settings. Raises `ConfigError` if it cannot."""
        from datetime import UTC, datetime

        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._change(_real(root), TrustedFolder(at=now, settings=_digests(relevant)))

    def revoke(self, root: Path) -> None:
        """Forget a folder. Raises `ConfigError` if it cannot."""
        self._change(_real(root), None)

    def difference(self, root: Path, relevant: Mapping[str, Any]) -> TrustDifference:
        """What changed since the person's yes; everything is new where there was none."""
        known = self._read().folders.get(_real(root), TrustedFolder()).settings
        asked = _digests(relevant)
        return TrustDifference(
            added=[shown(key) for key in asked if key not in known],
            changed=[shown(key) for key in asked if key in known and known[key] != asked[key]],
            removed=[shown(key) for key in known if key not in asked],
        )

    def _read(self) -> _TrustFile:
        self.problem = None
        try:
            data = read_bounded(self.path, str(self.path))
            return _TrustFile() if data is None else msgspec.json.decode(data, type=_TrustFile)
        except ConfigError as error:
            self.problem = error.phrase
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self.problem = Phrase("config.corrupt_store", file=str(self.path), why=reason(error))
        return _TrustFile()

    def _change(self, root: str, entry: TrustedFolder | None) -> None:
        try:
            with locked(self.path):
                folders = dict(self._read().folders)
                if entry is None:
                    folders.pop(root, None)
                else:
                    folders[root] = entry
                write_whole(self.path, msgspec.json.format(msgspec.json.encode(_TrustFile(folders=folders))))
        except OSError as error:
            raise ConfigError("config.trust_not_saved", file=str(self.path), why=reason(error)) from None


def load_with_trust(
    cwd: Path,
    home: Path,
    environ: Mapping[str, str],
    flags: Mapping[str, Any],
    config_file: Path | None,
) -> tuple[Loaded, TrustStatus]:
    """The configuration as far as this folder is trusted, and how it stands (`trusted` also where
    there is nothing to trust). Raises `ConfigError`, nothing else."""
    from coder.config.load import load

    loaded = load(cwd, home, environ, flags, config_file, trusted=False)
    if not loaded.relevant:
        return loaded, "trusted"
    status = TrustStore(home).status(cwd, loaded.relevant)
    if status == "trusted":
        trusted = load(cwd, home, environ, flags, config_file, trusted=True)
        # Trust is for what was compared, not for what may have been written a moment later
        return (trusted, status) if trusted.relevant == loaded.relevant else (loaded, "changed")
    return loaded, status


def needs_trust(root: Path, person: Config | None = None) -> bool:
    """Whether the project's configuration holds anything that waits for trust.

    `person` is what the person's own layers say (the defaults if not given). A file that cannot
    be read holds nothing: loading it says what is wrong.
    """
    from coder.config.load import PROJECT_FILE, read_settings
    from coder.config.loosening import loosenings

    try:
        project = read_settings(root / PROJECT_FILE, PROJECT_FILE)
    except ConfigError:
        return False
    if not project:
        return False
    from coder.config.layers import merged

    own = person or Config()
    together = msgspec.convert(merged(msgspec.to_builtins(own), project), Config)
    return bool(loosenings(project, own, together, root))


def _real(root: Path) -> str:
    return str(root.resolve())


def _digests(relevant: Mapping[str, Any]) -> dict[str, str]:
    from hashlib import sha256

    return {
        key: sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()
        for key, value in relevant.items()
    }
