"""Words of a shell line that name what is nobody's business here: the person's home outside the workspace,
the environment and memory of other processes, the system's own secrets.

A command that only looks may look at the workspace and at the system; not at these without being asked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from coder.policy.places import Places
from coder.policy.words import Word

_HOMES = ("/root/", "/home/", "/Users/")
_SECRET = (
    *("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh/", "/etc/ssl/private", "/run/secrets"),
    "/dev/mem",
)
# What programs look up about the machine; the rest of /proc is about processes and holds their environment.
_PROC_KEPT = (
    *("cpuinfo", "meminfo", "loadavg", "uptime", "version", "stat", "mounts", "filesystems", "cmdline"),
    *("partitions", "diskstats", "swaps", "modules", "devices", "sys/kernel", "sys/vm", "sys/fs", "net/dev"),
)


# Variables that lead there by themselves.
_POINTERS = ("$HOME", "${HOME", "$PPID", "${PPID", "/$$", "${$}", "$OLDPWD", "${OLDPWD")


def looks_private(word: Word, places: Places) -> bool:
    """Whether the word, however it is spelt, may lead there."""
    written = word.shell_text or word.text
    if written.startswith(("<(", ">(")):
        return False  # a process substitution; what runs in it is judged by itself
    if not word.exact and any(name in written for name in _POINTERS):
        return True
    return any(_private(text, word.exact, places) for text in _paths(word))


def _paths(word: Word) -> Iterator[str]:
    """The word itself, and what stands behind an equals sign (`--file=/x`, `if=/x`)."""
    yield word.text
    if "=" in word.text and word.text != "=~":
        yield word.text.split("=", 1)[1]


def _private(text: str, exact: bool, places: Places) -> bool:
    if text.startswith("~"):
        return True
    if not text.startswith("/"):
        return bool(text) and not places.inside(text) and _at_home(_resolved(text, places))
    if not exact and text.count("/") < 2:
        return True  # `/p*/self/environ`: a pattern in the first folder may be any of them
    if places.inside(text):
        return False
    return _at_home([os.path.realpath(text), os.path.normpath(text)])


def _resolved(text: str, places: Places) -> list[str]:
    return [os.path.realpath(folder / text) for folder in places.folders]


def _at_home(paths: list[str]) -> bool:
    own = str(Path("~").expanduser()).rstrip("/") + "/"
    for path in paths:
        if f"{path}/".startswith((*_HOMES, own)) and own != "/":
            return True
        if path.startswith(_SECRET):
            return True
        if path == "/proc" or (path.startswith("/proc/") and not path[6:].startswith(_PROC_KEPT)):
            return True
    return False
