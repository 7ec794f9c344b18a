"""The effect of redirections on files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from coder.policy.scratch import temporary_directory
from coder.policy.shell.directories import WorkingDirectories
from coder.policy.shell.tree import Redirect
from coder.texts import Phrase

_HARMLESS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
# The scratch directory by its variable, which is set to it for commands; a line that sets it prompts.
_TMPDIR = re.compile(r'"?\$(?:TMPDIR|\{TMPDIR\})/((?:[\w@+-][\w.@+-]*/)*[\w@+-][\w.@+-]*)"?')
_OVERWRITING = frozenset({">", ">|", "&>", ">&"})


class Effect(msgspec.Struct, frozen=True):
    """Why a redirection is not read-only (None: it is), whether it makes the command opaque, its risk."""

    why: Phrase | None = None
    opaque: bool = False
    risk: Phrase | None = None


def judge_redirect(redirect: Redirect, places: WorkingDirectories, directories: Sequence[Path]) -> Effect:
    """`directories`: those that the command may run in."""
    target = redirect.target
    if redirect.operator in ("<", "<&", ">&-", "<&-"):
        return _read_effect(redirect)
    if redirect.operator == ">&" and target.exact and (target.text.isdigit() or target.text == "-"):
        return Effect()
    if not target.exact and (found := _TMPDIR.fullmatch(target.shell_text)):
        return _write_effect(redirect, f"{places.scratch}/{found[1]}", places, directories)
    if not target.exact:
        return Effect(
            Phrase("policy.why.writes_hidden"),
            True,
            Phrase("policy.risk.writes_hidden"),
        )
    name = target.text
    if name in _HARMLESS:
        return Effect()
    if name.startswith(("/dev/", "/proc/", "/sys/")):
        return Effect(
            Phrase("policy.why.writes_device", path=name), True, Phrase("policy.risk.device", path=name)
        )
    return _write_effect(redirect, name, places, directories)


def outside_risk(path: str, scratch: str) -> Phrase:
    """The risk of a write outside the workspace; where temporary files belong is said as well."""
    if temporary_directory(path):
        return Phrase("policy.risk.temporary", path=path, scratch=scratch)
    return Phrase("policy.risk.outside", path=path)


def _write_effect(
    redirect: Redirect, name: str, places: WorkingDirectories, directories: Sequence[Path]
) -> Effect:
    if not places.inside(name) and not places.in_scratch(name):
        path = places.outside(redirect.target, directories) or name
        return Effect(
            Phrase("policy.why.writes_outside", path=path), True, outside_risk(path, places.scratch)
        )
    if places.protected(name):
        return Effect(Phrase("policy.why.writes", path=name), True, Phrase("policy.risk.steering", path=name))
    if redirect.operator in _OVERWRITING and places.exists(name):
        return Effect(
            Phrase("policy.why.overwrites", path=name), False, Phrase("policy.risk.overwrites", path=name)
        )
    return Effect(Phrase("policy.why.writes", path=name))


def _read_effect(redirect: Redirect) -> Effect:
    target = redirect.target
    if redirect.operator in ("<&", ">&-", "<&-"):
        plain = target.exact and (target.text.isdigit() or target.text == "-")
        return Effect() if plain else Effect(Phrase("policy.why.descriptor_hidden"), True)
    if not target.exact:
        process = target.text == "/dev/fd/" and not target.splits
        return Effect() if process else Effect(Phrase("policy.why.file_hidden"), True)
    if target.text.startswith(("/dev/tcp", "/dev/udp", "//")) or "/dev/tcp" in target.text:
        return Effect(Phrase("policy.why.network"), True, Phrase("policy.risk.network"))
    return Effect()
