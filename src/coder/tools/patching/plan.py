"""What `patch` does: the files as they will be, worked out whole before the first is changed."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import msgspec

from coder.texts import Phrase
from coder.tools.base import (
    Arguments,
    Preview,
    ToolContext,
    ToolResult,
    denied,
    failed,
    summed_up,
)
from coder.tools.changes import (
    CHANGED_SINCE,
    DETAIL_LINES,
    RECORD_LINES,
    Change,
    apply,
    bits_of,
    check_seen,
    current,
    diff_preview,
    joined,
    reports,
)
from coder.tools.patching.apply import HunkFailed, apply_hunks
from coder.tools.patching.formats import BadPatch, FilePatch, Hunk, parse
from coder.tools.paths import Stop, clean, locate, missing, shown
from coder.tools.text.file import CannotEncode, NotText, TextFile, load

_MOST_TOLD = 8000  # characters of what does not fit; beyond them each fault is one line


def preview(args: Arguments, context: ToolContext) -> Preview:
    return diff_preview(lambda: _planned(args, context).changes(), context)


async def apply_patch(args: Arguments, context: ToolContext) -> ToolResult:
    dry_run = bool(args.get("dry_run"))
    try:
        plan = await asyncio.to_thread(_planned, args, context)
        changes = plan.changes()
        if not dry_run:
            apply(changes, context)
    except Stop as stop:
        return stop.result
    return _told(changes, plan.notes, dry_run, context)


def _told(changes: list[Change], notes: list[str], dry_run: bool, context: ToolContext) -> ToolResult:
    told = reports(changes, context)
    diff = joined(told)
    text = "\n".join([*(report.line for report in told), *notes])
    if dry_run:
        text = f"dry run, nothing was written; the patch would do this:\n{text}"
    meta = {
        "files": [report.fields for report in told],
        "diff": diff.text(RECORD_LINES),
        "additions": diff.additions,
        "deletions": diff.deletions,
        "dry_run": dry_run,
    }
    key = "tool.patch_dry" if dry_run else "tool.patched"
    return summed_up(
        Phrase(key, n=len(told), added=diff.additions, deleted=diff.deletions),
        text,
        detail=diff.text(DETAIL_LINES),
        detail_kind="diff" if diff.lines else "",
        meta=meta,
    )


def _planned(args: Arguments, context: ToolContext) -> _Plan:
    try:
        files = parse(args["patch"])
    except BadPatch as bad:
        raise Stop(failed(f"{clean(str(bad))}; nothing was changed", Phrase("tool.patch_unread"))) from bad
    plan = _Plan(context)
    faults: list[ToolResult] = []
    for file in files:
        try:
            plan.add(file)
        except (HunkFailed, CannotEncode) as error:
            faults.append(failed(f"{clean(file.path)}: {clean(str(error))}", Phrase("tool.patch_misfit")))
        except Stop as stop:
            faults.append(stop.result)
    if faults:
        raise Stop(_all_of(faults))
    return plan


def _all_of(faults: list[ToolResult]) -> ToolResult:
    """One answer with all that keeps the patch from being applied, so that it can be put right at once."""
    refused = any(fault.denied for fault in faults)
    first = faults[0]
    if len(faults) == 1 and first.phrase != Phrase("tool.patch_misfit"):
        text = first.for_model.partition(": ")[2]
        text = text if "nothing was " in text.lower() else f"{text}; nothing was changed"
        return msgspec.structs.replace(first, for_model=f"{'denied' if refused else 'error'}: {text}")
    told, room = [], _MOST_TOLD
    learned: list[tuple[Path, bytes]] = []
    for fault in faults:
        text = fault.for_model.partition(": ")[2]
        told.append(text if len(text) <= room else text.split("\n", 1)[0][:200])
        learned += fault.learned if len(text) <= room else ()
        room = max(0, room - len(text))
    result = (denied if refused else failed)(
        "the patch does not fit, nothing was changed. " + "\n".join(told), Phrase("tool.patch_misfit")
    )
    around = "\n".join(fault.around for fault in faults if fault.around)
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
                self._modes.get(path) if self._modes.get(path) != bits_of(path) else None,
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
            self._before.setdefault(path, current(self._context, path))
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
            notes.append(CHANGED_SINCE)
        self.notes += [f"{name}: {note}" for note in notes]
        return after

    def _check_fresh(self, path: Path, now: bytes) -> None:
        if path not in self._after:
            check_seen(self._context, path, now)

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
            check_seen(self._context, path, now, must_know=bool(now))

    def _delete(self, path: Path, file: FilePatch) -> None:
        now = self._existing(path)
        self._check_fresh(path, now)
        if file.hunks:
            left = apply_hunks(self._text(path, now), file.hunks)
            if left:
                raise HunkFailed(
                    "the patch deletes the file, but the file holds more lines than the patch removes"
                )
        self._after[path] = None

    def _update(self, path: Path, file: FilePatch) -> None:
        after = self._patched(path, file.hunks)
        target = path
        if file.move_to:
            target = locate(self._context, file.move_to, write=True)
        if target != path:
            there = self._now(target)
            if there is None:
                self._move(path, target)
            else:  # told as what it is: one file deleted, the other with another content
                self._check_known(target, there)
            self._after[path] = None
        self._after[target] = after
        if file.executable is not None:
            self._modes[target] = _executable(target if target == path else path, file.executable)

    def _move(self, path: Path, target: Path) -> None:
        """A file that this patch has already moved keeps its original source and permission bits."""
        bits = bits_of(path) or 0o644
        source = next((old for old, new in self._moves.items() if new == path), path)
        self._moves[source] = target
        self._modes[target] = self._modes.pop(path, bits)


def _executable(path: Path, wanted: bool) -> int:
    bits = bits_of(path) or 0o644
    return bits | (bits & 0o444) >> 2 if wanted else bits & ~0o111
