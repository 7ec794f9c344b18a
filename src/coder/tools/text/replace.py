"""Implements `edit` and `write`: texts of a file found, exactly or nearly so, and replaced."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from coder.base.text import utf8_safe
from coder.texts import Text
from coder.tools import changes
from coder.tools.changes import Change
from coder.tools.paths import Stop, locate, missing, shown
from coder.tools.text.file import CannotEncode, NotText, Span, TextFile, load
from coder.tools.text.match import Found, find, line_of, nearest, numbered
from coder.tools.tool import Arguments, Preview, ToolContext, ToolResult, failed

_LINES_NAMED = 10
_LINES_RECORDED = 100


def preview(args: Arguments, context: ToolContext) -> Preview:
    return changes.diff_preview(lambda: [_planned(args, context).change], context)


async def replace(args: Arguments, context: ToolContext) -> ToolResult:
    try:
        plan = await asyncio.to_thread(_planned, args, context)
        note = changes.hard_link_note(plan.change.path) if plan.change.operation == "updated" else ""
        changes.apply([plan.change], context)
    except Stop as stop:
        return stop.result
    if plan.edits > 1:
        note = f"; {plan.edits} edits{note}"
    elif plan.matches > 1:
        note = f"; {plan.matches} places{note}"
    if plan.how:
        note += f"; old_string was not there exactly, matched with tolerance for {plan.how}"
    if plan.stale:
        note += f"; {changes.CHANGED_SINCE}"
    return changes.single_result(plan.change, context, note, matches=plan.matches, tolerance=plan.how)


class _Plan(msgspec.Struct, frozen=True):
    change: Change
    matches: int
    how: str = ""
    edits: int = 1
    stale: bool = False


class _Wanted(msgspec.Struct, frozen=True):
    """One requested replacement. `expected`: how often the text must occur; 0: not given."""

    old: str
    new: str
    everywhere: bool = False
    expected: int = 0


def _wanted(args: Arguments) -> list[_Wanted]:
    items = args.get("edits") or []
    if args.get("old_string") or args.get("new_string") or not items:
        if "old_string" not in args or "new_string" not in args:
            missed = [name for name in ("old_string", "new_string") if name not in args]
            raise Stop(failed(f"edit: missing {', '.join(missed)}; or give edits, each with both"))
        items = [args, *items]
    return [
        _Wanted(
            item["old_string"].replace("\r\n", "\n"),
            item["new_string"].replace("\r\n", "\n"),
            bool(item.get("replace_all")) or (item.get("expected") or 0) > 1,
            item.get("expected") or 0,
        )
        for item in items
    ]


def _planned(args: Arguments, context: ToolContext) -> _Plan:
    path = locate(context, args["path"], write=True)
    wanted = _wanted(args)
    name = shown(context, path)
    before = changes.current(context, path)
    stale = before is not None and context.files.changed(path, before)
    if stale and not _still_there(before or b"", context.files.content(path), wanted):
        changes.check_seen(context, path, before)
    data = before
    errors: list[str] = []
    summary: Text | str = ""
    matches, hows = 0, []
    for number, one in enumerate(wanted, 1):
        try:
            data, count, how = _replaced(data, one, path, name, context)
            matches += count
            hows += [how] if how and how not in hows else []
        except Stop as stop:
            if len(wanted) == 1:
                raise
            errors.append(f"edit {number}: {stop.result.for_model.removeprefix('error: ')}")
            summary = summary or stop.result.phrase or ""
    if errors:
        raise Stop(failed("\n".join(["nothing was changed. " + errors[0], *errors[1:]]), summary, path=name))
    return _Plan(Change(path, before, data), matches, " and ".join(hows), len(wanted), stale)


def _still_there(now: bytes, seen: bytes | None, wanted: list[_Wanted]) -> bool:
    """Whether a file that others changed has each text to replace exactly once, as it was asked for; where
    every place is meant, in as many places as the model saw."""
    try:
        text = load(now).text
        known = load(seen).text if seen is not None else ""
    except NotText:
        return False
    counts = ((text.count(one.old), known.count(one.old)) if one.old else (0, 0) for one in wanted)
    return all(
        there > 0 and there == (was if one.everywhere else 1)
        for one, (there, was) in zip(wanted, counts, strict=True)
    )


def _replaced(
    data: bytes | None, wanted: _Wanted, path: Path, name: str, context: ToolContext
) -> tuple[bytes, int, str]:
    """The content after one replacement, the number of places, and the tolerance that it took."""
    if data is None:
        return _created(path, wanted, name, context), 0, ""
    old = wanted.old
    if not old:
        raise Stop(failed(f"{name} exists; give the text to replace as old_string, or use write", path=name))
    if old == wanted.new:
        raise Stop(failed("old_string and new_string are the same; nothing to change", path=name))
    try:
        file = load(data)
    except NotText:
        raise Stop(failed(f"{name} is a binary file; edit changes text only", path=name)) from None
    found = find(file.text, old, wanted.new)
    spans = _chosen(found, file, wanted, name)
    try:
        return file.replaced(spans), len(spans), found.how
    except CannotEncode as error:
        reason = f"{error}, the encoding of {name}; use other characters or convert the file first"
        raise Stop(failed(reason, path=name)) from error


def _created(path: Path, wanted: _Wanted, name: str, context: ToolContext) -> bytes:
    if wanted.old:
        raise Stop(missing(context, path))
    try:
        return wanted.new.encode("utf-8")
    except UnicodeEncodeError as error:
        reason = f"new_string holds half of a character at position {error.start}; write it whole"
        raise Stop(failed(reason, path=name)) from error


def _chosen(found: Found, file: TextFile, wanted: _Wanted, name: str) -> list[Span]:
    if not found.spans:
        raise Stop(_not_found(file, wanted.old, name))
    count = len(found.spans)
    if wanted.expected and count != wanted.expected:
        reason = f"old_string occurs {count} times in {name}, not {wanted.expected}"
        raise Stop(failed(reason, Text("tool.many_places", n=count), path=name, matches=count))
    if count == 1 or wanted.everywhere:
        return found.spans
    # Of the first ones only: each is counted from the file's beginning, and there may be a million.
    lines = [line_of(file.text, start) for start, _, _ in found.spans[:_LINES_RECORDED]]
    named = ", ".join(map(str, lines[:_LINES_NAMED])) + (", …" if count > _LINES_NAMED else "")
    how = f" (with tolerance for {found.how})" if found.how else ""
    reason = (
        f"old_string occurs {count} times in {name}{how}, at lines {named}; "
        "add surrounding lines to make it unique, or set replace_all"
    )
    raise Stop(failed(reason, Text("tool.many_places", n=count), path=name, matches=count, lines=lines))


def _not_found(file: TextFile, old: str, name: str) -> ToolResult:
    lines = file.text.removesuffix("\n").split("\n")
    near = nearest(lines, old.split("\n"))
    reason = f"old_string is not in {name}"
    if not file.text:
        reason += ", which is empty; use write"
    elif near is None:
        reason += ", nor anything like it; read the file and copy the text exactly"
    else:
        found = utf8_safe(numbered(lines, *near))
        reason += f"; the nearest text is:\n{found}\nIf that is meant, copy it exactly"
    return failed(reason, Text("tool.no_match"), path=name, matches=0)


def preview_overwrite(args: Arguments, context: ToolContext) -> Preview:
    return changes.diff_preview(lambda: [_planned_overwrite(args, context)], context)


async def overwrite(args: Arguments, context: ToolContext) -> ToolResult:
    try:
        change = await asyncio.to_thread(_planned_overwrite, args, context)
        note = changes.hard_link_note(change.path) if change.operation == "updated" else ""
        changes.apply([change], context, all_known=True)
    except Stop as stop:
        return stop.result
    return changes.single_result(change, context, note)


def _planned_overwrite(args: Arguments, context: ToolContext) -> Change:
    path = locate(context, args["path"], write=True)
    before = changes.current(context, path)
    changes.check_seen(context, path, before, must_know=bool(before))
    return Change(path, before, _content(args["content"], before, shown(context, path)))


def _content(content: str, before: bytes | None, name: str) -> bytes:
    try:
        if before is None:
            return content.encode("utf-8")
        return load(before).rewritten(content)
    except NotText:
        return content.encode("utf-8", "replace")
    except UnicodeEncodeError as error:
        reason = f"content holds half of a character at position {error.start}; write it whole"
        raise Stop(failed(reason, path=name)) from error
    except CannotEncode as error:
        reason = f"{error}, the encoding of {name}; use other characters or convert the file first"
        raise Stop(failed(reason, path=name)) from error
