"""Unified diffs of texts, in bounded time.

`difflib` is quadratic where lines repeat; a person waits for the diff before approving. So what is
equal at both ends is set aside first, and a middle that would take long is shown as replaced whole.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice

import msgspec

from coder.base.text import common_ends, split_lines

DiffBlock = tuple[int, int, int, int]

CONTEXT = 3
MAX_LINES = 20_000  # of the differing middle; beyond it the middle is one block
MAX_PAIRS = 1_000_000  # equal pairs of lines in the middle: what difflib's time grows with
MAX_WIDTH = 2000  # characters of one line that are shown: a file of one line may have megabytes
NO_NEWLINE = "\\ No newline at end of file"


class Diff(msgspec.Struct, frozen=True):
    """A unified diff as lines; `places`: the new text's line that each hunk changes first."""

    lines: list[str]
    additions: int
    deletions: int
    places: list[int] = []
    binary: bool = False

    def text(self, limit: int) -> str:
        """At most `limit` lines, each of bounded length, with a note for the rest."""
        lines = [
            line
            if len(line) <= MAX_WIDTH
            else f"{line[:MAX_WIDTH]}… [{len(line) - MAX_WIDTH} more characters]"
            for line in islice(self.lines, limit)
        ]
        if len(self.lines) > limit:
            lines.append(f"… {len(self.lines) - limit} more lines of diff not shown")
        return "\n".join(lines)


def line_blocks(old: list[str], new: list[str]) -> list[DiffBlock]:
    """The changed blocks: `old[a:b]` became `new[c:d]`."""
    head, tail = common_ends(old, new)
    a, b, c, d = head, len(old) - tail, head, len(new) - tail
    if a == b and c == d:
        return []
    if a == b or c == d or not _affordable(old[a:b], new[c:d]):
        return [(a, b, c, d)]
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(None, old[a:b], new[c:d], autojunk=False)
    return [(a + i, a + j, c + k, c + m) for tag, i, j, k, m in matcher.get_opcodes() if tag != "equal"]


def _affordable(old: list[str], new: list[str]) -> bool:
    if max(len(old), len(new)) > MAX_LINES:
        return False
    counts = Counter(new)
    return sum(counts[line] for line in old) <= MAX_PAIRS


def unified(old: str, new: str, old_name: str, new_name: str) -> Diff:
    """The diff between two texts with `\n` newlines; names as the `---` and `+++` lines give them."""
    before, after = split_lines(old), split_lines(new)
    blocks = line_blocks(before, after)
    if not blocks:
        return Diff([], 0, 0)
    lines = [f"--- {old_name}", f"+++ {new_name}"]
    groups = grouped(blocks)
    for group in groups:
        lines += hunk_lines(group, before, after)
    added = sum(d - c for _, _, c, d in blocks)
    removed = sum(b - a for a, b, _, _ in blocks)
    places = [min(group[0][2] + 1, max(len(after), 1)) for group in groups]
    return Diff(lines, added, removed, places)


def grouped(blocks: list[DiffBlock]) -> list[list[DiffBlock]]:
    """Blocks whose contexts touch share a hunk."""
    groups = [[blocks[0]]]
    for block in blocks[1:]:
        if block[0] - groups[-1][-1][1] <= 2 * CONTEXT:
            groups[-1].append(block)
        else:
            groups.append([block])
    return groups


def hunk_lines(group: list[DiffBlock], old: list[str], new: list[str]) -> list[str]:
    start = max(0, group[0][0] - CONTEXT)
    stop = min(len(old), group[-1][1] + CONTEXT)
    new_start = group[0][2] - (group[0][0] - start)
    new_stop = group[-1][3] + (stop - group[-1][1])
    lines = [f"@@ -{_range(start, stop)} +{_range(new_start, new_stop)} @@"]
    at = start
    for a, b, c, d in group:
        _emit(lines, " ", old[at:a])
        _emit(lines, "-", old[a:b])
        _emit(lines, "+", new[c:d])
        at = b
    _emit(lines, " ", old[at:stop])
    return lines


def _emit(lines: list[str], sign: str, texts: list[str]) -> None:
    for text in texts:
        if text.endswith("\n"):
            lines.append(sign + text[:-1])
        else:
            lines += [sign + text, NO_NEWLINE]


def _range(start: int, stop: int) -> str:
    length = stop - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"
