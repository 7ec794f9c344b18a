"""Whole events in one language, for readers that have no catalogue of texts of their own."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from coder.texts import Phrase, Texts

T = TypeVar("T")


def in_words(value: T, texts: Texts) -> T:
    """The same event with every phrase in it said, also those inside lists and structs."""
    worded: object = value
    if isinstance(value, Phrase):
        worded = value.text(texts)
    elif isinstance(value, list):
        worded = [in_words(one, texts) for one in value]
    elif isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        said = {name: in_words(field, texts) for name, field in fields.items()}
        changed = {name: field for name, field in said.items() if field != fields[name]}
        worded = msgspec.structs.replace(value, **changed) if changed else value
    return worded  # type: ignore[return-value]  # a phrase stands only where a string may
