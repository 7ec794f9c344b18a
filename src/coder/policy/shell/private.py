"""Words of a shell line that name what is nobody's business here: the person's home outside the workspace,
the environment and memory of other processes, the system's own secrets.

A command that only looks may look at the workspace and at the system; not at these without being asked, nor
through all that lies below a folder which holds them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from coder.policy.programs.flags import Flags, check_flags
from coder.policy.programs.tables import names
from coder.policy.secrets.home import names_home_secret
from coder.policy.shell.folders import WorkingFolders
from coder.policy.shell.words import Word

_HOMES = ("/root/", "/home/", "/Users/")
_SECRET = (*("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh/", "/etc/ssl/private", "/run/secrets"),)
# Of /dev what every program may read; the rest are disks, memory, terminals.
_DEVICES_KEPT = names(
    "/dev /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/stdin /dev/stdout /dev/stderr"
)
_DESCRIPTOR = re.compile(r"/dev/fd/[0-9]+")
_HOLDING = ("/proc/", "/dev/", "/mnt/", "/media/", "/Volumes/")  # all of it, or disks that nobody expects
# What programs look up about the machine; the rest of /proc is about processes and holds their environment.
_PROC_KEPT = (
    *("cpuinfo", "meminfo", "loadavg", "uptime", "version", "stat", "mounts", "filesystems", "cmdline"),
    *("partitions", "diskstats", "swaps", "modules", "devices", "sys/kernel", "sys/vm", "sys/fs", "net/dev"),
)


# Programs that read all that is below a folder: always, or with one of these letters or words.
_SWEEPERS = frozenset({"find", "rg", "fd", "fdfind", "tree", "du", "git"})
_SWEEPING: dict[str, Flags] = {
    **dict.fromkeys(
        ("grep", "egrep", "fgrep"),
        Flags(short="rRd", long=("--recursive", "--dereference-recursive", "--directories")),
    ),
    **dict.fromkeys(("ls", "exa", "eza"), Flags(short="RT", long=("--recurse", "--recursive", "--tree"))),
    "diff": Flags(short="r", long=("--recursive",)),
}

# Variables that lead there by themselves.
_POINTERS = ("$HOME", "${HOME", "$PPID", "${PPID", "/$$", "${$}", "$OLDPWD", "${OLDPWD")


def looks_private(word: Word, places: WorkingFolders) -> bool:
    """Whether the word, however it is spelt, may lead there."""
    written = word.shell_text or word.text
    if written.startswith(("<(", ">(")):
        return False  # a process substitution; what runs in it is judged by itself
    if not word.exact and any(name in written for name in _POINTERS):
        return True
    return any(_private(text, word.exact, places) for text in _paths(word))


def sweeps(name: str, args: list[Word], places: WorkingFolders) -> bool:
    """Whether this call reads through a folder that holds what is private: `grep -r x /`."""
    if name not in _SWEEPERS:
        flags = _SWEEPING.get(name, Flags())
        if not any(word.maybe_option() and check_flags([word], flags) for word in args if word.exact):
            return False
    return any(_above_private(text, places) for word in args for text in _paths(word))


def _above_private(text: str, places: WorkingFolders) -> bool:
    if not text or places.inside(text):
        return False
    held = (*_HOMES, *_SECRET, *_HOLDING, str(Path("~").expanduser()))
    for path in (os.path.normpath(text), *_resolved(text, places)):
        below = path.rstrip("/") + "/"
        if path.startswith("/") and any(place.startswith(below) for place in held):
            return True
    return False


def _paths(word: Word) -> Iterator[str]:
    """The word itself, and what stands behind an equals sign (`--file=/x`, `if=/x`)."""
    yield word.text
    if "=" in word.text and word.text != "=~":
        yield word.text.split("=", 1)[1]


def _private(text: str, exact: bool, places: WorkingFolders) -> bool:
    if text.startswith("~"):
        return True
    if exact and (text in _DEVICES_KEPT or _DESCRIPTOR.fullmatch(text)):
        return False
    if not text.startswith("/"):
        if not text:
            return False
        reached = _resolved(text, places)
        return _is_secret(reached) or (not places.inside(text) and _at_home(reached))
    if not exact and text.count("/") < 2:
        return True  # `/p*/self/environ`: a pattern in the first folder may be any of them
    reached = [os.path.realpath(text), os.path.normpath(text)]
    return _is_secret(reached) or (not places.inside(text) and _at_home(reached))


def _resolved(text: str, places: WorkingFolders) -> list[str]:
    return [os.path.realpath(folder / text) for folder in places.folders]


def _is_secret(paths: list[str]) -> bool:
    """Also where the workspace is the home folder itself, or a folder in it that holds keys."""
    home = os.path.realpath(Path("~").expanduser())
    return names_home_secret(paths, home)


def _at_home(paths: list[str]) -> bool:
    own = str(Path("~").expanduser()).rstrip("/") + "/"
    for path in paths:
        if f"{path}/".startswith((*_HOMES, own)) and own != "/":
            return True
        if path.startswith(_SECRET):
            return True
        if path.startswith("/dev/") and path not in _DEVICES_KEPT:
            return True
        if path == "/proc" or (path.startswith("/proc/") and not path[6:].startswith(_PROC_KEPT)):
            return True
    return False
