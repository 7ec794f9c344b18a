"""Coder's own process: hardened against its children, its sockets and its signals.

Programs of the same user can read `/proc/PID/environ` and `/proc/PID/mem`, and both hold the provider's key.
Hardening is done before the first child starts rather than at start-up, because importing `ctypes` is slow.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from signal import SIG_IGN, SIGHUP, SIGINT, SIGTERM, getsignal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from signal import signal
else:
    from _signal import signal  # that of `signal` loads `inspect`, for the repr of asyncio's handler

_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_DUMPABLE = 4
_ARGUMENTS, _ENVIRONMENT_END = 45, 48  # fields of /proc/self/stat, counted after the name

_SECRET_NAME = re.compile(r"KEY$|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)

_secrets: set[str] = set()
_overwritten: set[bytes] = set()
_hardened: list[bool] = []


def keep_secret(values: Iterable[str]) -> None:
    """Remove these from this process's environment block before the next child starts."""
    _secrets.update(values)


def is_secret(name: str, value: str) -> bool:
    """Whether a variable is a key by its name, or contains one that is known."""
    return _SECRET_NAME.search(name) is not None or any(secret in value for secret in _secrets)


def harden_process() -> None:
    """Become undumpable and a subreaper, and erase secrets from the environment block (Linux only)."""
    wanted = {os.fsencode(secret) for secret in _secrets} - _overwritten
    if _hardened and not wanted:
        return
    if not Path("/proc/self/task").exists():
        return
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        if not _hardened:
            _hardened.append(True)
            libc = ctypes.CDLL(None, use_errno=True)
            libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        _overwrite(wanted)


def _overwrite(secrets: set[bytes]) -> None:
    """Overwrite them in the memory that `/proc/self/environ` and `cmdline` expose (to root as well)."""
    import ctypes

    for name, value in list(os.environ.items()):
        if any(secret in os.fsencode(value) for secret in secrets):
            os.environ[name] = value  # setenv makes a copy elsewhere, for children that inherit all
    fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    start, end = int(fields[_ARGUMENTS]), int(fields[_ENVIRONMENT_END])
    block = ctypes.string_at(start, end - start) if 0 < start < end else b""
    for secret in secrets:
        at = block.find(secret)
        while at >= 0:
            ctypes.memset(start + at, ord("x"), len(secret))
            at = block.find(secret, at + len(secret))
        _overwritten.add(secret)


# the loopback, which all users of the machine share


def is_own_socket(port: int, connected_to: int = 0) -> bool:
    """Whether this user or root has the listening (or connected) TCP socket. True on macOS."""
    owners: list[tuple[str, str]] = []
    for name in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/net/{name}").read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            if name == "tcp":
                return True
            continue  # no IPv6
        for line in lines:
            _, local, remote, *_, user, _, inode = line.split()[:10]
            if [int(end.rpartition(":")[2], 16) for end in (local, remote)] == [port, connected_to]:
                owners.append((user, inode))
    trusted = ("0", str(os.getuid()))
    # Without an inode it is closed already, and has lost its user.
    return bool(owners) and all(user in trusted and inode != "0" for user, inode in owners)


# signals

STOP = (SIGTERM, SIGHUP)
STOP_OR_INTERRUPT = (*STOP, SIGINT)


def heard(numbers: tuple[int, ...] = STOP) -> list[int]:
    """Those that are not ignored: `nohup` starts programs without SIGHUP, a shell its jobs without SIGINT."""
    return [number for number in numbers if getsignal(number) is not SIG_IGN]


def on_signals(handle: Callable[[int], object], numbers: tuple[int, ...] = STOP) -> None:
    """Call `handle` in the event loop (`loop.add_signal_handler` would load `inspect` first)."""
    loop = asyncio.get_running_loop()

    def arrived(number: int, _frame: object) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(handle, number)

    for number in heard(numbers):
        signal(number, arrived)
