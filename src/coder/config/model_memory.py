"""What was found out of models by trying: `$CODER_HOME/models.json`, per model and server.

Settings come first (`provider.models`); this is what `auto` has learnt
from a first native call that failed.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import msgspec

from coder.config import ConfigError
from coder.config.address import host_of
from coder.config.files import read_bounded
from coder.fs.private import locked, make_private, write_durably

if TYPE_CHECKING:
    from pathlib import Path

_MOST = 200  # models that are remembered; the oldest are dropped


class _Memory(msgspec.Struct):
    dialects: dict[str, str] = {}


class ModelMemory:
    """The dialect of models at one address. Nothing is read before it is asked for; what cannot be read or
    kept is not worth an error, since it is found out again."""

    def __init__(self, home: Path, base_url: str) -> None:
        self._file = home / "models.json"
        self._host = host_of(base_url) or base_url
        self._known: dict[str, str] | None = None

    def dialect(self, model: str) -> str:
        if self._known is None:
            self._known = self._read()
        return self._known.get(self._key(model), "")

    def keep(self, model: str, dialect: str) -> None:
        with contextlib.suppress(OSError, ConfigError):
            make_private(self._file.parent)
            with locked(self._file):
                known = self._read()
                known.pop(self._key(model), None)
                known[self._key(model)] = dialect
                self._known = dict(list(known.items())[-_MOST:])
                data = msgspec.json.format(msgspec.json.encode(_Memory(self._known)))
                write_durably(self._file, data + b"\n")

    def _key(self, model: str) -> str:
        return f"{model} at {self._host}"

    def _read(self) -> dict[str, str]:
        try:
            data = read_bounded(self._file, str(self._file))
            return {} if data is None else msgspec.json.decode(data, type=_Memory).dialects
        except (ConfigError, OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return {}
