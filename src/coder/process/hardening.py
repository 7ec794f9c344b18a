"""Closing coder's own process to the programs it starts: what they run as can read `/proc/PID/environ` and
`/proc/PID/mem` of anything of the same person's, and the provider's key stands in both.

Done before the first child starts, because it needs `ctypes`, which would cost time at start-up.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_DUMPABLE = 4
_ARGUMENTS, _ENVIRONMENT_END = 45, 48  # fields of /proc/self/stat, counted behind the name

_overwritten: set[bytes] = set()
_closed: list[bool] = []


def close_process(secrets: Iterable[str]) -> None:
    """No other process of this person may look into this one, and its environment block holds no `secrets`.
    Orphans of what we start come to us and not to init. Linux; elsewhere nothing."""
    wanted = {os.fsencode(secret) for secret in secrets} - _overwritten
    if _closed and not wanted:
        return
    if not Path("/proc/self/task").exists():
        return
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        if not _closed:
            _closed.append(True)
            libc = ctypes.CDLL(None, use_errno=True)
            libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        _overwrite(wanted)


def _overwrite(secrets: set[bytes]) -> None:
    """Take them out of the memory that `/proc/self/environ` and `cmdline` show: root may still look."""
    import ctypes

    for name, value in list(os.environ.items()):
        if any(secret in os.fsencode(value) for secret in secrets):
            os.environ[name] = value  # libc now has a copy elsewhere, for children that inherit all
    fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    start, end = int(fields[_ARGUMENTS]), int(fields[_ENVIRONMENT_END])
    block = ctypes.string_at(start, end - start) if 0 < start < end else b""
    for secret in secrets:
        at = block.find(secret)
        while at >= 0:
            ctypes.memset(start + at, ord("x"), len(secret))
            at = block.find(secret, at + len(secret))
        _overwritten.add(secret)
