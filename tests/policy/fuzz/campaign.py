"""Judges generated lines, runs those that are judged read-only, and makes what fails as short as it gets."""

from __future__ import annotations

import os
import random
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import cycle

import msgspec
import pytest

from coder.base.process import git as git_environment
from coder.policy.shell.judge import judge

from .chamber import Chamber, Line, Seen
from .grammar import Grammar
from .mutation import Mutation
from .vocabulary import Vocabulary

_BATCH = 48  # lines that are run before the tree is looked at
_BATCHES_A_TREE = 40  # then the other kind of repository is at its top
_MOST_TRIES = 600  # of runs that make a failing line shorter
_LONGEST = 4000
# A second each, a process for every file, or an interpreter that takes long to start: a few of them do.
_SLOW = re.compile(r"[jy]q|sl\S?eep|find .*-exec(?!.*maxdepth)|xargs -n|(?<!-)submodule|bisect|tail.* -f")
_SLOW_SHARE = 0.05
# By these a line says itself that something goes on after it; whoever runs it ends that.
_BACKGROUND = ("&", "<(", ">(", "setsid", "coproc")


class Failure(msgspec.Struct, frozen=True):
    """A line that was judged read-only and was not, the shortest such line in it, and what that did."""

    line: str
    shortest: str
    did: str


class Tally(msgspec.Struct):
    """How far it has got."""

    made: int = 0
    ran: int = 0
    late: int = 0
    unclear: int = 0  # batches that did something which none of their lines does alone
    failures: list[Failure] = []


class Campaign:
    """Lines from both generators, each judged and, where the verdict allows it, run."""

    def __init__(self, chamber: Chamber, seed: int, words: Vocabulary, skipped: str = "") -> None:
        self._chamber = chamber
        self._skipped = re.compile(skipped) if skipped else None
        self._chance = random.Random(seed)
        self._grammar = Grammar(words, self._chance)
        self._mutation = Mutation(words, self._grammar, self._chance)
        self.tally = Tally(failures=[])

    def run(
        self, lines: int, seconds: float | None = None, told: Callable[[Tally], None] = lambda tally: None
    ) -> Tally:
        """Until so many lines were made, or the time is over."""
        until = time.monotonic() + seconds if seconds else None
        for kind in cycle(("tame", "hostile")):
            self._chamber.restore(kind)
            with _judging_at(self._chamber):
                for _ in range(_BATCHES_A_TREE):
                    if self.tally.made >= lines or (until and time.monotonic() > until):
                        return self.tally
                    self._try(self._batch(lines))
                    told(self.tally)
        return self.tally

    def _batch(self, lines: int) -> list[Line]:
        found: list[Line] = []
        while len(found) < _BATCH and self.tally.made < lines:
            line = self._grammar.line() if self._chance.random() < 0.5 else self._mutation.line()
            if _SLOW.search(line) and self._chance.random() > _SLOW_SHARE:
                continue
            self.tally.made += 1
            if self._skipped and self._skipped.search(line):
                continue
            judged = self._judged(line) if len(line) <= _LONGEST else None
            if judged:
                found.append(judged)
                self._mutation.keep(line)
        return found

    def _judged(self, line: str) -> Line | None:
        """The line as it is to be run, if it is judged read-only."""
        verdict = judge(line, self._chamber.tree.work)
        return Line(line, verdict.drivers) if verdict.read_only and "\0" not in line else None

    def _try(self, batch: list[Line]) -> None:
        seen = self._chamber.run(batch)
        self.tally.ran += len(batch)
        self.tally.late += len(seen.late)
        if not _harm(batch, seen):
            return
        failed = 0
        self._chamber.put_back(seen.changed)
        for line, _ in batch:
            if self._harm_of(line):
                shortest = self._shorten(line)
                did = self._harm_of(shortest)
                failed += bool(did)
                self.tally.failures += [Failure(line, shortest, did)] if did else []
        self.tally.unclear += not failed

    def _harm_of(self, line: str) -> str:
        """What a line that is judged read-only does; empty where that is nothing, or it is not judged so."""
        judged = self._judged(line)
        if judged is None:
            return ""
        seen = self._chamber.run([judged])
        harm = _harm([judged], seen)
        if "marks" in harm:
            harm += f" [{self._chamber.capture('head -n 3 ../marks/run').strip()}]"
        if seen.changed:
            self._chamber.put_back(seen.changed)
        return harm

    def _shorten(self, line: str) -> str:
        """Take out whatever is not needed for it to fail: large pieces first, then single characters."""
        size = max(1, len(line) // 2)
        tries = 0
        while tries < _MOST_TRIES:
            at = 0
            shorter = False
            while at < len(line) and tries < _MOST_TRIES:
                candidate = line[:at] + line[at + size :]
                tries += 1
                if self._harm_of(candidate):
                    line, shorter = candidate, True
                else:
                    at += size
            if size == 1 and not shorter:
                break
            size = max(1, size // 2) if not shorter or size > 1 else 1
        return line


def _harm(lines: list[Line], seen: Seen) -> str:
    """What was done that must not be, in words."""
    left = [
        name
        for index, names in seen.left.items()
        if not any(mark in lines[index].text for mark in _BACKGROUND)
        for name in names
    ]
    words = [f"changed {', '.join(seen.changed)}"] if seen.changed else []
    words += [f"left running {', '.join(left)}"] if left else []
    return "; ".join(words)


@contextmanager
def _judging_at(chamber: Chamber) -> Iterator[None]:
    """The verdict is about the same home and programs that lines find. The disk, and git, are asked once for
    each path: the tree does not change between lines, or that is a failure."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(chamber.tree.home))
        patch.setenv("PATH", "/usr/bin:/bin")
        patch.setattr(git_environment, "driver_names", cache(git_environment.driver_names))
        patch.setattr(os.path, "realpath", cache(os.path.realpath))
        patch.setattr(shutil, "which", cache(shutil.which))
        yield
