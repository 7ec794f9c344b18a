"""Validate HTTP headers, against header injection and late failures in the client."""

from __future__ import annotations

from collections.abc import Mapping

from coder.config.errors import ConfigError, shown

_NAME_EXTRA = frozenset("!#$%&'*+-.^_`|~")


def check_headers(headers: Mapping[str, str], where: str) -> None:
    """Raise for invalid names or values; `where` is the setting that holds them."""
    for name, value in headers.items():
        if not _is_name(name) or not is_header_value(value):
            raise ConfigError("config.bad_header", where=shown(f"{where}.{name}"))


def is_header_value(value: str) -> bool:
    """Printable ASCII and spaces: enough for keys and tokens."""
    return value.isascii() and value.isprintable()


def _is_name(name: str) -> bool:
    return bool(name) and name.isascii() and all(c.isalnum() or c in _NAME_EXTRA for c in name)
