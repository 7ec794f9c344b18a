"""Further ways to a place that the sandbox closes: the same folder mounted elsewhere, and sockets.

A home that is mounted twice (a bind mount, a subvolume) shows its secrets twice; a read-only mount does not
keep a socket from being connected to, and the program behind it acts for the caller, outside.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence

_MOST_SOCKETS = 16  # each is a mount
_OCTAL = re.compile(rb"\\([0-7]{3})")
_seen: dict[bytes, list[tuple[bytes, str, str]]] = {}  # the table as last read, with what it says


def aliases(paths: Sequence[str]) -> list[str]:
    """Where else each of these real paths can be reached."""
    table = _mounts()
    found = []
    for path in paths:
        # Of two mounts in one place the later one is seen.
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
    """Device, folder of it, and where that is mounted; the last mount first, so that it wins among equals."""
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


def _join(folder: str, rest: str) -> str:
    return (folder.rstrip("/") + "/" + rest.strip("/")).rstrip("/") or "/"


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def unix_sockets() -> bytes:
    """The kernel's list; empty where it cannot be read."""
    try:
        with open("/proc/net/unix", "rb") as file:
            return file.read()
    except OSError:
        return b""


def socket_files(
    listed: bytes, own: Sequence[str], temp: Sequence[str], seen_in_temp: Sequence[str]
) -> list[str]:
    """The sockets in it that have a file which can be seen inside, but for those in places of its own."""
    names = {line.split(b" /", 1)[1] for line in listed.splitlines() if b" /" in line}
    paths = ["/" + os.fsdecode(name) for name in sorted(names)]
    wanted = [
        path
        for path in paths
        if not _in_one(path, own) and (not _in_one(path, temp) or _in_one(path, seen_in_temp))
    ]
    return [path for path in wanted if _is_socket(path)][:_MOST_SOCKETS]


def _in_one(path: str, places: Sequence[str]) -> bool:
    return any(_within(path, place) for place in places)


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False
