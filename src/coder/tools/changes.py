"""Changes of write, edit and patch: computed first, then made, all of them or none.

A list of `Change` is pure data: `preview` shows it to a person, `apply` does it. Between computing and
applying stand three checks: the file is what the model last saw, a person who was asked saw these very
changes, and undo knows of every path before the first byte is written."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from coder.base.diff import Diff, unified
from coder.base.files import ChangedMeanwhile, exchange_file, lock_directories, read_or_none, replace_file
from coder.base.process.output import PRIVATE_KEY_MARKER
from coder.base.safe_open import delete_directory, delete_file, missing_parents, open_file, status_of
from coder.base.text import quoted_name, utf8_safe
from coder.protocol.events import FileChange
from coder.texts import Text
from coder.tools.paths import Stop, kind_of, shown, size_words, steers, unreachable, why
from coder.tools.text.file import NotText, load
from coder.tools.tool import Preview, ToolContext, ToolResult, Unapproved, failed, summed_up

MAX_CHANGED_BYTES = 64 << 20  # a file is changed in memory, with its diff; larger ones are for the shell
SEEN_BYTES = 8 * 1024 * 1024  # `read` remembers what files up to this size hold
DETAIL_LINES = 400  # of diff, for a person
RECORD_LINES = 4000  # of diff, for the record
CHANGED_SINCE = "the file had changed since you read it (by a command, an undo or others); that is kept"
STALE_LINES = 60  # of diff, for a model whose file changed under its hands
STALE_CHARS = 4000
_PLACES = 6  # of a file whose lines the model is shown


class Change(msgspec.Struct, frozen=True):
    """`path` goes from `before` to `after` (None: not there). `mode`: permission bits, None keeps them. A
    move is two changes: the new path names `moved_from`, the old one is deleted."""

    path: Path
    before: bytes | None
    after: bytes | None
    mode: int | None = None
    moved_from: Path | None = None

    @property
    def operation(self) -> str:
        if self.moved_from is not None:
            return "moved"
        if self.after is None:
            return "deleted"
        if self.before is None:
            return "created"
        return "unchanged" if self.before == self.after and self.mode is None else "updated"


class Report(msgspec.Struct, frozen=True):
    """One changed file for display: what was done, and its diff."""

    path: str
    operation: str
    diff: Diff
    moved_from: str = ""
    modes: tuple[int | None, int] | None = None  # permission bits before and after, if they change

    @property
    def planned(self) -> FileChange:
        """What is asked about, before the change is made."""
        mode = f"{self.modes[1]:03o}" if self.modes else ""
        return msgspec.convert({**self.fields, "mode": mode, "binary": self.diff.binary}, FileChange)

    @property
    def mode_lines(self) -> list[str]:
        """The change of permission bits as in git's diffs."""
        if self.modes is None:
            return []
        before, after = self.modes
        if before is None:
            return [f"new file mode 100{after:03o}"]
        return [f"old mode 100{before:03o}", f"new mode 100{after:03o}"]

    @property
    def line(self) -> str:
        name = f"{self.moved_from} to {self.path}" if self.moved_from else self.path
        if self.operation == "unchanged":
            return f"unchanged {name}"
        size = f"{self.operation} {name} (+{self.diff.additions} -{self.diff.deletions})"
        places = self.diff.places
        if not places or self.operation not in ("updated", "moved"):
            return size
        named = ", ".join(map(str, places[:_PLACES])) + (" …" if len(places) > _PLACES else "")
        return f"{size}, line{'s' if len(places) > 1 else ''} {named}"

    @property
    def phrase(self) -> Text:
        """The line, for a person."""
        key = "tool.moved" if self.moved_from else f"tool.{self.operation}"
        added, deleted = self.diff.additions, self.diff.deletions
        return Text(key, path=self.path, source=self.moved_from, added=added, deleted=deleted)

    @property
    def fields(self) -> dict[str, str | int]:
        fields: dict[str, str | int] = {"path": self.path, "operation": self.operation}
        fields |= {"additions": self.diff.additions, "deletions": self.diff.deletions}
        return {**fields, "moved_from": self.moved_from} if self.moved_from else fields


def current(context: ToolContext, path: Path) -> bytes | None:
    """The content of `path`, None if missing; `Stop` if it cannot be changed as a file."""
    try:
        _refuse_kind(context, path, status_of(path))
        with os.fdopen(open_file(path), "rb") as file:
            _refuse_kind(context, path, os.fstat(file.fileno()))
            return file.read()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise Stop(unreachable(context, path, error)) from error


def _refuse_kind(context: ToolContext, path: Path, info: os.stat_result) -> None:
    other = kind_of(info.st_mode)
    if other:
        name = shown(context, path)
        raise Stop(failed(f"{name} is {other}, not a file that can be changed", path=name))
    if info.st_size > MAX_CHANGED_BYTES:
        name = shown(context, path)
        reason = f"{name} is {size_words(info.st_size)}, too large to change here; use a command such as sed"
        raise Stop(failed(reason, path=name))


def check_seen(context: ToolContext, path: Path, now: bytes | None, *, must_know: bool = False) -> None:
    """Optimistic concurrency: `Stop` if the file is not what the model last saw, or (`must_know`) was never
    seen whole."""
    if now is None:
        return
    name = shown(context, path)
    if context.files.changed(path, now):
        raise Stop(_stale(context, path, now))
    if not must_know:
        return
    if not context.files.known(path):
        advice = "Read it first, or use edit" if len(now) <= SEEN_BYTES else "It is large: use edit"
        reason = f"{name} exists and you have not read it; nothing was written. {advice}"
        raise Stop(failed(reason, Text("tool.unread"), path=name, unread=True))
    if unseen := context.files.unseen(path):
        spans = ", ".join(f"{a}-{b}" if b > a else str(a) for a, b in unseen[:3])
        more = " and others" if len(unseen) > 3 else ""
        reason = f"you have not seen all of {name} (lines {spans}{more}); nothing was written. "
        reason += "Read that, or use edit"
        raise Stop(failed(reason, Text("tool.unseen"), path=name, unread=True))


def _stale(context: ToolContext, path: Path, now: bytes) -> ToolResult:
    """The error for a file that changed since the model saw it, with a short diff."""
    name = shown(context, path)
    reason = f"{name} changed on disk since you last read it; nothing was written. "
    before = context.files.content(path)
    diff = unified_lines(before, now, name) if before is not None else []
    short = 0 < len(diff) <= STALE_LINES and sum(map(len, diff)) <= STALE_CHARS
    since = "\n".join(["What changed since:", *diff, "Send the call again for the text as it is now"])
    reason += since if short else "Read it again first"
    result = failed(reason, Text("tool.changed_since", path=name), path=name, stale=True)
    if short:
        result = msgspec.structs.replace(result, learned=((path, now),))
    text = now.decode("utf-8", "replace")
    return msgspec.structs.replace(result, around=text) if PRIVATE_KEY_MARKER in text else result


def unified_lines(before: bytes, now: bytes, name: str) -> list[str]:
    """A diff without its two lines of names."""
    return diff_bytes(before, now, name, name).lines[2:]


def apply(changes: list[Change], context: ToolContext, *, all_known: bool = False) -> None:
    """Apply all changes or none: on `Stop` everything is rolled back. `all_known`: the model gave the whole
    content."""
    changes = [change for change in changes if change.operation != "unchanged"]
    require_approved(changes, context)
    if context.approved is None and (reason := steering_reason(changes, context)) is not None:
        raise Unapproved(reason)
    files = context.files
    with lock_directories(change.path for change in changes):
        _tell_undo(changes, context)
        _make(changes, context)
    for change in changes:
        if change.after is None:
            files.forget(change.path)
        elif all_known or change.before is None:
            files.saw(change.path, change.after)
        else:
            files.changed_by_model(change.path, change.before, change.after)


def require_approved(changes: list[Change], context: ToolContext) -> None:
    """Raise `Unapproved` if a person was asked and these are not the changes that they were shown: a file, or
    what a link leads to, was exchanged while they decided."""
    if context.approved is not None and not context.approved.covers(changes):
        names = ", ".join(quoted_name(shown(context, change.path)) for change in changes)
        raise Unapproved(Text("approval.changed_since", paths=names))


def steering_reason(changes: Sequence[Change], context: ToolContext) -> Text | None:
    """Why a person is always asked about these: they tell agents what to do."""
    root = context.workspace.root
    names = [shown(context, change.path) for change in changes if steers(root, change.path)]
    return Text("policy.steering", paths=", ".join(map(quoted_name, names))) if names else None


def _tell_undo(changes: list[Change], context: ToolContext) -> None:
    """Journal every change before the first is made. Raises `Stop` if a file has changed meanwhile."""
    for change in changes:
        if read_or_none(change.path) != change.before:
            raise Stop(_changed_meanwhile(change, [], context))
    for change in changes:
        try:
            context.journal.before_change(change.path, change.after, change.mode)
        except OSError as error:
            reason = f"cannot keep {shown(context, change.path)} for undo: {why(error)}; nothing was changed"
            raise Stop(failed(reason, path=shown(context, change.path))) from error


def _make(changes: list[Change], context: ToolContext) -> None:
    done: list[tuple[Change, int | None, list[Path]]] = []
    for change in changes:
        bits, made = bits_of(change.path), missing_parents(change.path)
        try:
            done.append((change, bits, made))
            exchange_file(change.path, change.before, change.after, change.mode)
        except ChangedMeanwhile:
            lost = _roll_back(done, context)
            raise Stop(_changed_meanwhile(change, lost, context)) from None
        except OSError as error:
            lost = _roll_back(done, context)
            raise Stop(_not_applied(change, error, lost, context)) from error


def _roll_back(done: list[tuple[Change, int | None, list[Path]]], context: ToolContext) -> list[str]:
    """Revert what was done so far, newest first; returns what could not be restored."""
    lost = []
    for index, (change, bits, made) in enumerate(reversed(done)):
        try:
            if index:  # the newest one failed: its file is untouched, only its directories may be new
                if change.before is None:
                    with contextlib.suppress(FileNotFoundError):
                        delete_file(change.path)
                else:
                    replace_file(change.path, change.before, bits)
            for directory in made:
                with contextlib.suppress(FileNotFoundError):
                    delete_directory(directory)
        except OSError:
            lost.append(shown(context, change.path))
    return lost


def _not_applied(change: Change, error: OSError, lost: list[str], context: ToolContext) -> ToolResult:
    name = shown(context, change.path)
    doing = "delete" if change.after is None else "write"
    reason = f"cannot {doing} {name}: {why(error)}; "
    reason += f"could not put back {', '.join(lost)}" if lost else "nothing was changed"
    return failed(reason, path=name)


def _changed_meanwhile(change: Change, lost: list[str], context: ToolContext) -> ToolResult:
    name = shown(context, change.path)
    undone = f"could not put back {', '.join(lost)}" if lost else "nothing was written"
    reason = f"{name} was changed by someone else meanwhile; {undone}. Read it again first"
    return failed(reason, Text("tool.changed_since", path=name), path=name, stale=True)


def bits_of(path: Path) -> int | None:
    """The permission bits of the file at `path`; None if there is none."""
    try:
        return stat.S_IMODE(status_of(path).st_mode)
    except OSError:
        return None


def hard_link_note(path: Path) -> str:
    """A note that replacing a hard-linked file detaches it from its other names. Writing through would change
    the other names' content too, which nobody asked for (package stores link files into projects this
    way)."""
    try:
        links = status_of(path).st_nlink
    except OSError:
        return ""
    return f"; it was one of {links} hard links and is now a file of its own" if links > 1 else ""


def reports(changes: Sequence[Change], context: ToolContext) -> list[Report]:
    """A report on each file; the two halves of a move are one."""
    before = {change.path: change.before for change in changes}
    moved = {change.moved_from for change in changes}
    return [
        _report(change, before.get(change.moved_from) if change.moved_from else change.before, context)
        for change in changes
        if change.path not in moved or change.after is not None  # something else has taken its place
    ]


def _report(change: Change, before: bytes | None, context: ToolContext) -> Report:
    name = shown(context, change.path)
    old = shown(context, change.moved_from) if change.moved_from else ""
    bits = bits_of(change.moved_from or change.path) if change.mode is not None else None
    modes = None if change.mode is None or change.mode == bits else (bits, change.mode)
    return Report(name, change.operation, diff_bytes(before, change.after, old or name, name), old, modes)


def diff_bytes(before: bytes | None, after: bytes | None, old: str, new: str) -> Diff:
    """The diff of two contents; binary ones are only said to differ."""
    old_name = "/dev/null" if before is None else quoted_name(f"a/{old}")
    new_name = "/dev/null" if after is None else quoted_name(f"b/{new}")
    try:
        texts = utf8_safe(load(before or b"").text), utf8_safe(load(after or b"").text)
    except NotText:
        same = [] if before == after else [f"Binary files {old_name} and {new_name} differ"]
        diff = Diff(same, 0, 0, binary=True)
    else:
        diff = unified(*texts, old_name, new_name)
    if old != new:
        renamed = [f"rename from {quoted_name(old)}", f"rename to {quoted_name(new)}"]
        return msgspec.structs.replace(diff, lines=[*renamed, *diff.lines])
    if not diff.lines and before != after and not diff.binary:
        note = "(empty file)" if before is None or after is None else "(only line endings or encoding differ)"
        return Diff([f"--- {old_name}", f"+++ {new_name}", note], 0, 0)
    return diff


def joined(changed: list[Report]) -> Diff:
    """One diff of all files."""
    lines = [line for report in changed for line in report.diff.lines]
    added = sum(report.diff.additions for report in changed)
    return Diff(lines, added, sum(report.diff.deletions for report in changed))


def diff_preview(planned: Callable[[], list[Change]], context: ToolContext) -> Preview:
    """The whole diff and every operation, for the approval."""
    try:
        changes = tuple(change for change in planned() if change.operation != "unchanged")
    except Stop as stop:
        return Preview(stop.result.for_model, fault=stop.result)
    if not changes:
        return Preview("nothing would change")
    changed = reports(changes, context)
    lines = [line for report in changed for line in (*report.mode_lines, *report.diff.lines)]
    operations = tuple(report.planned for report in changed)
    return Preview("\n".join(lines), "diff", operations=operations, changes=changes)


def single_result(change: Change, context: ToolContext, note: str = "", **meta: object) -> ToolResult:
    """The result of changing one file."""
    report = reports([change], context)[0]
    fields = {**report.fields, "diff": report.diff.text(RECORD_LINES), **meta}
    return summed_up(
        report.phrase,
        report.line + note,
        detail=report.diff.text(DETAIL_LINES),
        detail_kind="diff" if report.diff.lines else "",
        meta=fields,
    )
