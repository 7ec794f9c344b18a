"""Implements `patch`: the files as they will be, computed before the first is changed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from coder.base.text import utf8_safe
from coder.texts import Text
from coder.tools import changes
from coder.tools.changes import Change
from coder.tools.patching.formats import BadPatch, FilePatch, Hunk, parse
from coder.tools.paths import Stop, locate, missing, shown
from coder.tools.text.file import CannotEncode, NotText, Span, TextFile, load
from coder.tools.text.match import Shift, fold, nearest, numbered, shift_between, window_starts
from coder.tools.tool import Arguments, Preview, ToolContext, ToolResult, denied, failed, summed_up

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
    """The file's bytes after all hunks; raises `HunkFailed` with every hunk that fits nowhere. `notes` takes
    remarks on hunks that were applied. `exactly`: each hunk must fit as it is written, in one
    place only."""
    lines = file.text.split("\n")
    closed = lines[-1] == ""
    if closed:
        lines.pop()
    edits: list[tuple[int, int, list[str]]] = []
    cursor = drift = 0
    failures: list[str] = []
    for number, hunk in enumerate(hunks, 1):
        try:
            spot = _place(lines, hunk, cursor, drift, number, exactly)
        except HunkFailed as failed:
            failures.append(str(failed))
            continue
        if hunk.start is not None and hunk.old:
            drift = spot.at - (hunk.start - 1)
        if spot.left_off and notes is not None:
            left = spot.left_off
            count = "1 context line that is" if left == 1 else f"{left} context lines that are"
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
    """The edits as spans of the text, including a last newline that is added or removed."""
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


def _place(lines: list[str], hunk: Hunk, cursor: int, drift: int, number: int, exactly: bool) -> _Spot:
    if exactly and (not hunk.old or len(_all_starts(lines, hunk.old, 0)) != 1):
        raise HunkFailed(f"hunk {number} does not fit exactly, in one place")
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


def _after_anchors(lines: list[str], hunk: Hunk, cursor: int, number: int) -> tuple[int, bool]:
    """Past the lines that `@@` lines name. Missing ones are ignored if the hunk has context."""
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
    """Without up to two outer context lines, as patch(1) does, if that leaves one place."""
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
    actual = f"the nearest text is:\n{numbered(lines, *near)}" if near else "nothing in the file is like it"
    return f"hunk {number} fits nowhere; expected:\n{wanted}\n{actual}"


_MOST_SHOWN = 8000  # characters of what does not fit; beyond them each error is one line


def preview(args: Arguments, context: ToolContext) -> Preview:
    return changes.diff_preview(lambda: _planned(args, context).changes(), context)


async def apply_patch(args: Arguments, context: ToolContext) -> ToolResult:
    dry_run = bool(args.get("dry_run"))
    try:
        plan = await asyncio.to_thread(_planned, args, context)
        planned = plan.changes()
        if not dry_run:
            changes.apply(planned, context)
    except Stop as stop:
        return stop.result
    return _result(planned, plan.notes, dry_run, context)


def _result(planned: list[Change], notes: list[str], dry_run: bool, context: ToolContext) -> ToolResult:
    reports = changes.reports(planned, context)
    diff = changes.joined(reports)
    text = "\n".join([*(report.line for report in reports), *notes])
    if dry_run:
        text = f"dry run, nothing was written; the patch would do this:\n{text}"
    meta = {
        "files": [report.fields for report in reports],
        "diff": diff.text(changes.RECORD_LINES),
        "additions": diff.additions,
        "deletions": diff.deletions,
        "dry_run": dry_run,
    }
    key = "tool.patch_dry" if dry_run else "tool.patched"
    return summed_up(
        Text(key, n=len(reports), added=diff.additions, deleted=diff.deletions),
        text,
        detail=diff.text(changes.DETAIL_LINES),
        detail_kind="diff" if diff.lines else "",
        meta=meta,
    )


def _planned(args: Arguments, context: ToolContext) -> _Plan:
    try:
        files = parse(args["patch"])
    except BadPatch as bad:
        raise Stop(failed(f"{utf8_safe(str(bad))}; nothing was changed", Text("tool.patch_unread"))) from bad
    plan = _Plan(context)
    errors: list[ToolResult] = []
    for file in files:
        try:
            plan.add(file)
        except (HunkFailed, CannotEncode) as error:
            errors.append(
                failed(f"{utf8_safe(file.path)}: {utf8_safe(str(error))}", Text("tool.patch_misfit"))
            )
        except Stop as stop:
            errors.append(stop.result)
    if errors:
        raise Stop(_all_of(errors))
    return plan


def _all_of(errors: list[ToolResult]) -> ToolResult:
    """One result with everything that keeps the patch from being applied."""
    refused = any(error.denied for error in errors)
    first = errors[0]
    if len(errors) == 1 and first.phrase != Text("tool.patch_misfit"):
        text = first.for_model.partition(": ")[2]
        text = text if "nothing was " in text.lower() else f"{text}; nothing was changed"
        return msgspec.structs.replace(first, for_model=f"{'denied' if refused else 'error'}: {text}")
    shown_errors, room = [], _MOST_SHOWN
    learned: list[tuple[Path, bytes]] = []
    for error in errors:
        text = error.for_model.partition(": ")[2]
        shown_errors.append(text if len(text) <= room else text.split("\n", 1)[0][:200])
        learned += error.learned if len(text) <= room else ()
        room = max(0, room - len(text))
    result = (denied if refused else failed)(
        "the patch does not fit, nothing was changed. " + "\n".join(shown_errors), Text("tool.patch_misfit")
    )
    around = "\n".join(error.around for error in errors if error.around)
    return msgspec.structs.replace(result, around=around, learned=tuple(learned))


class _Plan:
    """The files as they will be, so that two sections on one file build on each other."""

    def __init__(self, context: ToolContext) -> None:
        self.notes: list[str] = []
        self._context = context
        self._before: dict[Path, bytes | None] = {}
        self._after: dict[Path, bytes | None] = {}
        self._modes: dict[Path, int] = {}
        self._moves: dict[Path, Path] = {}

    def add(self, file: FilePatch) -> None:
        path = self._path(file)
        if file.operation == "add":
            self._add_file(path, file)
        elif file.operation == "delete":
            self._delete(path, file)
        else:
            self._update(path, file)

    def changes(self) -> list[Change]:
        moved_from = self._kept_moves()
        return [
            Change(
                path,
                self._before[path],
                after,
                self._modes.get(path) if self._modes.get(path) != changes.bits_of(path) else None,
                moved_from=moved_from.get(path),
            )
            for path, after in self._after.items()
            if after is not None or self._before[path] is not None
        ]

    def _kept_moves(self) -> dict[Path, Path]:
        """Sources by target. A file that was deleted after its move, or replaced one that is gone, counts as
        one file deleted and another with a new content."""
        there = [old for old in self._moves if self._before[old] is not None and self._moves[old] != old]
        kept = {self._moves[old]: old for old in there if self._after.get(self._moves[old]) is not None}
        while lost := [new for new in kept if self._before.get(new) is not None and new not in kept.values()]:
            for new in lost:
                del kept[new]
        return kept

    def _path(self, file: FilePatch) -> Path:
        """The file meant; where a diff gives two names, the one that is there."""
        path = locate(self._context, file.path, write=True)
        if file.also and self._now(path) is None:
            with contextlib.suppress(Stop):
                other = locate(self._context, file.also, write=True)
                if self._now(other) is not None:
                    return other
        return path

    def _now(self, path: Path) -> bytes | None:
        if path not in self._after:
            self._before.setdefault(path, changes.current(self._context, path))
        return self._after.get(path, self._before[path])

    def _existing(self, path: Path) -> bytes:
        now = self._now(path)
        if now is None:
            raise Stop(missing(self._context, path))
        return now

    def _patched(self, path: Path, hunks: list[Hunk]) -> bytes:
        """The file after the hunks; where others changed it, they must fit exactly, in one place each."""
        now, name = self._existing(path), shown(self._context, path)
        changed = path not in self._after and self._context.files.changed(path, now)
        if not hunks:
            self._check_fresh(path, now)
            return now
        notes: list[str] = []
        try:
            after = apply_hunks(self._text(path, now), hunks, notes, exactly=changed)
        except HunkFailed:
            self._check_fresh(path, now)
            raise
        if changed:
            notes.append(changes.CHANGED_SINCE)
        self.notes += [f"{name}: {note}" for note in notes]
        return after

    def _check_fresh(self, path: Path, now: bytes) -> None:
        if path not in self._after:
            changes.check_seen(self._context, path, now)

    def _text(self, path: Path, now: bytes) -> TextFile:
        try:
            return load(now)
        except NotText:
            name = shown(self._context, path)
            raise Stop(failed(f"{name} is a binary file; patch changes text only", path=name)) from None

    def _add_file(self, path: Path, file: FilePatch) -> None:
        now = self._now(path)
        new = apply_hunks(TextFile(""), file.hunks) if file.hunks else b""
        if now:  # an empty file is as good as none; any other is replaced as `write` replaces it
            self._check_known(path, now)
            with contextlib.suppress(NotText):
                new = load(now).rewritten(new.decode("utf-8"))
        self._after[path] = new
        if file.executable:
            self._modes[path] = 0o755

    def _check_known(self, path: Path, now: bytes) -> None:
        """A file that is to be replaced whole must have been seen whole, or be of this patch's own making."""
        if path not in self._after:
            changes.check_seen(self._context, path, now, must_know=bool(now))

    def _delete(self, path: Path, file: FilePatch) -> None:
        now = self._existing(path)
        self._check_fresh(path, now)
        if file.hunks:
            left = apply_hunks(self._text(path, now), file.hunks)
            if left:
                raise HunkFailed("the patch deletes the file, but the file has more lines than it removes")
        self._after[path] = None

    def _update(self, path: Path, file: FilePatch) -> None:
        after = self._patched(path, file.hunks)
        target = locate(self._context, file.move_to, write=True) if file.move_to else path
        if target != path:
            there = self._now(target)
            if there is None:
                self._move(path, target)
            else:  # reported as one file deleted and another with a new content
                self._check_known(target, there)
            self._after[path] = None
        self._after[target] = after
        if file.executable is not None:
            self._modes[target] = _executable(target if target == path else path, file.executable)

    def _move(self, path: Path, target: Path) -> None:
        """A file that this patch has already moved keeps its original source and permission bits."""
        bits = changes.bits_of(path) or 0o644
        source = next((old for old, new in self._moves.items() if new == path), path)
        self._moves[source] = target
        self._modes[target] = self._modes.pop(path, bits)


def _executable(path: Path, wanted: bool) -> int:
    bits = changes.bits_of(path) or 0o644
    return bits | (bits & 0o444) >> 2 if wanted else bits & ~0o111
