"""The result types: the decision on a call, and the verdict on a shell line.

Reasons are phrases: English for the model and the record, localized for the person."""

from __future__ import annotations

from typing import Literal

import msgspec

from coder.config.schema import Decision
from coder.texts import Text


class Check(msgspec.Struct, frozen=True):
    """A command that tests, lints or type-checks (`policy.checks`). `name`: the program with its subcommand,
    `pytest`, `go test`, `npm test`. `part`: only some of the tests. `dry`: it shows nothing about the code.
    `doubt`: why it may not run unasked."""

    kind: Literal["tests", "lint"]
    name: str
    part: bool = False
    dry: bool = False
    doubt: Text | None = None

    @property
    def reason(self) -> Text:
        return Text("policy.why.check_part" if self.part else "policy.why.check", name=self.name)


class Segment(msgspec.Struct, frozen=True):
    """One simple command of a shell line, wherever it occurs (pipe, list, subshell, substitution …).

    `name`: the command as `always` remembers it: the word itself, with the subcommand or script that runs,
    if any (`git commit`, `npm run lint`, `make test`). Empty if it cannot be known. `opaque`: it runs
    something else (`sudo`, `env`, `xargs`, `sh -c`, …), so `always` never covers it. `rule`: why it is, or is
    not, read-only. `guarded`: read-only only in the environment that wholly read-only lines get. `check`: the
    check that it is, if nothing else about it does more than look."""

    command: str
    name: str
    read_only: bool
    opaque: bool
    rule: Text
    risks: list[Text] = []
    guarded: bool = False
    check: Check | None = None


class OutsideWrite(msgspec.Struct, frozen=True):
    """A file or directory outside the workspace that a line names to write, as a real path. `entry`: it is
    created, removed or renamed, rather than filled. `gone`: removed, or renamed to something else."""

    path: str
    entry: bool = False
    gone: bool = False


class ShellVerdict(msgspec.Struct, frozen=True):
    """A whole line: read-only if every segment is and nothing is redirected into a file. `outside`: what it
    writes outside the workspace. `inside`: the real paths of what it names to write there. `plain`: each of
    its commands is known to write nothing but what it names."""

    segments: list[Segment]
    read_only: bool
    risks: list[Text]
    parsed: bool = True
    drivers: frozenset[str] | None = None  # git drivers of the repositories it reads; None: it reads none
    outside: tuple[OutsideWrite, ...] = ()
    inside: frozenset[str] = frozenset()
    plain: bool = False

    @property
    def checks(self) -> list[Check]:
        return [segment.check for segment in self.segments if segment.check is not None]

    @property
    def only_checks(self) -> bool:
        """Whether it may run unasked as a check: all but read-only parts are checks without doubt."""
        return self.parsed and not self.risks and all(map(_is_known, self.segments))

    @property
    def is_check(self) -> bool:
        """Whether it is a check that may run unasked."""
        return self.only_checks and bool(self.checks)


def _is_known(segment: Segment) -> bool:
    """Whether it may be in a line that can write: read-only without the read-only sandbox, or a check. Git
    may: a repository whose settings run programs has tests that can, too."""
    if segment.read_only:
        return not segment.guarded or segment.name.split(" ")[0] == "git"
    return segment.check is not None and segment.check.doubt is None


class PolicyDecision(msgspec.Struct, frozen=True):
    """The policy decision on one call, with every reason."""

    decision: Decision
    reasons: list[Text]
    hint: Text | None = None  # what the person can do about it; not shown to the model
    can_always: bool = False
    always_names: list[str] = []
    check: bool = False  # runs unasked because it is a check: in the sandbox without network
    plan: bool = False  # runs unasked because nothing can be written: in the sandbox of plan mode

    @property
    def english(self) -> list[str]:
        """The reasons for the model and the record."""
        return [str(reason) for reason in self.reasons]

    @property
    def for_person(self) -> list[Text]:
        """The reasons for the person."""
        return self.reasons if self.hint is None else [*self.reasons, self.hint]
