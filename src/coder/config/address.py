"""Validate what a model server is reached by: its URL and HTTP headers (against header injection)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from coder.config import ConfigError, shown
from coder.texts import Phrase

_LONGEST_SHOWN: Final = 60
_NAME_EXTRA = frozenset("!#$%&'*+-.^_`|~")


def check_address(text: str, where: str) -> None:
    """Raise for an invalid URL; `where` is the setting or variable that holds it."""
    why = _problem(text)
    if why:
        # The userinfo may hold a password
        user, at, rest = text.rpartition("@")
        short = shown(f"…@{rest}" if at and user else text)[:_LONGEST_SHOWN]
        allowed = Phrase("config.expect_address", why=Phrase(why))
        raise ConfigError("config.bad_value", where=where, found=f'"{short}"', allowed=allowed)


def plugin_of(text: str) -> str:
    """The name of an installed package's provider, of an address such as `plugin:basket`; else empty."""
    name = text.removeprefix("plugin:")
    plain = name and name.isascii() and all(char.isalnum() or char in "._-" for char in name)
    return name if plain and name != text else ""


def host_of(text: str) -> str:
    """The host of an address that has passed `check_address`."""
    return urlsplit(text).hostname or ""


def _problem(text: str) -> str:
    if plugin_of(text):
        return ""
    if any(char.isspace() or not char.isprintable() for char in text):
        return "config.url_space"
    if not text.lower().startswith(("http://", "https://")):
        return "config.url_scheme"
    try:
        parts = urlsplit(text)
        host = parts.hostname
    except ValueError:  # an unclosed [ of an IPv6 address, or characters that normalise to : / ? # @
        return "config.url_host"
    try:
        port = parts.port
    except ValueError:
        return "config.url_port"
    if not host:
        return "config.url_host"
    return "config.url_port" if port == 0 else ""


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
