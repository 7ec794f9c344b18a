"""The provider's key never reaches the model or the record, whatever a tool has read it from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from coder.tools.base import ToolResult

HIDDEN = "[provider key]"


def without_keys(result: ToolResult, keys: Sequence[str]) -> ToolResult:
    """Untouched, and unlooked at beyond a search, where no key is in it."""
    if not any(key in result.for_model or key in result.detail for key in keys):
        return result
    return msgspec.structs.replace(
        result,
        for_model=_hidden(result.for_model, keys),
        summary=_hidden(result.summary, keys),
        detail=_hidden(result.detail, keys),
        meta=_hidden(result.meta, keys),
    )


def _hidden(value: Any, keys: Sequence[str]) -> Any:
    if isinstance(value, str):
        for key in keys:
            value = value.replace(key, HIDDEN)
        return value
    if isinstance(value, list):
        return [_hidden(item, keys) for item in value]
    if isinstance(value, dict):
        return {name: _hidden(item, keys) for name, item in value.items()}
    return value
