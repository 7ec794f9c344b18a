"""A three-way merge by lines: taking one change back out of a file that a person has changed since."""

from __future__ import annotations

from coder.tools.text.diff import Block, line_blocks
from coder.tools.text.file import split_lines


def three_way(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """`ours` with the change from `base` to `theirs`; None where the two changes touch, or are no text."""
    if any(b"\0" in side for side in (base, ours, theirs)):
        return None
    # Latin-1 maps every byte to one character and back: whatever the encoding, bytes stay as they are.
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
    """Also where they only border on each other: lines side by side often belong together."""
    return left[0] <= right[1] and right[0] <= left[1]
