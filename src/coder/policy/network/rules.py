"""Which hosts commands may reach: the entries of `sandbox.network.allow`, and what the person remembered."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from coder.tools.web import is_public, literal_address

LOCAL = ("localhost", "127.0.0.1", "::1")
REMEMBERED = "network="  # before a host among a project's remembered approvals
_NAME = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9_])?")
_LOCAL_NAMES = (".localhost", ".local", ".internal", ".lan", ".home.arpa", ".svc")

# `exact`: the host itself is listed, and may be at a private address.
Listed = Literal["", "domain", "exact"]


def canonical(host: str) -> str:
    """The host in the one spelling that is compared. Raises ValueError if it is none."""
    name = host.strip("[]").removesuffix(".").lower()
    if literal := literal_address(name):
        return literal
    if not _NAME.fullmatch(name):
        raise ValueError(host[:80])
    return name


def shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def private_literal(host: str) -> bool:
    """Whether a canonical host is a private address or a local name by its spelling alone."""
    if literal_address(host) is not None:
        return not is_public(host)
    return "." not in host or host.endswith(_LOCAL_NAMES)


class Rules:
    """`remembered`: `host:port` of earlier questions."""

    def __init__(self, allow: Iterable[str], remembered: Iterable[str] = ()) -> None:
        self._entries = [_parsed(entry) for entry in allow]
        self._remembered = frozenset(remembered)
        self.local = frozenset(port for host, port in self._entries if host in LOCAL)

    def listed(self, host: str, port: int) -> Listed:
        """How a canonical host is listed, if it is."""
        if host in LOCAL:
            return "exact" if port in self.local else ""
        names = [name for name, number in self._entries if number in (0, port)]
        if host in names:
            return "exact"
        wild = any(name.startswith("*.") and host.endswith(name[1:]) for name in names)
        return "domain" if wild or shown(host, port) in self._remembered else ""


def _parsed(entry: str) -> tuple[str, int]:
    """Host and port (0: any) of an entry that the schema has checked."""
    host, port = entry, ""
    if entry.count(":") == 1 or "]:" in entry:
        host, _, port = entry.rpartition(":")
    wild = "*." if host.startswith("*.") else ""
    return wild + canonical(host.removeprefix("*.")), int(port or 0)
