"""Save the model chosen with `/model` in the project's settings.

Only the one value changes; comments, order, spacing, line endings and a BOM are preserved.
"""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Any, Final

import msgspec

from coder.config import ConfigError
from coder.config.files import ensure_directory, read_bounded, reason
from coder.config.jsonc import decode
from coder.config.jsonc_edit import with_member
from coder.fs.private import locked_by_directory, write_durably
from coder.fs.safe_open import status_of
from coder.texts import Phrase

if TYPE_CHECKING:
    from pathlib import Path

_LABEL: Final = ".coder/config.json"


def save_model(cwd: Path, name: str) -> Phrase | None:
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
        raise _failure(Phrase("config.model_not_saved_link"))
    with locked_by_directory(target):
        _put_model(target, name)


def _put_model(target: Path, name: str) -> None:
    data = read_bounded(target, _LABEL, target.parent)
    if data is None:
        write_durably(target, _fresh(name), 0o644, resolved=True)
        return
    before = decode(data, _LABEL)
    if before is None:  # nothing but blanks and comments
        before, after = {}, data.rstrip() + b"\n" + _fresh(name) if data.strip() else _fresh(name)
    else:
        after = with_member(data, ("provider", "model"), msgspec.json.encode(name)) or b""
    if not _is_right(before, decode(after, _LABEL), name):
        raise _failure(Phrase("config.model_not_saved_shape"))
    if after != data:
        write_durably(target, after, stat.S_IMODE(status_of(target).st_mode), resolved=True)


def _failure(why: Phrase | str) -> ConfigError:
    return ConfigError("config.model_not_saved", file=_LABEL, why=why)


def _fresh(name: str) -> bytes:
    return msgspec.json.format(msgspec.json.encode({"provider": {"model": name}})) + b"\n"


def _is_right(before: Any, after: Any, name: str) -> bool:
    """Verify that the edit changed this value and nothing else."""
    if not isinstance(before, dict) or not isinstance(before.get("provider", {}), dict):
        return False
    return bool(after == {**before, "provider": {**before.get("provider", {}), "model": name}})
