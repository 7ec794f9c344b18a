"""Reads a sandbox profile as macOS does: s-expressions, deny by default, the last rule that matches holds.

The subset that our profiles use. Anything else raises, so that a typing error in a rule is not passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

_TOKEN = re.compile(r'\s*(?:;[^\n]*\n\s*)*(#?"(?:\\.|[^"\\])*"|[()]|[^\s()";]+)')
OPERATIONS = {
    "file-ioctl",
    "file-map-executable",
    "file-read*",
    "file-write*",
    "file-write-data",
    "file-write-unlink",
    "ipc-posix-sem",
    "mach-lookup",
    "network-bind",
    "network-inbound",
    "network-outbound",
    "process-exec",
    "process-fork",
    "process-info*",
    "pseudo-tty",
    "signal",
    "sysctl-read",
    "system-socket",
}


def parse(text: str) -> list[Any]:
    """Every form of the text; a string keeps its quotes."""
    tokens, at = [], 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        assert match, f"no SBPL at {text[at : at + 40]!r}"
        tokens.append(match[1])
        at = match.end()
    return list(_forms(iter([*tokens, ")"])))


def _forms(tokens: Iterator[str]) -> Iterator[Any]:
    for token in tokens:
        if token == ")":
            return
        yield list(_forms(tokens)) if token == "(" else token


class Profile:
    """A profile with its parameters, to be asked what it allows."""

    def __init__(self, text: str, parameters: Mapping[str, str]) -> None:
        version, default, *self.rules = parse(text)
        assert version == ["version", "1"]
        assert default == ["deny", "default"]
        self.parameters = parameters

    def allows(self, operation: str, **about: str) -> bool:
        """`about`: `path`, `name` of a service or a setting, `remote`, `target`, …"""
        allowed = False
        for action, *rest in self.rules:
            assert action in ("allow", "deny"), action
            operations = [word for word in rest if isinstance(word, str)]
            assert set(operations) <= OPERATIONS, operations
            filters = [word for word in rest if not isinstance(word, str)]
            if not any(fnmatchcase(operation, one) for one in operations):
                continue
            if not filters or any(self._matches(one, about) for one in filters):
                allowed = action == "allow"
        return allowed

    def _matches(self, form: list[Any], about: Mapping[str, str]) -> bool:
        kind, *given = form
        if kind == "require-all":
            return all(self._matches(one, about) for one in given)
        if kind in ("local", "remote"):
            named = self._value(given[1]).replace("*:*", "*")
            return fnmatchcase(about.get(kind, ""), f"{given[0]} {named}")
        value = self._value(given[0])
        path = about.get("path", "")
        if kind == "subpath":
            return path == value or path.startswith(value.rstrip("/") + "/")
        if kind == "regex":
            return re.search(value, path) is not None
        if kind == "sysctl-name-prefix":
            return about.get("name", "").startswith(value)
        key = {
            "literal": "path",
            "global-name": "name",
            "socket-domain": "domain",
            "socket-protocol": "protocol",
        }
        assert kind in {*key, "extension", "target"}, kind
        return about.get(key.get(kind, kind)) == value

    def _value(self, form: Any) -> str:
        if isinstance(form, list):
            word, name = form
            assert word == "param"
            return self.parameters[name.strip('"')]
        return str(form).lstrip("#").strip('"')
