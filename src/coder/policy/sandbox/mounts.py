"""Aliases of a hidden path: the same directory mounted elsewhere.

A home that is mounted twice (bind mount, subvolume) exposes its secrets twice.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

_OCTAL = re.compile(rb"\\([0-7]{3})")
_seen: dict[bytes, list[tuple[bytes, str, str]]] = {}  # the last mount table, parsed


def aliases(paths: Sequence[str]) -> list[str]:
    """Where else each of these real paths can be reached."""
    table = _mounts()
    found = []
    for path in paths:
        # Of two mounts at one path the later one is visible.
        device, root, top = max(
            (mount for mount in table if _within(path, mount[2])),
            key=lambda mount: len(mount[2]),
            default=(b"", "", ""),
        )
        within = _join(root, path[len(top.rstrip("/")) :])
        for other, base, point in table:
            if other == device and (base, point) != (root, top) and _within(within, base):
                alias = _join(point, within[len(base.rstrip("/")) :])
                if alias != path and _same(alias, path):
                    found.append(alias)
    return found


def _mounts() -> list[tuple[bytes, str, str]]:
    """Device, root and mount point of each mount, the last first, so that it wins among equals."""
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            text = file.read()
    except OSError:
        return []
    if text not in _seen:
        _seen.clear()
        rows = [line.split(b" ", 5) for line in text.splitlines()]
        _seen[text] = [(row[2], _plain(row[3]), _plain(row[4])) for row in reversed(rows) if len(row) > 5]
    return _seen[text]


def _plain(field: bytes) -> str:
    return os.fsdecode(_OCTAL.sub(lambda match: bytes([int(match[1], 8)]), field))


def _join(directory: str, rest: str) -> str:
    return (directory.rstrip("/") + "/" + rest.strip("/")).rstrip("/") or "/"


def _within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False
