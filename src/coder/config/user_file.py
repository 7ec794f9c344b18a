"""Edit one setting of `$CODER_HOME/config.json`, under a lock and only if nothing else of it changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from coder.config import ConfigError, shown
from coder.config.files import read_bounded, reason
from coder.config.jsonc import decode
from coder.config.jsonc_edit import with_member, without_member
from coder.config.layers import KeyPath, has, merged, without
from coder.fs.private import locked, write_durably

if TYPE_CHECKING:
    from pathlib import Path


def set_in_user_file(home: Path, path: KeyPath, value: Any) -> Path:
    """Set `value` at `path`; returns the file. Raises `ConfigError`."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=0)  # on one line

    def change(data: bytes | None, before: dict[str, Any]) -> bytes:
        if data is None or not data.strip():
            return msgspec.json.format(msgspec.json.encode(_with(before, path, value))) + b"\n"
        return with_member(data, path, text) or b""

    return _changed(home, change, lambda before: _with(before, path, value))


def is_in_user_file(home: Path, path: KeyPath) -> bool:
    """Whether `path` is set. Raises `ConfigError`."""
    file = home / "config.json"
    data = read_bounded(file, shown(str(file)))
    return data is not None and has(decode(data, shown(str(file))) or {}, path)


def unset_in_user_file(home: Path, path: KeyPath) -> bool:
    """Remove `path`; False where it is not set. Raises `ConfigError`."""
    if not is_in_user_file(home, path):
        return False
    _changed(
        home,
        lambda data, before: without_member(data or b"", path) or b"",
        lambda before: without(before, path),
    )
    return True


def _changed(
    home: Path,
    change: Callable[[bytes | None, dict[str, Any]], bytes],
    wanted: Callable[[dict[str, Any]], dict[str, Any]],
) -> Path:
    file = home / "config.json"
    label = shown(str(file))
    try:
        with locked(file):
            data = read_bounded(file, label)
            before = (decode(data, label) if data is not None else None) or {}
            after = change(data, before)
            if decode(after, label) != wanted(before):
                raise ConfigError("config.own_shape", file=label)
            write_durably(file.resolve(), after)
    except OSError as error:
        raise ConfigError("config.own_not_saved", file=label, why=reason(error)) from None
    return file


def _with(settings: dict[str, Any], path: KeyPath, value: Any) -> dict[str, Any]:
    """Settings with exactly `value` at `path`: replaced, not merged."""
    for name in reversed(path):
        value = {name: value}
    return merged(without(settings, path), value)
