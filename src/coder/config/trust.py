"""Directories that the person trusts, and with which settings.

`$CODER_HOME/trust.json` holds, by real path, a digest of each setting and its displayed value (secrets
redacted). A project that later asks for more needs trust again, and the differences are shown; one that asks
for less stays trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from coder.base.text import shown
from coder.config.files import JsonFile
from coder.config.load import load_config
from coder.texts import Catalog, Text

if TYPE_CHECKING:
    from pathlib import Path

    from coder.config.load import Loaded
    from coder.config.loosening import PresetTable

MODES = "modes/"  # key prefix of commands in custom modes
_LONGEST_SHOWN = 400  # characters of a value
_SECRET_NAMES = ("key", "token", "secret", "passw", "credential", "auth", "cookie")
_SECRET_PLACES = ("env", "headers")
TrustStatus = Literal["trusted", "untrusted", "changed"]


class TrustedDirectory(msgspec.Struct, frozen=True):
    """When a directory was trusted, and each setting's digest and displayed value."""

    at: str = ""
    settings: dict[str, str] = {}
    values: dict[str, str] = {}


class TrustDifference(msgspec.Struct, frozen=True):
    """Settings that differ from the trusted ones: sanitized dotted keys, with old and new values if known."""

    added: list[str]
    changed: list[str]
    removed: list[str]
    now: dict[str, str] = {}
    then: dict[str, str] = {}

    def lines(self, texts: Catalog) -> list[str]:
        return [text.text(texts) for text in self.texts()]

    def texts(self) -> list[Text]:
        """One line for each setting that differs."""

        def line(kind: str, key: str) -> Text:
            unknown = Text("trust.value_unknown")
            then = self.then.get(key, unknown)
            return Text(f"trust.{kind}", key=key, value=self.now.get(key, unknown), then=then)

        kinds = {"line_added": self.added, "line_changed": self.changed, "line_removed": self.removed}
        return [line(kind, key) for kind, keys in kinds.items() for key in keys]


class _TrustFile(msgspec.Struct, frozen=True, rename={"directories": "folders"}):
    """The form of `trust.json`."""

    directories: dict[str, TrustedDirectory] = {}


class TrustStore:
    """The trust file. An unreadable one trusts nothing; `problem` then says why."""

    def __init__(self, home: Path) -> None:
        self._file = JsonFile(home / "trust.json", _TrustFile, "config.trust_not_saved")

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def problem(self) -> Text | None:
        return self._file.problem

    def status(self, root: Path, relevant: Mapping[str, Any]) -> TrustStatus:
        """The status of `root` with its current settings (`Loaded.relevant`)."""
        known = self._file.read().directories.get(_real(root))
        if known is None:
            return "untrusted"
        asked = _digests(relevant)
        return "trusted" if all(known.settings.get(key) == asked[key] for key in asked) else "changed"

    def trust(self, root: Path, relevant: Mapping[str, Any]) -> None:
        """Trust exactly these settings. Raises `ConfigError`."""
        self._change(_real(root), lambda _before: _entry(relevant))

    def trust_also(self, root: Path, more: Mapping[str, Any]) -> None:
        """Trust these in addition. Raises `ConfigError`."""
        added = _entry(more)

        def together(before: TrustedDirectory) -> TrustedDirectory:
            settings, values = before.settings | added.settings, before.values | added.values
            return TrustedDirectory(added.at, settings, values)

        self._change(_real(root), together)

    def revoke(self, root: Path) -> None:
        """Forget a directory. Raises `ConfigError`."""
        self._change(_real(root), lambda _before: None)

    def difference(self, root: Path, relevant: Mapping[str, Any], *, whole: bool = False) -> TrustDifference:
        """What changed since the directory was trusted. `whole`: values as in `whole_value`."""
        then = self._file.read().directories.get(_real(root), TrustedDirectory())
        known, asked = then.settings, _digests(relevant)
        # A caller that passes only settings or only modes does not know what is gone of the others.
        kinds = {key.startswith(MODES) for key in asked}
        gone = [key for key in known if key not in asked and key.startswith(MODES) in kinds]
        return TrustDifference(
            added=[shown(key) for key in asked if key not in known],
            changed=[shown(key) for key in asked if key in known and known[key] != asked[key]],
            removed=[shown(key) for key in gone],
            now={
                shown(key): whole_value(value) if whole else shown_value(value, key)
                for key, value in relevant.items()
            },
            then={shown(key): shown(value) for key, value in then.values.items()},
        )

    def _change(self, root: str, change: Callable[[TrustedDirectory], TrustedDirectory | None]) -> None:
        def changed(file: _TrustFile) -> _TrustFile:
            directories = dict(file.directories)
            entry = change(directories.pop(root, TrustedDirectory()))
            return _TrustFile(directories if entry is None else {**directories, root: entry})

        self._file.change(changed)


def load_with_trust(
    cwd: Path,
    home: Path,
    environ: Mapping[str, str],
    flags: Mapping[str, Any],
    config_file: Path | None,
    preset_table: PresetTable,
) -> tuple[Loaded, TrustStatus]:
    """The configuration as far as this directory is trusted, and its status. Raises only `ConfigError`."""
    loaded = load_config(cwd, home, environ, flags, config_file, preset_table, trusted=False)
    if not loaded.relevant:
        return loaded, "trusted"
    status = TrustStore(home).status(cwd, loaded.relevant)
    if status == "trusted":
        trusted = load_config(cwd, home, environ, flags, config_file, preset_table, trusted=True)
        # TOCTOU: trust covers what was compared, not what was written since
        return (trusted, status) if trusted.relevant == loaded.relevant else (loaded, "changed")
    return loaded, status


def whole_value(value: Any) -> str:
    """A setting's value for the person who decides: neither redacted nor shortened."""
    return msgspec.json.encode(value).decode("utf-8")


def shown_value(value: Any, key: str) -> str:
    """A setting's value redacted and shortened, with digits of its digest so that differences show."""
    path = tuple(key.split("."))
    text = shown(msgspec.json.encode(_masked(value, path)).decode("utf-8"))
    if len(text) > _LONGEST_SHOWN:
        text = f"{text[:_LONGEST_SHOWN]}… ({_mark(text)})"
    return text


def _masked(value: Any, path: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {name: _masked(inner, (*path, str(name))) for name, inner in value.items()}
    if isinstance(value, list):
        return [_masked(inner, path) for inner in value]
    if isinstance(value, str) and _may_be_secret(path, value):
        return f"… ({_mark(value)})"
    return value


def _may_be_secret(path: tuple[str, ...], value: str) -> bool:
    if path[0] == "permission" or not value:
        return False
    named = any(word in path[-1].lower() for word in _SECRET_NAMES)
    return named or any(place in _SECRET_PLACES for place in path[:-1])


def _mark(text: str) -> str:
    from hashlib import sha256

    return sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()[:6]


def _entry(relevant: Mapping[str, Any]) -> TrustedDirectory:
    return TrustedDirectory(
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        settings=_digests(relevant),
        values={key: shown_value(value, key) for key, value in relevant.items()},
    )


def _real(root: Path) -> str:
    return str(root.resolve())


def _digests(relevant: Mapping[str, Any]) -> dict[str, str]:
    from hashlib import sha256

    return {
        key: sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()
        for key, value in relevant.items()
    }
