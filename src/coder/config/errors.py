"""Validation errors as sentences that name file, line, key, value and what is allowed.

msgspec validates; this module walks the same types to locate the error, because msgspec's messages name
neither the file nor the choices. Imported only on error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, Final, get_args

from msgspec import inspect, json

from coder.base.text import shortened, shown
from coder.config import ConfigError, schema
from coder.config.jsonc import key_lines
from coder.config.providers import check_address, check_headers
from coder.texts import JoinedText, Text

_LONGEST_SHOWN: Final = 60
_MOST_SHOWN: Final = 10
_PLAIN_LIMIT: Final = 1_000_000
_SECRET: Final = ("provider.api_key", "provider.headers", "mcp.servers")
# The inspected type does not keep the order of the choices
_CHOICES: Final = {
    frozenset(get_args(kind)): get_args(kind)
    for kind in (
        schema.Decision,
        schema.Dialect,
        schema.Lang,
        schema.NextSpeaker,
        schema.Preset,
        schema.SandboxMode,
        schema.SandboxBackend,
        schema.Theme,
        schema.Transport,
    )
}

_EXPECTED: Final = {schema.KEY_PATTERN: "config.expect_key", schema.HOST_PATTERN: "config.expect_host"}


def validation_error(settings: object, file: str, said: str) -> ConfigError:
    """The error for `settings`, which msgspec rejected with the message `said`."""
    return next(config_errors_in(settings, file), None) or ConfigError(
        "config.invalid", file=file, what=shown(said)
    )


class ConfigErrors(ConfigError):
    """Several errors of the settings, a line each."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        self.errors = errors
        shown_errors = [error.phrase for error in errors[:_MOST_SHOWN]]
        more = (
            [Text("config.more", n=len(errors) - len(shown_errors))]
            if len(errors) > len(shown_errors)
            else []
        )
        super().__init__(JoinedText([*shown_errors, *more]))


def together(errors: Sequence[ConfigError]) -> ConfigError:
    """One error for at least one."""
    every = [
        one for error in errors for one in (error.errors if isinstance(error, ConfigErrors) else [error])
    ]
    return every[0] if len(every) == 1 else ConfigErrors(every)


class File:
    """A settings file by its name, with the lines of its keys where its text is given."""

    def __init__(self, name: str, data: bytes = b"") -> None:
        self._name = name
        self._lines = key_lines(data) if data else {}

    def at(self, key: str) -> str:
        """The name and the line of a key, or of what the key is in."""
        while key and key not in self._lines:
            key = key[: max(key.rfind("."), key.rfind("["), 0)]
        return f"{self._name}:{self._lines[key]}" if key else self._name


def config_errors_in(settings: object, name: str, data: bytes = b"") -> Iterator[ConfigError]:
    """All errors of `settings`; `data` is the text that they were read from."""
    file = File(name, data)
    yield from _errors_at(settings, inspect.type_info(schema.Config), "", file)
    provider = settings.get("provider") if isinstance(settings, dict) else None
    if not isinstance(provider, dict):
        return
    address, headers = provider.get("base_url"), provider.get("headers")
    if isinstance(address, str) and address:
        where = f"{file.at('provider.base_url')}: provider.base_url"
        yield from raised(lambda: check_address(address, where))
    if isinstance(headers, dict) and all(isinstance(value, str) for value in headers.values()):
        named = f"{file.at('provider.headers')}: provider.headers"
        yield from raised(lambda: check_headers(headers, named))


def raised(check: Callable[[], object]) -> list[ConfigError]:
    try:
        check()
    except ConfigError as error:
        return [error]
    return []


def found(value: object, key: str) -> str:
    """A value as written, shortened; secrets are redacted."""
    if isinstance(value, dict):
        return "{…}"
    if isinstance(value, list):
        return "[…]"
    if key.startswith(_SECRET) and value is not None and not isinstance(value, bool):
        return "…"
    # msgspec cannot encode integers of any length
    is_number = isinstance(value, int) and not isinstance(value, bool)
    text = str(value) if is_number else shown(json.encode(value).decode("utf-8"))
    return shortened(text, _LONGEST_SHOWN)


def all_keys() -> list[str]:
    """Every dotted key, sections included."""
    return list(_keys_of(inspect.type_info(schema.Config), ""))


def _keys_of(kind: inspect.Type, prefix: str) -> Iterator[str]:
    if isinstance(kind, inspect.StructType):
        for field in kind.fields:
            yield f"{prefix}{field.encode_name}"
            yield from _keys_of(field.type, f"{prefix}{field.encode_name}.")


def _errors_at(value: object, kind: inspect.Type, key: str, file: File) -> Iterator[ConfigError]:
    if isinstance(kind, inspect.UnionType):
        if value is not None:
            yield from _errors_at(value, _meant(kind, value), key, file)
    elif not _fits(value, kind):
        yield bad_value(
            f"{file.at(key)}: {shown(key)}" if key else file.at(""), found(value, key), _allowed(kind, value)
        )
    elif isinstance(kind, inspect.StructType) and isinstance(value, dict):
        yield from _struct_errors(value, kind, key, file)
    elif isinstance(kind, inspect.DictType) and isinstance(value, dict):
        for name, inner in value.items():
            known = kind.key_type
            if isinstance(known, inspect.LiteralType) and name not in known.values:
                yield _unknown(_join(key, str(name)), [str(one) for one in known.values], file)
            yield from _errors_at(inner, kind.value_type, _join(key, str(name)), file)
    elif isinstance(kind, inspect.ListType) and isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _errors_at(inner, kind.item_type, f"{key}[{at}]", file)


def bad_value(where: str, found: str, allowed: Text | str) -> ConfigError:
    """`where` is the file and key, or the variable."""
    return ConfigError("config.bad_value", where=where, found=found, allowed=allowed)


def _struct_errors(
    value: dict[str, Any], kind: inspect.StructType, key: str, file: File
) -> Iterator[ConfigError]:
    fields = {field.encode_name: field.type for field in kind.fields}
    for name, inner in value.items():
        path = _join(key, name)
        if name in fields:
            yield from _errors_at(inner, fields[name], path, file)
        else:
            yield _unknown(path, list(fields), file)


def _unknown(path: str, siblings: list[str], file: File) -> ConfigError:
    nearest = nearest_keys(path, siblings)
    values = {"file": file.at(path), "key": shown(path), "allowed": ", ".join(siblings)}
    if nearest:
        return ConfigError("config.unknown_key_near", nearest=", ".join(nearest), **values)
    return ConfigError("config.unknown_key", **values)


def nearest_keys(path: str, siblings: list[str]) -> list[str]:
    """Suggestions for a mistyped key: similar in this section, or the same name elsewhere."""
    section, _, name = path.rpartition(".")
    here = [_join(section, close) for close in get_close_matches(name[:100], siblings, n=3, cutoff=0.6)]
    elsewhere = [key for key in all_keys() if key.rpartition(".")[2] == name and key != path]
    return list(dict.fromkeys(here + elsewhere))[:3]


def _fits(value: object, kind: inspect.Type) -> bool:
    """Whether a value itself, not its contents, has the type and range."""
    if isinstance(kind, inspect.StructType | inspect.DictType):
        return isinstance(value, dict)
    if isinstance(kind, inspect.ListType):
        return isinstance(value, list)
    if isinstance(kind, inspect.LiteralType):
        return isinstance(value, str) and value in kind.values
    if isinstance(kind, inspect.BoolType):
        return isinstance(value, bool)
    if isinstance(kind, inspect.StrType):
        return isinstance(value, str) and (kind.pattern is None or re.search(kind.pattern, value) is not None)
    if isinstance(kind, inspect.IntType):
        return isinstance(value, int) and not isinstance(value, bool) and _in_range(value, kind)
    if isinstance(kind, inspect.FloatType):
        return isinstance(value, int | float) and not isinstance(value, bool) and _in_range(value, kind)
    return True


def _in_range(value: float, kind: inspect.IntType | inspect.FloatType) -> bool:
    above = kind.ge is None or value >= kind.ge
    return above and (kind.le is None or value <= kind.le) and (kind.lt is None or value < kind.lt)


def _allowed(kind: inspect.Type, value: object) -> Text | str:
    if isinstance(kind, inspect.LiteralType):
        choices = _CHOICES.get(frozenset(str(value) for value in kind.values), kind.values)
        return ", ".join(str(choice) or '""' for choice in choices)
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        return _allowed_number(kind, value)
    if isinstance(kind, inspect.BoolType):
        return Text("config.expect_bool")
    if isinstance(kind, inspect.StrType):
        return Text(_EXPECTED.get(kind.pattern or "", "config.expect_string"))
    if isinstance(kind, inspect.ListType):
        return Text("config.expect_list", items=Text("config.expect_strings"))
    return Text("config.expect_object")


def _allowed_number(kind: inspect.IntType | inspect.FloatType, value: object) -> Text:
    name = "config.expect_int" if isinstance(kind, inspect.IntType) else "config.expect_float"
    if kind.ge is None:
        return Text(name)
    if kind.lt is not None:
        return Text(f"{name}_below", low=kind.ge, high=kind.lt)
    too_big = isinstance(value, int | float) and kind.le is not None and value > kind.le
    # The platform's maximum matters only to who exceeded it
    if kind.le is None or (kind.le > _PLAIN_LIMIT and not too_big):
        return Text(f"{name}_from", low=kind.ge)
    return Text(f"{name}_between", low=kind.ge, high=kind.le)


def _meant(kind: inspect.UnionType, value: object) -> inspect.Type:
    """The type of a union that a value is closest to."""
    types = [inner for inner in kind.types if not isinstance(inner, inspect.NoneType)]
    return next((inner for inner in types if _fits(value, inner)), types[0])


def _join(section: str, name: str) -> str:
    return f"{section}.{name}" if section else name
