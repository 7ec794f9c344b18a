"""Arguments that name private data: the home directory outside the workspace, the environment and memory of
other processes, system secrets.

A read-only command may read the workspace and the system unprompted, but not these, nor a tree that contains
them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from coder.policy.programs import names
from coder.policy.programs.flags import Flags, check_flags
from coder.policy.secrets.secret_places import further_homes, names_home_secret, own_directories
from coder.policy.shell.directories import WorkingDirectories
from coder.policy.shell.words import Word

_HOMES = ("/root/", "/home/", "/Users/")
_SECRET = ("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh/", "/etc/ssl/private", "/run/secrets")
# Harmless devices; the rest are disks, memory, terminals.
_DEVICES_KEPT = names(
    "/dev /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/stdin /dev/stdout /dev/stderr"
)
_PYTHON = re.compile(r"(?:.*/)?bin/(?:python|pypy)[0-9.]*")
_DESCRIPTOR = re.compile(r"/dev/fd/[0-9]+")
_HOLDING = ("/proc/", "/dev/", "/mnt/", "/media/", "/Volumes/")  # and mounted disks
# About the machine; the rest of /proc is about processes and includes their environment.
_PROC_KEPT = (
    *("cpuinfo", "meminfo", "loadavg", "uptime", "version", "stat", "mounts", "filesystems", "cmdline"),
    *("partitions", "diskstats", "swaps", "modules", "devices", "sys/kernel", "sys/vm", "sys/fs", "net/dev"),
)


# Programs that recurse: always, or with one of these options.
_RECURSIVE = frozenset({"find", "rg", "fd", "fdfind", "tree", "du", "git"})
_RECURSIVE_OPTIONS: dict[str, Flags] = {
    **dict.fromkeys(
        ("grep", "egrep", "fgrep"),
        Flags(short="rRd", long=("--recursive", "--dereference-recursive", "--directories")),
    ),
    **dict.fromkeys(("ls", "exa", "eza"), Flags(short="RT", long=("--recurse", "--recursive", "--tree"))),
    "diff": Flags(short="r", long=("--recursive",)),
}

# Variables that point there.
_POINTERS = ("$HOME", "${HOME", "$PPID", "${PPID", "/$$", "${$}", "$OLDPWD", "${OLDPWD",
             "$PWD/..", "${PWD}/..")  # fmt: skip


def looks_private(word: Word, places: WorkingDirectories) -> bool:
    """Whether the word, however spelt, may name private data."""
    written = word.shell_text or word.text
    if written.startswith(("<(", ">(")):
        return False  # process substitution: its command is judged separately
    if not word.exact and any(name in written for name in _POINTERS):
        return True
    if not word.exact and "{" in written:  # braces may put each of these at the beginning of a word
        pieces = re.findall(r"(?:^|[{,])([^{},]*)", written)
        if any(_private(text, False, places) for text in pieces if text.startswith(("/", "~", "../"))):
            return True
    return any(_private(text, word.exact, places) for text in _paths(word))


def reads_private_tree(name: str, args: list[Word], places: WorkingDirectories) -> bool:
    """Whether this call recurses into a directory that contains private data: `grep -r x /`."""
    if name not in _RECURSIVE:
        flags = _RECURSIVE_OPTIONS.get(name, Flags())
        if not any(word.maybe_option() and check_flags([word], flags) for word in args if word.exact):
            return False
    return any(_contains_private(text, places) for word in args for text in _paths(word))


def _contains_private(text: str, places: WorkingDirectories) -> bool:
    if not text or places.inside(text):
        return False
    private = (*_HOMES, *_SECRET, *_HOLDING, *_homes())
    for path in (os.path.normpath(text), *_resolved(text, places)):
        below = path.rstrip("/") + "/"
        if path.startswith("/") and any(place.startswith(below) for place in private):
            return True
    return False


def _paths(word: Word) -> Iterator[str]:
    """The word itself, and the value after an equals sign (`--file=/x`, `if=/x`)."""
    yield word.text
    if "=" in word.text and word.text != "=~":
        yield word.text.split("=", 1)[1]


def _private(text: str, exact: bool, places: WorkingDirectories) -> bool:
    if text.startswith("~"):
        return True
    if exact and (text in _DEVICES_KEPT or _DESCRIPTOR.fullmatch(text)):
        return False
    if not text:
        return False
    if not text.startswith("/"):
        reached = _resolved(text, places)
    elif not exact and text.count("/") < 2:
        return True  # `/p*/self/environ`: a glob at the root may match any of them
    else:
        reached = [os.path.realpath(text), os.path.normpath(text)]
    if _is_secret(reached, places):
        return True
    # The interpreter of a virtual environment in the workspace is a link, often to the home directory.
    own_python = places.named_inside(text) and all(map(_PYTHON.fullmatch, (text, *reached)))
    return not places.inside(text) and not own_python and _at_home(reached)


def _resolved(text: str, places: WorkingDirectories) -> list[str]:
    return [places.real(directory / text) for directory in places.directories]


def _is_secret(paths: list[str], places: WorkingDirectories) -> bool:
    """Applies even where the workspace is the home directory, or contains keys."""
    own = tuple(f"{path}/" for path in own_directories() if not f"{places.real_root}/".startswith(f"{path}/"))
    if any(f"{path}/".startswith(own) for path in paths):
        return True
    return any(names_home_secret(paths, places.real(Path(home))) for home in _homes())


def _homes() -> list[str]:
    return [str(Path("~").expanduser()), *further_homes()]


def _at_home(paths: list[str]) -> bool:
    homes = (*_HOMES, *(f"{home}/" for home in _homes() if home != "/"))
    for path in paths:
        if f"{path}/".startswith(homes) or path.startswith(_SECRET):
            return True
        if path.startswith("/dev/") and path not in _DEVICES_KEPT:
            return True
        if path == "/proc" or (path.startswith("/proc/") and not path[6:].startswith(_PROC_KEPT)):
            return True
    return False
