"""Redact provider keys and secrets from everything that a session sends to a model or records.

Provider keys are removed. Other secrets become placeholders that the model can use; they are restored only
inside a tool's execution.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from coder.base.files import make_private, write_atomically
from coder.policy.secrets.redact import Redactor
from coder.texts import Text
from coder.tools.tool import ToolResult

if TYPE_CHECKING:
    from coder.policy.secrets.redact import Redactor

HIDDEN = "[provider key]"


class SessionSecrets:
    """The secrets of one session and its subagents. `keys` are always removed; `on` enables placeholders for
    others. Loaded lazily."""

    def __init__(self, home: Path, keys: Sequence[str], *, on: bool) -> None:
        self._home = home
        self._keys = keys
        self._on = on
        self._made: Redactor | None = None

    @property
    def count(self) -> int:
        """Number of distinct secrets replaced so far."""
        return self._made.count if self._made is not None else 0

    def redact(self, text: str) -> str:
        """The text for model and record."""
        for key in self._keys:
            if key in text:
                text = text.replace(key, HIDDEN)
        return self._redactor.redact(text) if self._on and text else text

    def _redact_foreign(self, text: str) -> str:
        return self.redact(self._redactor.quoted(text) if self._on and text else text)

    def redact_all(self, value: Any) -> Any:
        """Redact every text inside lists and mappings."""
        return _mapped(value, self.redact)

    def hidden(self, result: ToolResult) -> ToolResult:
        """A tool's result, redacted."""
        if result.around:
            if self._on:
                self._redactor.learn(result.around)
            result = msgspec.structs.replace(result, around="")
        # A subagent's answer may use placeholders; in other results they are literal text.
        redact = self.redact if "agent" in result.meta else self._redact_foreign
        text = redact(result.for_model)
        detail = text if result.detail == result.for_model else redact(result.detail)
        meta = _mapped(result.meta, redact)
        summary, phrase = redact(result.summary), result.phrase
        if summary != result.summary and phrase is not None:
            phrase = _mapped(phrase, redact)
            if str(phrase) != summary:  # a secret that only the whole sentence shows
                phrase = None
        if (text, detail, summary, meta) == (result.for_model, result.detail, result.summary, result.meta):
            return result
        return msgspec.structs.replace(
            result, for_model=text, summary=summary, phrase=phrase, detail=detail, meta=meta
        )

    def restored(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Arguments with secrets restored; raises `UnknownPlaceholder`.

        Also where disabled: no placeholder of an earlier session may end up in a file.
        """
        restored: Mapping[str, Any] = self._redactor.restore_all(dict(args))
        return restored

    @property
    def _redactor(self) -> Redactor:
        if self._made is None:
            self._made = Redactor(_placeholder_key(self._home) if self._on else b"")
        return self._made


def _placeholder_key(home: Path) -> bytes:
    """A key in $CODER_HOME that makes placeholders stable across a resume."""
    path = home / "placeholders.key"
    try:
        key = path.read_bytes()
        if len(key) < 16:
            raise FileNotFoundError
    except OSError:
        key = os.urandom(32)
        try:
            make_private(home)
            write_atomically(path, key)
        except OSError:
            pass  # stable only within this process
    return key


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return type(value)(_mapped(item, change) for item in value)
    if isinstance(value, Text):
        return value.with_values(_mapped(value.values, change))
    if isinstance(value, dict):
        return {name: _mapped(item, change) for name, item in value.items()}
    return value
