"""The hunks of a proposed change, decided one by one: taken, left with a reason, or edited.

Pure: what is taken becomes a smaller diff, which the engine applies instead of the call.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from coder.protocol.events import ApprovalRequested
from coder.protocol.ops import ApprovalReply

_HEAD = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


class Hunk(msgspec.Struct, frozen=True):
    """`names`: the `---` and `+++` lines of its file."""

    names: tuple[str, str]
    head: str
    body: list[str]

    @property
    def path(self) -> str:
        """The file, without the prefix of git."""
        old, new = (name[4:] for name in self.names)
        return (old if new == "/dev/null" else new).removeprefix("a/").removeprefix("b/")

    @property
    def text(self) -> str:
        return "\n".join([self.head, *self.body])

    def edited(self, text: str) -> Hunk | None:
        """This hunk with the body that a person made of it; None if that is none."""
        body = [line or " " for line in text.split("\n")]
        if body and body[0].startswith("@@"):
            del body[0]
        signs = [line[0] for line in body]
        found = _HEAD.match(self.head)
        if found is None or not set(signs) <= set(" +-\\") or not {"+", "-"} & set(signs):
            return None
        old, new = (sum(sign in (" ", own) for sign in signs) for own in "-+")
        return Hunk(self.names, f"@@ -{found[1]},{old} +{found[2]},{new} @@", body)


def hunks_of(diff: str) -> list[Hunk]:
    """The hunks of a unified diff; none where it says more than hunks can (a file that is moved)."""
    found: list[Hunk] = []
    names = ("", "")
    lines = diff.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ "):
            names = (line, lines[at + 1])
            at += 2
        elif _HEAD.match(line) and names[0]:
            end = _end(lines, at)
            found.append(Hunk(names, line, lines[at + 1 : end]))
            at = end
        else:
            return []
    return found


def _end(lines: list[str], at: int) -> int:
    """Where the hunk ends, by its counts: a line of it may look like a header."""
    numbers = re.findall(r"[-+]\d+(?:,(\d+))?", lines[at].split("@@")[1])
    old, new = (int(count) if count else 1 for count in numbers)
    at += 1
    while at < len(lines) and (old > 0 or new > 0 or lines[at].startswith("\\")):
        sign = lines[at][:1]
        old -= sign in (" ", "-", "")
        new -= sign in (" ", "+", "")
        at += 1
    return at


REVIEW = "review"  # the `tool` of a question about changes that were made already


class Review:
    """Goes through the hunks of one question."""

    def __init__(self, diff: str) -> None:
        self.hunks = hunks_of(diff)
        self._taken: list[Hunk] = []
        self._told: list[str] = []  # for the model: what was left or changed
        self._left = 0

    @property
    def at(self) -> int:
        return len(self._taken) + self._left

    @property
    def current(self) -> Hunk | None:
        return self.hunks[self.at] if self.at < len(self.hunks) else None

    def take(self, changed: Hunk | None = None) -> None:
        """Take the current hunk, or what the person made of it."""
        current = self.hunks[self.at]
        if changed is not None and changed.body != current.body:
            self._told.append(f"{self._name()} was changed by the person before it was applied.")
        self._taken.append(changed or current)

    def leave(self, reason: str) -> None:
        because = f": {reason}" if reason else "."
        self._told.append(f"{self._name()} was refused by the person{because}")
        self._left += 1

    def _name(self) -> str:
        hunk = self.hunks[self.at]
        return f"Hunk {self.at + 1} of {len(self.hunks)} ({hunk.path} {hunk.head})"

    def reply(self, event: ApprovalRequested) -> ApprovalReply:
        """The whole is a yes, nothing of it a no."""
        reason = "\n".join(self._told)
        if not self._told:
            return ApprovalReply(event.approval_id, "yes")
        if not self._taken:
            return ApprovalReply(event.approval_id, "no", reason)
        return ApprovalReply(event.approval_id, "yes", reason, amended=diff_of(self._taken))

    @property
    def counts(self) -> tuple[int, int]:
        return len(self._taken), len(self.hunks)


def diff_of(hunks: Iterable[Hunk]) -> str:
    lines: list[str] = []
    names: tuple[str, str] | None = None
    for hunk in hunks:
        if hunk.names != names:
            lines += hunk.names
            names = hunk.names
        lines += [hunk.head, *hunk.body]
    return "\n".join(lines)


def renumbered(hunks: Iterable[Hunk]) -> list[Hunk]:
    """Those of a larger diff with the new lines where they are without the other hunks."""
    found: list[Hunk] = []
    shift = 0
    for hunk in hunks:
        head = _HEAD.match(hunk.head)
        if head is None:
            continue
        if found and found[-1].names != hunk.names:
            shift = 0
        old, new = (sum(line[:1] in (" ", own, "") for line in hunk.body) for own in "-+")
        start = int(head[1]) + shift + (not old) - (not new)  # no lines: counted from the one before
        found.append(Hunk(hunk.names, f"@@ -{head[1]},{old} +{start},{new} @@", hunk.body))
        shift += new - old
    return found
