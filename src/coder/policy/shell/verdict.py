"""The result types: the ruling on a call, and the verdict on a shell line.

Reasons are phrases: English for the model and the record, localized for the person.
"""

from __future__ import annotations

import msgspec

from coder.config.schema import Decision
from coder.texts import Phrase


class Segment(msgspec.Struct, frozen=True):
    """One simple command of a shell line, wherever it occurs (pipe, list, subshell, substitution …).

    `name`: the command as `always` remembers it: the word itself, with its subcommand or script where that is
    what runs (`git commit`, `npm run lint`, `make test`). Empty if it cannot be known. `opaque`: it runs
    something else (`sudo`, `env`, `xargs`, `sh -c`, …), so `always` never covers it. `rule`: why it is, or is
    not, read-only. `guarded`: read-only only in the environment that wholly read-only lines get.
    """

    command: str
    name: str
    read_only: bool
    opaque: bool
    rule: Phrase
    risks: list[Phrase] = []
    guarded: bool = False


class ShellVerdict(msgspec.Struct, frozen=True):
    """A whole line: read-only if every segment is and nothing is redirected into a file."""

    segments: list[Segment]
    read_only: bool
    risks: list[Phrase]
    parsed: bool = True
    drivers: frozenset[str] | None = None  # git drivers of the repositories it reads; None: it reads none


class Ruling(msgspec.Struct, frozen=True):
    """The policy decision on one call, with every reason."""

    decision: Decision
    reasons: list[Phrase]
    hint: Phrase | None = None  # what the person can do about it; not shown to the model
    can_always: bool = False
    always_names: list[str] = []

    @property
    def english(self) -> list[str]:
        """The reasons for the model and the record."""
        return [str(reason) for reason in self.reasons]

    @property
    def told(self) -> list[Phrase]:
        """The reasons for the person."""
        return self.reasons if self.hint is None else [*self.reasons, self.hint]
