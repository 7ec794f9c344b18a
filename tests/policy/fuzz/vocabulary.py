"""What lines are made of: the programs and options of the policy's own tables, and of the programs' own help.

A new entry of a table is covered by itself; options that no table knows are found in what the program says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import msgspec

from coder.policy.programs import command_rules as commands
from coder.policy.programs import git_rules, wrappers
from coder.policy.programs import languages as programs
from coder.policy.programs.flags import Flags

from ..place import rows
from .tree import real_programs

_OPTION = re.compile(r"(?<![\w/-])(--?[A-Za-z0-9?][\w-]*)(\[?=)?")
# These wait, or go on for ever: nothing would be learnt.
_SLOW = frozenset({"-f", "--follow", "-F", "--watch", "--retry", "--repeat", "-c", "--count"})
_SLOW_OF = frozenset({"tail", "free", "w", "sleep", "pgrep", "dmesg", "lsof", "netstat", "ss"})
# Whatever shows commits takes options of the diff and log family, also where its help does not say so.
_SHOWING = (
    *(
        "-p",
        "-1",
        "--all",
        "--cc",
        "-p --submodule=diff",
        "--submodule=log",
        "--submodule=",
        "--diff-merges=",
    ),
    *("--diff-merges=remerge", "--format=%G?", "--format=%-GK", "--pretty=%GS", "--pretty=%(signature:key)"),
)


class Vocabulary(msgspec.Struct, frozen=True):
    """Programs with their options, and git's subcommands with theirs."""

    programs: tuple[str, ...]
    options: dict[str, tuple[str, ...]]
    git: dict[str, tuple[str, ...]]
    seeds: tuple[str, ...]


def learn(capture: Callable[[str], str]) -> Vocabulary:
    """Ask the tables for programs, and the programs for their options."""
    known = sorted(real_programs() | set(commands._VERSIONS))
    options = {name: _options_of(name, capture) for name in known}
    seconds = {f"{name} {second}" for name, words in git_rules._SECOND_WORDS.items() for second in words}
    subcommands = sorted({*git_rules._READ_ONLY, *git_rules._RULES, *git_rules._SECOND_WORDS, *seconds})
    general = [*_of_flags([git_rules._DIFF, git_rules._GREP]), *_SHOWING]
    git = {name: tuple(sorted({*general, *_parsed(capture(f"git {name} -h 2>&1"))})) for name in subcommands}
    seeds = tuple(row.line for row in rows() if row.expected.startswith("read"))
    return Vocabulary(tuple(known), options, git, seeds)


def _options_of(name: str, capture: Callable[[str], str]) -> tuple[str, ...]:
    found: set[str] = set()
    if name in commands._OPTIONS:
        found |= set(_of_flags([commands._OPTIONS[name]]))
    if name in wrappers._PREFIXES:
        found |= wrappers._PREFIXES[name].plain | wrappers._PREFIXES[name].valued
    found |= {"find": wrappers._FIND_TESTS | wrappers._FIND_PLAIN, "sed": programs._SED_FLAGS,
              "xargs": wrappers._XARGS.plain | wrappers._XARGS.valued}.get(name, set())  # fmt: skip
    found |= commands._VERSIONS.get(name, frozenset())
    if name in real_programs() and name not in ("sleep", "exec", "exit", "read", ":"):
        found |= set(_parsed(capture(f"{name} --help 2>&1")))
    if name in _SLOW_OF:
        found -= _SLOW
    return tuple(sorted(found))


def _of_flags(tables: Iterable[Flags]) -> list[str]:
    """Options that are refused: they must stay so in whatever form they are given."""
    return [option for table in tables for option in (*table.long, *(f"-{letter}" for letter in table.short))]


def _parsed(text: str) -> list[str]:
    found = []
    for name, value in _OPTION.findall(text):
        found.append(name + "=" if value else name)
    return found
