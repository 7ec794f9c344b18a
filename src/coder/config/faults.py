"""All errors of the settings that apply here, and the configuration without the broken files.

A session does not begin with an error; `coder doctor` goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from coder.config import ConfigError, shown
from coder.config.explain import faults_in, raised
from coder.config.files import read_bounded
from coder.config.jsonc import decode
from coder.config.load import ENVIRONMENT, PROJECT_FILE, Loaded, load
from coder.config.loosening import PresetGives

_NOWHERE: Final = Path("/no-such-folder/of-coder")  # has no settings


class Examined(msgspec.Struct, frozen=True):
    """The errors of each file, and the configuration of the files without any."""

    faults: list[ConfigError]
    loaded: Loaded


def examine(
    cwd: Path, home: Path, environ: Mapping[str, str], config_file: Path | None, gives: PresetGives
) -> Examined:
    """Never raises for invalid files or variables."""
    own = _faults_of(home / "config.json", str(home / "config.json"))
    project = _faults_of(cwd / PROJECT_FILE, PROJECT_FILE)
    named = _faults_of(config_file, str(config_file), must_be=True) if config_file else []
    set_here = raised(lambda: load(_NOWHERE, _NOWHERE, environ, {}, None, gives, trusted=False))
    good = {} if set_here else environ
    loaded = load(
        _NOWHERE if project else cwd,
        _NOWHERE if own else home,
        {name: value for name, value in good.items() if name in ENVIRONMENT},
        {},
        None if named else config_file,
        gives,
        trusted=False,
    )
    return Examined([*own, *project, *named, *set_here], loaded)


def _faults_of(path: Path, name: str, *, must_be: bool = False) -> list[ConfigError]:
    label = shown(name)
    try:
        data = read_bounded(path, label)
        settings = decode(data, label) if data is not None else None
    except ConfigError as error:
        return [error]
    if data is None and must_be:
        return [ConfigError("config.file_missing", file=label)]
    if settings is None:
        return []
    return list(faults_in(settings, label, data or b""))
