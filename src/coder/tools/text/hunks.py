"""The hunks of a proposed change, decided one by one: taken, left with a reason, edited, or split.

Pure: what is taken becomes a smaller diff, which the engine applies instead of the call."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise

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
    def start(self) -> str:
        """Its first old line."""
        found = _HEAD.match(self.head)
        return found[1] if found else ""

    @property
    def new_start(self) -> int:
        found = _HEAD.match(self.head)
        return int(found[2]) if found else 0

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

    def pieces(self) -> list[Hunk]:
        """A hunk for each run of changed lines; the unchanged lines between two runs are shared out."""
        found = _HEAD.match(self.head)
        runs = [at for changed, at in _runs(self.body) if changed]
        if found is None or len(runs) < 2:
            return [self]
        cuts = [(one.stop + other.start + 1) // 2 for one, other in pairwise(runs)]
        old, new = int(found[1]), int(found[2])
        pieces = []
        for start, stop in pairwise([0, *cuts, len(self.body)]):
            body = self.body[start:stop]
            olds, news = (sum(line[:1] in ("", " ", own) for line in body) for own in "-+")
            pieces.append(Hunk(self.names, f"@@ -{old},{olds} +{new},{news} @@", body))
            old, new = old + olds, new + news
        return pieces

    def kept_runs(self, kept: Hunk) -> list[bool]:
        """Of each run of changed lines, whether `kept` has it: this hunk with some of its pieces left."""
        found, at = [], 0
        for changed, lines in _runs(self.body):
            run = self.body[lines.start : lines.stop]
            has = kept.body[at : at + len(run)] == run
            found += [has] if changed else []
            at += len(run if has else _left(run))
        return found


def _runs(body: list[str]) -> list[tuple[bool, range]]:
    """The runs of unchanged and of changed lines."""
    signs: list[str] = []
    for line in body:
        signs.append(signs[-1] if line.startswith("\\") and signs else line[:1])
    found, at = [], 0
    for changed, run in groupby(sign in ("+", "-") for sign in signs):
        stop = at + sum(1 for _ in run)
        found.append((changed, range(at, stop)))
        at = stop
    return found


def _left(body: list[str]) -> list[str]:
    """The lines as they are without the change."""
    found, added = [], False
    for line in body:
        added = line.startswith("+") or (added and line.startswith("\\"))
        if not added:
            found.append(f" {line[1:]}" if line.startswith("-") else line)
    return found


def hunks_of(diff: str, *, strict: bool = True) -> list[Hunk]:
    """The hunks of a unified diff. `strict`: none if it says more than hunks can (a moved file)."""
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
        elif strict:
            return []
        else:
            at += 1
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
        self._numbers = list(range(len(self.hunks)))  # of the hunks that these are, or are pieces of
        self._decided: list[Hunk | None] = []  # what was taken of each; None: left
        self._remarks: list[str] = []  # for the model: what was left or changed
        self._looked_at: tuple[Hunk | None, bool] = None, False  # see `can_split`

    @property
    def at(self) -> int:
        return len(self._decided)

    @property
    def current(self) -> Hunk | None:
        return self.hunks[self.at] if self.at < len(self.hunks) else None

    def take(self, changed: Hunk | None = None) -> None:
        """Take the current hunk, or what the person made of it."""
        current = self.hunks[self.at]
        if changed is not None and changed.body != current.body:
            self._remarks.append(f"{self._name()} was changed by the person before it was applied.")
        self._decided.append(changed or current)

    def leave(self, reason: str) -> None:
        because = f": {reason}" if reason else "."
        self._remarks.append(f"{self._name()} was refused by the person{because}")
        self._decided.append(None)

    @property
    def can_split(self) -> bool:
        """Whether the current hunk has several runs of changed lines. Looked up with every key."""
        hunk = self.current
        if hunk is not self._looked_at[0]:
            self._looked_at = hunk, hunk is not None and len(hunk.pieces()) > 1
        return self._looked_at[1]

    def split(self) -> int:
        """Put the pieces of the current hunk in its place, and count them."""
        at, pieces = self.at, self.hunks[self.at].pieces()
        self.hunks[at : at + 1] = pieces
        self._numbers[at : at + 1] = [self._numbers[at]] * len(pieces)
        return len(pieces)

    def _name(self) -> str:
        hunk = self.hunks[self.at]
        return f"Hunk {self.at + 1} of {len(self.hunks)} ({hunk.path} {hunk.head})"

    def reply(self, event: ApprovalRequested) -> ApprovalReply:
        """The whole is a yes, nothing of it a no."""
        reason = "\n".join(self._remarks)
        if not self._remarks:
            return ApprovalReply(event.approval_id, "yes")
        if not self.counts[0]:
            return ApprovalReply(event.approval_id, "no", reason)
        return ApprovalReply(event.approval_id, "yes", reason, amended=diff_of(self._taken()))

    def _taken(self) -> Iterator[Hunk]:
        """What was taken; pieces of one hunk are one again, in which those that were left stay unchanged."""
        decided = zip(self._numbers, self.hunks, self._decided, strict=True)
        for _, group in groupby(decided, key=lambda one: one[0]):
            pieces = [(hunk, taken) for _, hunk, taken in group]
            if len(pieces) == 1 and pieces[0][1] is not None:
                yield pieces[0][1]
            elif any(taken is not None for _, taken in pieces):
                body = [
                    line for hunk, taken in pieces for line in (taken.body if taken else _left(hunk.body))
                ]
                if (whole := pieces[0][0].edited("\n".join(body))) is not None:
                    yield whole

    @property
    def counts(self) -> tuple[int, int]:
        return sum(taken is not None for taken in self._decided), len(self.hunks)


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
    """Some hunks of a larger diff, with line numbers as without the others."""
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
