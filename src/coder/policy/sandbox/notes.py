"""Hints after a command failed that the sandbox may have kept from something.

The proof is in the sandbox's rules and the file's own permissions: the line and its output only say which
paths to look up, so each hint is true whatever the command printed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from coder.policy.sandbox.caches import within
from coder.policy.sandbox.ladder import Sandbox
from coder.policy.sandbox.places import AccessRules
from coder.texts import Phrase

_LINES, _WIDTH = 400, 2000  # of the end of an output, where errors are
_READ_ONLY = r"read-only file system|\bEROFS\b"
_NO_NETWORK = re.compile(
    r"could not resolve|name resolution|name or service not known|network is unreachable"
    r"|socket: operation not|failed to establish a new connection|no address associated"
    r"|connection refused|\bEAI_AGAIN\b|\bENETUNREACH\b|\bECONNREFUSED\b",
    re.I,
)
_REFUSED = re.compile(
    rf"{_READ_ONLY}|permission denied|operation not permitted|device or resource busy"
    r"|\bE(?:ACCES|PERM|BUSY)\b",
    re.I,
)
# A path in an error: in quotes, with a slash, or between colons.
_PATH = re.compile(
    r"['\"`‘“]([^'\"`’”\n]+)['\"`’”]|(?:^|[\s:=(\[])(~?[\w.@+-]*/[^\s:'\"`()\[\],;]*)|(?:^|: )([^:\s]+)(?=: )"
)


def note(sandbox: Sandbox, output: str, written: Iterable[str] = ()) -> Phrase | None:
    """The rule in question, or None. `written`: paths that the line names to write."""
    lines = [line[:_WIDTH] for line in output[-200_000:].splitlines()[-_LINES:]]
    offline = not sandbox.network and any(map(_NO_NETWORK.search, lines))
    if sandbox.plan:
        # Only a read-only mount gives EROFS; other rungs give EACCES or EPERM.
        words = re.compile(_READ_ONLY, re.I) if sandbox.level.rung == "bwrap" else _REFUSED
        return Phrase("sandbox.note.reading") if offline or any(map(words.search, lines)) else None
    places = sandbox.places()
    home = sandbox.environment.get("HOME", "")
    for line in filter(_REFUSED.search, lines):
        for path in _named(line, places, home):
            if within(path, places.hidden):
                return Phrase("sandbox.note.secret", path=path)
            if within(path, places.locked):
                return Phrase("sandbox.note.locked", path=path)
            if _closed(path, places):
                return _not_written(path, home)
    if path := next((path for path in written if _closed(path, places)), ""):
        return _not_written(path, home)
    return Phrase("sandbox.note.network") if offline else None


def _not_written(path: str, home: str) -> Phrase:
    """With the directory to open, which is not the home itself: of `~/.npm/_cacache/tmp/x` it is `~/.npm`."""
    person = os.path.realpath(home)
    below = os.path.relpath(path, person).split("/") if home and within(path, [person]) else []
    depth = (
        2 if below[0:1] == [".config"] or below[0:1] == [".cache"] else 3 if below[:1] == [".local"] else 1
    )
    directory = "/".join(["~", *below[:depth]]) if len(below) > depth else ""
    if not below:
        directory = os.path.dirname(path)
    return Phrase("sandbox.note.write", path=path, directory=f'["{directory or "…"}"]')


def _closed(path: str, places: AccessRules) -> bool:
    """Whether only the sandbox prevents writing this."""
    if within(path, [*places.writable, places.scratch, "/proc", "/dev", "/sys"]):
        return False
    if within(path, places.temp) and not within(path, places.seen_in_temp):
        return False
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return os.access(path, os.W_OK)


def _named(line: str, places: AccessRules, home: str) -> Iterator[str]:
    for match in reversed(list(_PATH.finditer(line))):  # the program's name comes first
        text = next(filter(None, match.groups()))
        if "\0" in text:
            continue
        text = os.path.normpath(home + text[1:] if text.startswith("~/") else text)
        # After a `cd`, `.git/config` may be a nested repository's.
        locked = (path for path in places.locked if not os.path.isabs(text) and path.endswith(f"/{text}"))
        yield next(locked, os.path.realpath(os.path.join(places.workspace, text)))
