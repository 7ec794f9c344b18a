"""What the policy says of one call, and what is known of one shell line.

Reasons are phrases: the model and the record get them in English, the person in the language of the screen.
"""

from __future__ import annotations

import msgspec

from coder.config.schema import Decision
from coder.texts import Phrase, Texts


class Segment(msgspec.Struct, frozen=True):
    """One simple command of a shell line, wherever it stands (pipe, list, subshell, substitution …).

    `name` is the command as `always` remembers it: the word itself, or with its subcommand where the
    program is a family of programs, or its script (`git commit`, `npm run lint`, `make test`). Empty where it
    cannot be known.
    `opaque`: it runs something else (`sudo`, `env`, `xargs`, `sh -c`, …) so `always` never covers it.
    `rule` says in a few words why it is, or is not, read-only.
    `guarded`: it is read-only only in the environment that a line gets which is read-only as a whole.
    """

    command: str
    name: str
    read_only: bool
    opaque: bool
    rule: Phrase
    risks: list[Phrase] = []
    guarded: bool = False


class ShellVerdict(msgspec.Struct, frozen=True):
    """A whole line: read-only only where every segment is and nothing is redirected into a file."""

    segments: list[Segment]
    read_only: bool
    risks: list[Phrase]
    parsed: bool = True
    drivers: frozenset[str] | None = None  # of the repositories that git looks at; None: at none


class Ruling(msgspec.Struct, frozen=True):
    """The policy's word on one call, every reason with it."""

    decision: Decision
    reasons: list[Phrase]
    hint: Phrase | None = None  # what the person could do about it; no business of the model's
    can_always: bool = False
    always_names: list[str] = []

    @property
    def english(self) -> list[str]:
        """The reasons as the model and the record get them."""
        return [str(reason) for reason in self.reasons]

    def spoken(self, texts: Texts) -> list[str]:
        """The reasons as the person reads them."""
        told = self.reasons if self.hint is None else [*self.reasons, self.hint]
        return [reason.text(texts) for reason in told]
