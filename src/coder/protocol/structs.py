"""Base classes of ops and events, so that a package can define its own in a separate module; and lenient
decoding."""

from __future__ import annotations

import contextlib
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin

import msgspec

_EMPTY: tuple[Any, ...] = (None, False, 0, "", [], {})

_Struct = TypeVar("_Struct", bound=msgspec.Struct)


def snake(name: str) -> str:
    """A struct's name as the tag of its JSON form."""
    return "".join("_" + c.lower() if c.isupper() and at else c.lower() for at, c in enumerate(name))


class Op(msgspec.Struct, frozen=True, tag_field="op", tag=snake, forbid_unknown_fields=True):
    """Base of all ops; `op` names the kind. Unknown fields are errors: one may be a mistyped `amended`."""


class Event(msgspec.Struct, frozen=True, tag_field="event", tag=snake):
    """Base of all events; the JSON form names the kind in `event`."""


def whole_characters(data: str | bytes) -> bytes:
    """JSON with lone surrogates replaced. Raises `ValueError`, `RecursionError`."""
    import json

    return json.dumps(json.loads(data), ensure_ascii=False).encode("utf-8", "replace")


def lenient(meta: dict[str, Any], form: type[_Struct]) -> _Struct:
    """Lenient parsing of other versions' entries: a missing or mistyped field counts as empty."""
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(form):
        for value in (meta.get(field.encode_name), *(_EMPTY if field.required else ())):
            with contextlib.suppress(msgspec.ValidationError):
                fields[field.name] = _drop_invalid(value, field.type)
                break
    return form(**fields)


def _drop_invalid(value: Any, form: Any) -> Any:
    """`value` without the list elements and object fields that do not validate. Raises `ValidationError`."""
    try:
        return msgspec.convert(value, form)
    except msgspec.ValidationError:
        for one in get_args(form) if get_origin(form) is UnionType else (form,):
            if isinstance(value, dict) and isinstance(one, type) and issubclass(one, msgspec.Struct):
                return lenient(value, one)
            if isinstance(value, list) and get_origin(one) is list:
                return [fit for element in value for fit in _valid_or_nothing(element, get_args(one)[0])]
        raise


def _valid_or_nothing(value: Any, form: Any) -> list[Any]:
    try:
        return [_drop_invalid(value, form)]
    except msgspec.ValidationError:
        return []
