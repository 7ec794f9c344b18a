"""What no model and no record may see: the provider's keys, and secrets in what tools show.

A provider's key is cut out for good. Other secrets become placeholders that the model can use: they are put
back only inside a tool's execution.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from coder.policy.secrets import Redactor
from coder.record.files import write_atomically
from coder.tools.base import ToolResult

HIDDEN = "[provider key]"


def redactor_for(home: Path) -> Redactor:
    """With a key of its own in $CODER_HOME, so that a resumed session knows its placeholders again."""
    path = home / "placeholders.key"
    try:
        key = path.read_bytes()
        if len(key) < 16:
            raise FileNotFoundError
    except OSError:
        key = os.urandom(32)
        try:
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(path, key)
        except OSError:
            pass  # then they hold for this process only
    return Redactor(key)


def hidden(result: ToolResult, keys: Sequence[str], redactor: Redactor | None) -> ToolResult:
    """The result as model, person and record may see it."""
    if any(key in result.for_model or key in result.detail for key in keys):
        result = _changed(result, lambda text: _without(text, keys))
    return _changed(result, redactor.redact) if redactor is not None else result


def restored(args: Mapping[str, Any], redactor: Redactor | None) -> Mapping[str, Any]:
    """Arguments for a tool's execution; raises `UnknownPlaceholder`."""
    return args if redactor is None else redactor.restore_all(dict(args))


def _changed(result: ToolResult, change: Any) -> ToolResult:
    text = change(result.for_model)
    detail = text if result.detail == result.for_model else change(result.detail)
    meta = _mapped(result.meta, change)
    if text == result.for_model and detail == result.detail and meta == result.meta:
        return result
    return msgspec.structs.replace(
        result, for_model=text, summary=change(result.summary), detail=detail, meta=meta
    )


def _without(text: str, keys: Sequence[str]) -> str:
    for key in keys:
        text = text.replace(key, HIDDEN)
    return text


def _mapped(value: Any, change: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_mapped(item, change) for item in value]
    if isinstance(value, dict):
        return {name: _mapped(item, change) for name, item in value.items()}
    return value
