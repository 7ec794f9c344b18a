"""Telling a command that the sandbox stopped from one that failed by itself.

Only then is a person offered to run it again without: so a refusal is claimed where the place named in
the error is one that the sandbox closes and the file system alone would not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from coder.policy.sandbox import Ended, Sandbox
from coder.policy.sandbox_places import Places, within
from coder.texts import Phrase

_LINES = 400  # of the end of an output, where the error stands
_REFUSED = re.compile(
    r"read-only file system|permission denied|operation not permitted|\bE(?:ROFS|ACCES|PERM)\b", re.I
)
_LOCKED = re.compile(r"device or resource busy|\bEBUSY\b", re.I)  # what replacing a locked file comes to
_READ_ONLY = re.compile(r"read-only file system|\bEROFS\b", re.I)
_NO_NETWORK = re.compile(
    r"could not resolve host|temporary failure in name resolution|name or service not known"
    r"|network is unreachable|failed to establish a new connection|\bEAI_AGAIN\b|\bENETUNREACH\b"
    r"|socket: operation not permitted|no address associated with hostname|could not resolve proxy",
    re.I,
)
_QUOTED = re.compile(r"['\"`‘“]([^'\"`’”\n]{1,4096})['\"`’”]")
_BARE = re.compile(r"(?:^|[\s:=(\[])((?:~|\.{1,2})?/[^\s:'\"`()\[\],;]+)")
_RELATIVE = re.compile(r"(?:^|[\s:=(\['\"])([\w.@+-]+(?:/[\w.@+-]+)+)")
_FIELD = re.compile(r"(?:^|: )([^:\s][^:\n]{0,255})(?=: )")


def refusal(sandbox: Sandbox, outcome: Ended) -> Phrase | None:
    """See `Sandbox.explain_refusal`."""
    lines = f"{outcome.stdout[-200_000:]}\n{outcome.stderr[-200_000:]}".splitlines()[-_LINES:]
    places = sandbox.places()
    for line in lines:
        line = line[:2000]
        said = _REFUSED.search(line)
        locked = _locked_one(line, places)
        if locked:
            return Phrase("sandbox.refused.write", path=locked)
        if said is None:
            continue
        for path in _named(line, said.span(), places.workspace, sandbox.environment.get("HOME", "")):
            if within(path, places.hidden):
                return Phrase("sandbox.refused.secret", path=path)
            if _closed(path, places):
                return Phrase(
                    "sandbox.refused.plan" if _inside(path, places) else "sandbox.refused.write", path=path
                )
        if _READ_ONLY.search(line) and sandbox.level.rung == "bwrap":
            return Phrase("sandbox.refused.somewhere")
    cut = not sandbox.network and sandbox.level.cuts_network
    if cut and any(_NO_NETWORK.search(line[:2000]) for line in lines):
        return Phrase("sandbox.refused.network")
    return None


def _locked_one(line: str, places: Places) -> str:
    """The locked file that a line says could not be changed; programs name these as they reach them."""
    if not (_LOCKED.search(line) or _REFUSED.search(line)):
        return ""
    named = [match[1] for pattern in (_QUOTED, _BARE, _RELATIVE) for match in pattern.finditer(line)]
    texts = [os.path.normpath(text) for text in named if "\0" not in text]
    paths = [os.path.join(places.workspace, text) for text in texts]
    found = next((path for path in paths if within(path, places.locked)), "")
    # A command may have gone elsewhere first: `.git/config` is then that of a repository further down.
    return found or next((path for path in places.locked for text in texts if path.endswith(f"/{text}")), "")


def _inside(path: str, places: Places) -> bool:
    return within(path, [places.workspace]) and not within(path, places.locked)


def _closed(path: str, places: Places) -> bool:
    """Whether the sandbox alone keeps this from being written."""
    if within(path, places.locked):
        return True
    if within(path, [*places.writable, places.scratch]) or within(path, ["/proc", "/dev", "/sys"]):
        return False
    if within(path, places.temp) and not within(path, places.seen_in_temp):
        return False
    there = path
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    return os.access(there, os.W_OK)


def _named(line: str, said: tuple[int, int], cwd: str, home: str) -> Iterator[str]:
    """Everything in an error line that may be a path, made absolute; what stands nearest to the words of
    refusal comes first, because the program that complains often stands at the front of the line."""
    found = [match for pattern in (_QUOTED, _BARE, _FIELD) for match in pattern.finditer(line)]

    def away(match: re.Match[str]) -> int:
        begin, end = match.span(1)
        return said[0] - end if end <= said[0] else max(0, begin - said[1])

    for match in sorted(found, key=away):
        text = match[1]
        if "\0" in text:
            continue
        if text.startswith("~/"):
            text = home + text[1:]
        path = os.path.normpath(os.path.join(cwd, text.strip()))
        yield os.path.realpath(path) if len(path) < 4096 else path
