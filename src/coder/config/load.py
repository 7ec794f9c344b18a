"""Merge files, environment and command line into one `Config`.

Layers, lowest first: defaults, `$CODER_HOME/config.json`, the project's `.coder/config.json`, a file given
with `--config`, `CODER_*` variables, flags. Each is validated by itself, so that an error names its source.
What an untrusted project may not set is removed and listed (see `loosening`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from coder.base.files import coder_home
from coder.base.text import shown
from coder.config import ConfigError
from coder.config.files import is_own, read_bounded
from coder.config.providers import check_address, check_headers
from coder.config.schema import Config

if TYPE_CHECKING:
    from pathlib import Path

    from coder.config.loosening import Ignored, Loosening, PresetTable


Settings = dict[str, Any]
KeyPath = tuple[str, ...]


def merged_settings(below: Settings, above: Settings) -> Settings:
    """Deep merge: objects are merged, everything else (lists too) is replaced by `above`."""
    if not below or not above:
        return above or below
    result = dict(below)
    for key, value in above.items():
        under = result.get(key)
        result[key] = (
            merged_settings(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
        )
    return result


def at(settings: Settings, path: KeyPath) -> Any:
    """The value at a path, or `None`."""
    value: Any = settings
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def has(settings: Settings, path: KeyPath) -> bool:
    """Whether something is set at a path (`null` counts)."""
    holder = at(settings, path[:-1]) if path[:-1] else settings
    return isinstance(holder, dict) and path[-1] in holder


def without(settings: Settings, path: KeyPath) -> Settings:
    """A copy without one path."""
    if not has(settings, path):
        return settings
    result = dict(settings)
    if len(path) == 1:
        del result[path[0]]
    else:
        result[path[0]] = without(result[path[0]], path[1:])
    return result


def nested(dotted: dict[str, Any]) -> Settings:
    """`{"provider.model": x}` as `{"provider": {"model": x}}`; omits `None` values."""
    result: Settings = {}
    for key, value in dotted.items():
        if value is None:
            continue
        for name in reversed(key.split(".")):
            value = {name: value}
        result = merged_settings(result, value)
    return result


Origin = Literal["home", "project", "file", "environment", "flags"]

PROJECT_FILE: Final = ".coder/config.json"
ENVIRONMENT: Final = {
    "CODER_BASE_URL": "provider.base_url",
    "CODER_API_KEY": "provider.api_key",
    "CODER_MODEL": "provider.model",
}
_SECTIONS: Final = {name: type(getattr(Config(), name)) for name in Config.__struct_fields__}


class Source(msgspec.Struct, frozen=True):
    """One layer: its origin and its settings (before trust)."""

    origin: Origin
    label: str
    settings: dict[str, Any]

    def __repr__(self) -> str:
        """Omits the settings, which may hold secrets."""
        return f"Source(origin={self.origin!r}, label={self.label!r})"


class Loaded(msgspec.Struct, frozen=True):
    """`relevant`: all settings of the project that need trust; `ignored`: those that do not apply without."""

    config: Config
    ignored: list[Ignored] = []
    sources: list[Source] = []
    relevant: dict[str, Any] = {}

    @property
    def of_person(self) -> Settings:
        """The settings of the person's own files, for sessions with another `$CODER_HOME`."""
        own: Settings = {}
        for source in self.sources:
            if source.origin in ("home", "file"):
                own = merged_settings(own, source.settings)
        return own

    def origin_of(self, key: str) -> str:
        """The label of the layer that set a dotted key; empty for a default."""
        path = tuple(key.split("."))
        dropped = {ignored.key for ignored in self.ignored}
        for source in reversed(self.sources):
            if has(source.settings, path) and not (source.origin == "project" and key in dropped):
                return source.label
        return ""


def home_directory(environ: Mapping[str, str]) -> Path:
    """`$CODER_HOME`, else `~/.coder`."""
    try:
        return coder_home(environ)
    except RuntimeError:
        raise ConfigError("config.bad_home") from None


def load_config(
    cwd: Path,
    home: Path,
    environ: Mapping[str, str],
    flags: Mapping[str, Any],
    config_file: Path | None,
    preset_table: PresetTable,
    trusted: bool,
) -> Loaded:
    """Load all layers. `flags`: dotted keys; `preset_table` decides what is looser. Raises `ConfigError`."""
    if not is_own(home):
        raise ConfigError("config.shared_home", directory=home)
    below, project, *above = _layers(
        lambda: _file_layer("home", home / "config.json", str(home / "config.json")),
        lambda: (
            None if _same_file(cwd, home) else _file_layer("project", cwd / PROJECT_FILE, PROJECT_FILE, cwd)
        ),
        lambda: _named_layer(config_file) if config_file else None,
        lambda: _environment_layer(environ),
        lambda: _flags_layer(flags),
    )
    sources = [layer for layer in (below, project, *above) if layer]
    if not sources:
        return Loaded(config=Config())
    loose = _loosenings(cwd, environ, [below, *above], sources, project, preset_table) if project else []
    named: dict[str, str] = {}
    if loose:
        from coder.config.loosening import named_files

        named = named_files(cwd, loose)
    settings: Settings = {}
    for layer in sources:
        hidden = loose if layer is project and not trusted else []
        settings = merged_settings(settings, _less(layer.settings, hidden))
    return Loaded(
        config=_converted(settings, PROJECT_FILE),
        ignored=[] if trusted else [one.as_ignored() for one in loose],
        sources=sources,
        relevant={one.key: one.value for one in loose} | named,
    )


def read_settings(path: Path, label: str, bound: Path | None = None) -> Settings | None:
    """The validated settings of one file, `None` where it does not exist. `bound`: see `read_bounded`."""
    data = read_bounded(path, label, bound)
    if data is None:
        return None
    from coder.config.jsonc import decode_jsonc

    value = decode_jsonc(data, label)
    if value is None:
        return {}
    try:
        _check(value, label)
    except ConfigError as error:
        from coder.config.errors import config_errors_in, together

        raise together(list(config_errors_in(value, label, data)) or [error]) from None
    settings: Settings = value
    return settings


def _layers(*makers: Callable[[], Source | None]) -> list[Source | None]:
    """All of them, or all their errors."""
    layers: list[Source | None] = []
    errors: list[ConfigError] = []
    for make in makers:
        try:
            layers.append(make())
        except ConfigError as error:
            errors.append(error)
    if errors:
        from coder.config.errors import together

        raise together(errors)
    return layers


def _file_layer(origin: Origin, path: Path, label: str, bound: Path | None = None) -> Source | None:
    settings = read_settings(path, shown(label), bound.resolve() if bound else None)
    return Source(origin=origin, label=shown(label), settings=settings) if settings else None


def _named_layer(path: Path) -> Source | None:
    label = shown(str(path))
    settings = read_settings(path, label)
    if settings is None:  # given explicitly, so it must exist
        raise ConfigError("config.file_missing", file=label)
    return Source(origin="file", label=label, settings=settings) if settings else None


def _environment_layer(environ: Mapping[str, str]) -> Source | None:
    values = {key: environ.get(name, "").strip() or None for name, key in ENVIRONMENT.items()}
    settings = nested(values)
    if not settings:
        return None
    address = at(settings, ("provider", "base_url"))
    if address:
        check_address(address, "CODER_BASE_URL")
    return Source(origin="environment", label="environment", settings=settings)


def _flags_layer(flags: Mapping[str, Any]) -> Source | None:
    settings = nested(dict(flags))
    if not settings:
        return None
    _check(settings, "command line")
    return Source(origin="flags", label="command line", settings=settings)


def _same_file(cwd: Path, home: Path) -> bool:
    """In the home directory the project's file is the person's own."""
    try:
        return (cwd / ".coder").samefile(home)
    except (OSError, ValueError):
        return False


def _check(settings: Any, label: str) -> None:
    """Raise for an unknown key, a wrong type or a value out of range."""
    config = _converted(settings, label)
    if config.provider.base_url:
        check_address(config.provider.base_url, f"{label}: provider.base_url")
    if config.provider.headers:
        check_headers(config.provider.headers, f"{label}: provider.headers")


def _converted(settings: Any, label: str) -> Config:
    """The settings as a `Config`, by section: resolving unused sections would dominate start-up."""
    said = "not an object of known sections"
    if isinstance(settings, dict) and settings.keys() <= _SECTIONS.keys():
        try:
            sections = {name: msgspec.convert(value, _SECTIONS[name]) for name, value in settings.items()}
        except (msgspec.ValidationError, OverflowError) as error:
            said = str(error)
        else:
            return Config(**sections)
    from coder.config.errors import validation_error

    raise validation_error(settings, label, said)


def _loosenings(
    cwd: Path,
    environ: Mapping[str, str],
    persons: list[Source | None],
    sources: list[Source],
    project: Source,
    preset_table: PresetTable,
) -> list[Loosening]:
    from coder.config.loosening import loosenings

    person: Settings = {}
    together: Settings = {}
    for layer in persons:
        person = merged_settings(person, layer.settings if layer else {})
    for layer in sources:
        together = merged_settings(together, layer.settings)
    configs = (_converted(person, PROJECT_FILE), _converted(together, PROJECT_FILE))
    return loosenings(project.settings, *configs, cwd, environ, preset_table)


def _less(settings: Settings, hidden: list[Loosening]) -> Settings:
    for loosening in hidden:
        settings = without(settings, loosening.path)
    return settings
