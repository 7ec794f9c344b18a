"""Three-way merge by lines: revert one change in a file that was edited since."""

from __future__ import annotations

from coder.tools.text.diff import Block, line_blocks
from coder.tools.text.file import split_lines


def three_way(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """`ours` with the change from `base` to `theirs`; None on conflict or for binary content."""
    if any(b"\0" in side for side in (base, ours, theirs)):
        return None
    # Latin-1 round-trips every byte, whatever the real encoding.
    old, mine, other = (split_lines(side.decode("latin-1")) for side in (base, ours, theirs))
    left, right = line_blocks(old, mine), line_blocks(old, other)
    merged: list[str] = []
    at = 0
    while left or right:
        if _same(left, right, mine, other):
            left.pop(0)
            block, lines = right.pop(0), other
        elif left and right and _touch(left[0], right[0]):
            return None
        elif not right or (left and left[0][0] < right[0][0]):
            block, lines = left.pop(0), mine
        else:
            block, lines = right.pop(0), other
        start, end, new_start, new_end = block
        merged += old[at:start]
        merged += lines[new_start:new_end]
        at = end
    merged += old[at:]
    return "".join(merged).encode("latin-1")


def _same(left: list[Block], right: list[Block], mine: list[str], other: list[str]) -> bool:
    if not (left and right):
        return False
    (a, b, c, d), (e, f, g, h) = left[0], right[0]
    return (a, b) == (e, f) and mine[c:d] == other[g:h]


def _touch(left: Block, right: Block) -> bool:
    """Overlapping or adjacent: neighbouring lines often belong together."""
    return left[0] <= right[1] and right[0] <= left[1]
