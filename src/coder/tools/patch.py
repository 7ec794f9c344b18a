"""`patch`: several changes to several files at once, all of them or none."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Callable
from pathlib import Path

from coder.texts import Phrase
from coder.tools import base
from coder.tools.base import Arguments, Preview, ToolContext, ToolResult, failed, summed_up
from coder.tools.changes import (
    DETAIL_LINES,
    RECORD_LINES,
    Change,
    apply,
    check_seen,
    current,
    diff_preview,
    joined,
    reports,
)
from coder.tools.patch_apply import HunkFailed, apply_hunks
from coder.tools.patch_formats import BadPatch, FilePatch, parse
from coder.tools.paths import Stop, clean, locate, missing, shown
from coder.tools.textfile import CannotEncode, NotText, TextFile, load

_FAILURES_TOLD = 3


class Patch:
    """Apply a unified diff or a `*** Begin Patch` envelope."""

    concurrent = False
    spec = base.spec(
        "patch",
        "Change several files at once, all or none. Takes a unified diff, or:\n"
        "*** Begin Patch\n*** Update File: a.py\n@@ def f():\n context\n-old\n+new\n"
        "*** Add File: b.py\n+line\n*** Delete File: c.py\n*** End Patch\n"
        "(`*** Move to: new.py` after Update File moves it.) Give 3 lines of context around a change.",
        {
            "patch": {"type": "string"},
            "dry_run": {"type": "boolean", "description": "Only say what would change."},
        },
        ["patch"],
    )

    def argument(self, args: Arguments) -> str:
        try:
            names = [file.move_to or file.path for file in parse(str(args.get("patch", "")))]
        except BadPatch:
            return "(unreadable patch)"
        return clean(", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else ""))

    def preview(self, args: Arguments, context: ToolContext) -> Preview:
        try:
            return diff_preview(_planned(args, context), context)
        except Stop as stop:
            return Preview(stop.result.for_model, fault=stop.result)

    async def run(
        self, args: Arguments, context: ToolContext, on_output: Callable[[str], None]
    ) -> ToolResult:
        import asyncio

        dry_run = bool(args.get("dry_run"))
        try:
            changes = await asyncio.to_thread(_planned, args, context)
            if not dry_run:
                apply(changes, context)
        except Stop as stop:
            return stop.result
        return _told(changes, dry_run, context)


def _told(changes: list[Change], dry_run: bool, context: ToolContext) -> ToolResult:
    told = reports(changes, context)
    diff = joined(told)
    text = "\n".join(report.line for report in told)
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


def _planned(args: Arguments, context: ToolContext) -> list[Change]:
    try:
        files = parse(args["patch"])
    except BadPatch as bad:
        raise Stop(failed(f"{clean(str(bad))}; nothing was changed", Phrase("tool.patch_unread"))) from bad
    plan = _Plan(context)
    failures: list[str] = []
    for file in files:
        try:
            plan.add(file)
        except (HunkFailed, CannotEncode) as error:
            failures.append(f"{clean(file.path)}: {clean(str(error))}")
    if failures:
        more = len(failures) - _FAILURES_TOLD
        text = "\n".join(failures[:_FAILURES_TOLD]) + (f"\nand {more} more files fail" if more > 0 else "")
        raise Stop(
            failed(f"the patch does not fit, nothing was changed. {text}", Phrase("tool.patch_misfit"))
        )
    return plan.changes()


class _Plan:
    """The files as they will be, so that two sections on one file build on each other."""

    def __init__(self, context: ToolContext) -> None:
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
        moved_from = {new: old for old, new in self._moves.items()}
        return [
            Change(
                path,
                self._before[path],
                after,
                self._modes.get(path),
                moved_from=moved_from.get(path),
                moved_to=self._moves.get(path),
            )
            for path, after in self._after.items()
            if after is not None or self._before[path] is not None
        ]

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
        if path not in self._after:
            check_seen(self._context, path, now)
        return now

    def _text(self, path: Path) -> TextFile:
        try:
            return load(self._existing(path))
        except NotText:
            name = shown(self._context, path)
            raise Stop(failed(f"{name} is a binary file; patch changes text only", path=name)) from None

    def _add_file(self, path: Path, file: FilePatch) -> None:
        if self._now(path):  # an empty file is as good as none
            name = shown(self._context, path)
            reason = f"{name} exists already; update it instead of adding it. Nothing was changed"
            raise Stop(failed(reason, path=name))
        self._after[path] = apply_hunks(TextFile(""), file.hunks) if file.hunks else b""
        if file.executable:
            self._modes[path] = 0o755

    def _delete(self, path: Path, file: FilePatch) -> None:
        self._existing(path)
        if file.hunks:
            left = apply_hunks(self._text(path), file.hunks)
            if left:
                raise HunkFailed(
                    "the patch deletes the file, but the file holds more lines than the patch removes"
                )
        self._after[path] = None

    def _update(self, path: Path, file: FilePatch) -> None:
        before = self._existing(path)
        after = apply_hunks(self._text(path), file.hunks) if file.hunks else before
        target = path
        if file.move_to:
            target = locate(self._context, file.move_to, write=True)
        if target != path:
            if self._now(target) is not None:
                name = shown(self._context, target)
                raise Stop(
                    failed(f"{name} exists already; cannot move there. Nothing was changed", path=name)
                )
            self._after[path] = None
            self._move(path, target)
        self._after[target] = after
        if file.executable is not None:
            self._modes[target] = _executable(target if target == path else path, file.executable)

    def _move(self, path: Path, target: Path) -> None:
        """A file that this patch moved already came from elsewhere, with the bits it has there."""
        bits = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644
        source = next((old for old, new in self._moves.items() if new == path), path)
        self._moves[source] = target
        self._modes[target] = self._modes.pop(path, bits)


def _executable(path: Path, wanted: bool) -> int:
    bits = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644
    return bits | (bits & 0o444) >> 2 if wanted else bits & ~0o111
