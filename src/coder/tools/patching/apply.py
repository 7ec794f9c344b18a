"""Applying hunks to a text: where each belongs, and what becomes of the lines there.

Only lines that a hunk removes or adds are touched; context lines stay the file's own, even where they
were matched with some tolerance.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from coder.tools.patching.formats import Hunk
from coder.tools.text.file import Span, TextFile
from coder.tools.text.match import Shift, fold, nearest, numbered, shift_between, window_starts

MAX_FUZZ = 2  # context lines at either end of a hunk that may differ, as in patch(1)

_LEVELS: tuple[tuple[Callable[[str], str], bool], ...] = (
    (str, False),
    (str.rstrip, False),
    (lambda line: fold(line).rstrip(), False),
    (lambda line: fold(line).strip(), True),
)


class HunkFailed(Exception):
    """A hunk that fits nowhere, or in several places; the text shows what was expected and what is there."""


class _Spot(msgspec.Struct, frozen=True):
    """A hunk (its outermost context perhaps left off) and the line it begins at."""

    at: int
    lines: list[tuple[str, str]]
    shift: Shift = str
    left_off: int = 0  # context lines of the hunk that the file does not have there


def apply_hunks(
    file: TextFile, hunks: list[Hunk], notes: list[str] | None = None, *, exactly: bool = False
) -> bytes:
    """The file's bytes after all hunks; raises `HunkFailed` with every hunk that fits nowhere.

    `notes` takes what is to be told of hunks that were applied. `exactly`: each hunk must fit as it is
    written, in one place only."""
    lines = file.text.split("\n")
    closed = lines[-1] == ""
    if closed:
        lines.pop()
    edits: list[tuple[int, int, list[str]]] = []
    cursor = drift = 0
    failures: list[str] = []
    for number, hunk in enumerate(hunks, 1):
        try:
            if exactly:
                _require_one_place(lines, hunk, number)
            spot = _place(lines, hunk, cursor, drift, number)
        except HunkFailed as failed:
            failures.append(str(failed))
            continue
        if hunk.start is not None and hunk.old:
            drift = spot.at - (hunk.start - 1)
        if spot.left_off and notes is not None:
            count = (
                "1 context line that is" if spot.left_off == 1 else f"{spot.left_off} context lines that are"
            )
            notes.append(f"hunk {number} applied without {count} not in the file there")
        cursor = _collect(spot, edits)
    if failures:
        raise HunkFailed("\n".join(failures))
    spans = _spans(edits, lines, closed, _new_end(hunks, edits, lines, closed))
    return file.replaced(spans)


def _collect(spot: _Spot, edits: list[tuple[int, int, list[str]]]) -> int:
    """Add the hunk's changed runs as (from, to, new lines); answers the line after it."""
    at = first = spot.at
    added: list[str] = []
    changing = False
    for sign, text in [*spot.lines, (" ", "")]:
        if sign == " ":
            if changing:
                _append(edits, first, at, added)
                added, changing = [], False
            at += 1
            continue
        if not changing:
            first, changing = at, True
        if sign == "-":
            at += 1
        else:
            added.append(spot.shift(text))
    return at - 1


def _append(edits: list[tuple[int, int, list[str]]], first: int, last: int, added: list[str]) -> None:
    """Add an edit; one that begins where the one before ended continues it."""
    if edits and edits[-1][1] == first:
        start, _, before = edits.pop()
        first, added = start, before + added
    edits.append((first, last, added))


def _new_end(
    hunks: list[Hunk], edits: list[tuple[int, int, list[str]]], lines: list[str], closed: bool
) -> bool:
    """Whether the new text ends in a newline: as the patch says, else as it was, else yes."""
    last = hunks[-1] if hunks else Hunk([])
    reaches_end = bool(edits) and edits[-1][1] == len(lines)
    # The same said of both sides is no change, whatever the file has.
    if reaches_end and last.new_open is not None and last.new_open != last.old_open:
        return not last.new_open
    return closed if lines else True


def _spans(
    edits: list[tuple[int, int, list[str]]], lines: list[str], closed: bool, new_closed: bool
) -> list[Span]:
    """The edits as spans of the text, its last newline among them where that comes or goes."""
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    end = starts[-1] if closed or not lines else starts[-1] - 1
    spans: list[Span] = []
    count = len(lines)
    for first, last, new in edits:
        if last < count:
            spans.append((starts[first], starts[last], "".join(f"{line}\n" for line in new)))
            continue
        kept = first > 0
        tail = "\n".join(new) + ("\n" if new and new_closed else "")
        if kept and not new:
            # The line before becomes the last one: its newline goes or stays with `new_closed`.
            spans.append((starts[first] - 1, end, "\n" if new_closed else ""))
        elif kept:
            spans.append((starts[first] - 1, end, "\n" + tail))
        else:
            spans.append((0, end, tail))
    if (not edits or edits[-1][1] < count) and closed != new_closed and lines:
        spans.append((end, end, "\n") if new_closed else (end - 1, end, ""))
    return spans


def _place(lines: list[str], hunk: Hunk, cursor: int, drift: int, number: int) -> _Spot:
    cursor, anchored = _after_anchors(lines, hunk, cursor, number)
    old = hunk.old
    if not old:
        return _Spot(_insertion_point(lines, hunk, cursor, drift, anchored), hunk.lines)
    expected = hunk.start - 1 + drift if hunk.start is not None else None
    for key, indented in _LEVELS:
        found = _matches(lines, hunk.lines, key, indented, cursor)
        if hunk.at_end:
            found = [spot for spot in found if spot.at + len(old) == len(lines)] or found
        if found:
            return _chosen(found, expected, anchored, hunk, number)
    fuzzy = _fuzzy(lines, hunk, cursor, expected)
    if fuzzy is not None:
        return fuzzy
    raise HunkFailed(_expected_and_actual(lines, hunk, expected, number))


def _require_one_place(lines: list[str], hunk: Hunk, number: int) -> None:
    if not hunk.old or len(_all_starts(lines, hunk.old, 0)) != 1:
        raise HunkFailed(f"hunk {number} does not fit exactly, in one place")


def _after_anchors(lines: list[str], hunk: Hunk, cursor: int, number: int) -> tuple[int, bool]:
    """Past the lines that `@@` lines name. One that is not there is no matter if the hunk has context."""
    anchored = False
    for anchor in hunk.anchors:
        wanted = fold(anchor).strip()
        at = next((n for n in range(cursor, len(lines)) if fold(lines[n]).strip() == wanted), None)
        if at is None:
            at = next((n for n in range(cursor, len(lines)) if wanted in fold(lines[n])), None)
        if at is None:
            if hunk.old:
                continue
            raise HunkFailed(f"hunk {number}: the line {anchor!r} after @@ is not in the file")
        # The anchor may be the hunk's own first line.
        own = bool(hunk.old) and fold(hunk.old[0]).strip() == fold(lines[at]).strip()
        cursor, anchored = at + (not own), True
    return cursor, anchored


def _insertion_point(lines: list[str], hunk: Hunk, cursor: int, drift: int, anchored: bool) -> int:
    if hunk.start is not None:
        return max(cursor, min(len(lines), hunk.start + drift))
    return cursor if anchored else len(lines)


def _matches(
    lines: list[str], wanted: list[tuple[str, str]], key: Callable[[str], str], indented: bool, cursor: int
) -> list[_Spot]:
    old = [text for sign, text in wanted if sign != "+"]
    spots = []
    keyed = [key(line) for line in lines]
    for at in _all_starts(keyed, [key(line) for line in old], cursor):
        shift: Shift | None = str
        if indented:
            solid = any(line.strip() for line in old)
            shift = shift_between(old, lines[at : at + len(old)]) if solid else None
        if shift is not None:
            spots.append(_Spot(at, wanted, shift))
    return spots


def _all_starts(lines: list[str], wanted: list[str], cursor: int) -> list[int]:
    """Every place, overlapping ones too: the one nearest to the stated line may overlap another."""
    found = []
    at = cursor
    while (start := next(window_starts(lines, wanted, at), None)) is not None:
        found.append(start)
        at = start + 1
    return found


def _chosen(found: list[_Spot], expected: int | None, anchored: bool, hunk: Hunk, number: int) -> _Spot:
    if expected is not None:
        return min(found, key=lambda spot: abs(spot.at - expected))
    if len(found) == 1 or anchored or hunk.at_end:
        return found[-1] if hunk.at_end else found[0]
    places = ", ".join(str(spot.at + 1) for spot in found[:10])
    raise HunkFailed(
        f"hunk {number} fits at lines {places}; add context, or an @@ line naming the function, to choose one"
    )


def _fuzzy(lines: list[str], hunk: Hunk, cursor: int, expected: int | None) -> _Spot | None:
    """Without up to two outer context lines, as patch(1) does; only where that leaves one place."""
    head = next((n for n, (sign, _) in enumerate(hunk.lines) if sign != " "), 0)
    tail = next((n for n, (sign, _) in enumerate(reversed(hunk.lines)) if sign != " "), 0)
    for fuzz in range(1, MAX_FUZZ + 1):
        left, right = min(fuzz, head), min(fuzz, tail)
        for a, b in {(left, right), (left, 0), (0, right)} - {(0, 0)}:
            rest = hunk.lines[a : len(hunk.lines) - b]
            if not any(text.strip() for sign, text in rest if sign != "+"):
                continue
            found = _matches(lines, rest, str.rstrip, False, cursor)
            if len(found) == 1 or (found and expected is not None and found[0].at == expected + a):
                spot = _with_left_off(lines, hunk, found[0], a)
                context = sum(sign == " " for sign, _ in hunk.lines)
                if spot.left_off < context or len(_matches(lines, rest, str.rstrip, False, 0)) == 1:
                    return spot
    return None


def _with_left_off(lines: list[str], hunk: Hunk, spot: _Spot, dropped: int) -> _Spot:
    """The place, with the number of context lines of the whole hunk that are not there."""
    at, wrong = spot.at - dropped, 0
    for sign, text in hunk.lines:
        if sign != "+":
            wrong += not (0 <= at < len(lines) and lines[at].rstrip() == text.rstrip())
            at += 1
    return msgspec.structs.replace(spot, left_off=wrong)


def _expected_and_actual(lines: list[str], hunk: Hunk, expected: int | None, number: int) -> str:
    near = nearest(lines, hunk.old)
    if near is None and expected is not None and lines:
        first = max(0, min(expected, len(lines) - 1))
        near = first, min(len(lines), first + min(len(hunk.old), 12))
    wanted = "\n".join(f"\t{line[:300]}" for line in hunk.old[:12])
    if len(hunk.old) > 12:
        wanted += f"\n\t… {len(hunk.old) - 12} more lines"
    actual = (
        f"\nthe nearest text is:\n{numbered(lines, *near)}" if near else "\nnothing in the file is like it"
    )
    return f"hunk {number} fits nowhere; expected:\n{wanted}{actual}"
