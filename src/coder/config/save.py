"""Save the model chosen with `/model` in the project's settings.

Only the one value changes; comments, order, spacing, line endings and a BOM are preserved.
"""

from __future__ import annotations

import stat
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from coder.base.files import locked, locked_by_directory, write_durably
from coder.base.safe_open import status_of
from coder.base.text import shown
from coder.config import ConfigError
from coder.config.files import ensure_directory, read_bounded, reason
from coder.config.jsonc import decode_jsonc, with_member, without_member
from coder.config.load import KeyPath, has, merged_settings, without
from coder.texts import Text

if TYPE_CHECKING:
    from pathlib import Path


_LABEL: Final = ".coder/config.json"


def save_model(cwd: Path, name: str) -> Text | None:
    """Save `provider.model` in the project's configuration. Returns the reason of a failure, or None."""
    try:
        _save_model(cwd, name)
    except ConfigError as error:
        return error.phrase
    except (OSError, RuntimeError, ValueError) as error:
        return _failure(reason(error)).phrase
    return None


def _save_model(cwd: Path, name: str) -> None:
    path = ensure_directory(cwd) / "config.json"
    target = path.resolve()
    if not target.is_relative_to(cwd.resolve()):
        # Never write through a symlink that a project ships
        raise _failure(Text("config.model_not_saved_link"))
    with locked_by_directory(target):
        _put_model(target, name)


def _put_model(target: Path, name: str) -> None:
    data = read_bounded(target, _LABEL, target.parent)
    if data is None:
        write_durably(target, _fresh(name), 0o644, resolved=True)
        return
    before = decode_jsonc(data, _LABEL)
    if before is None:  # nothing but blanks and comments
        before, after = {}, data.rstrip() + b"\n" + _fresh(name) if data.strip() else _fresh(name)
    else:
        after = with_member(data, ("provider", "model"), msgspec.json.encode(name)) or b""
    if not _is_right(before, decode_jsonc(after, _LABEL), name):
        raise _failure(Text("config.model_not_saved_shape"))
    if after != data:
        write_durably(target, after, stat.S_IMODE(status_of(target).st_mode), resolved=True)


def _failure(why: Text | str) -> ConfigError:
    return ConfigError("config.model_not_saved", file=_LABEL, why=why)


def _fresh(name: str) -> bytes:
    return msgspec.json.format(msgspec.json.encode({"provider": {"model": name}})) + b"\n"


def _is_right(before: Any, after: Any, name: str) -> bool:
    """Verify that the edit changed this value and nothing else."""
    if not isinstance(before, dict) or not isinstance(before.get("provider", {}), dict):
        return False
    return bool(after == {**before, "provider": {**before.get("provider", {}), "model": name}})


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
    return data is not None and has(decode_jsonc(data, shown(str(file))) or {}, path)


def unset_in_user_file(home: Path, path: KeyPath) -> bool:
    """Remove `path`; False if it is not set. Raises `ConfigError`."""
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
            before = (decode_jsonc(data, label) if data is not None else None) or {}
            after = change(data, before)
            if decode_jsonc(after, label) != wanted(before):
                raise ConfigError("config.own_shape", file=label)
            write_durably(file.resolve(), after)
    except OSError as error:
        raise ConfigError("config.own_not_saved", file=label, why=reason(error)) from None
    return file


def _with(settings: dict[str, Any], path: KeyPath, value: Any) -> dict[str, Any]:
    """Settings with exactly `value` at `path`: replaced, not merged."""
    for name in reversed(path):
        value = {name: value}
    return merged_settings(without(settings, path), value)
