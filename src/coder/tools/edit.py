"""`edit`: one piece of a file replaced by another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from coder.texts import Phrase
from coder.tools import base
from coder.tools.base import Arguments, Preview, ToolContext, ToolResult, failed
from coder.tools.changes import (
    Change,
    apply,
    check_seen,
    current,
    diff_preview,
    hard_link_note,
    single_result,
)
from coder.tools.matching import Found, find, line_of, nearest, numbered
from coder.tools.paths import Stop, clean, locate, missing, shown
from coder.tools.textfile import CannotEncode, NotText, Span, TextFile, load

_LINES_NAMED = 10
_LINES_RECORDED = 100


class Edit:
    """Replace a text that stands in a file exactly once, or everywhere it stands."""

    concurrent = False
    spec = base.spec(
        "edit",
        "Replace old_string by new_string in a file. old_string must be the file's text (without read's line "
        "numbers) and occur once: add surrounding lines to make it unique, or set replace_all. An empty "
        "old_string creates a new file.",
        {
            "path": {"type": "string"},
            "old_string": {"type": "string"},
            "new_string": {"type": "string"},
            "replace_all": {"type": "boolean", "description": "Replace every occurrence; default false."},
        },
        ["path", "old_string", "new_string"],
    )

    def argument(self, args: Arguments) -> str:
        return clean(str(args.get("path", "")))

    def preview(self, args: Arguments, context: ToolContext) -> Preview:
        try:
            return diff_preview([_planned(args, context).change], context)
        except Stop as stop:
            return Preview(stop.result.for_model, fault=stop.result)

    async def run(
        self, args: Arguments, context: ToolContext, on_output: Callable[[str], None]
    ) -> ToolResult:
        import asyncio

        try:
            plan = await asyncio.to_thread(_planned, args, context)
            note = hard_link_note(plan.change.path) if plan.change.operation == "updated" else ""
            apply([plan.change], context)
        except Stop as stop:
            return stop.result
        if plan.matches > 1:
            note = f"; {plan.matches} places{note}"
        if plan.how:
            note += f"; old_string was not there exactly, matched with tolerance for {plan.how}"
        return single_result(plan.change, context, note, matches=plan.matches, tolerance=plan.how)


class _Plan(msgspec.Struct, frozen=True):
    change: Change
    matches: int
    how: str = ""


def _planned(args: Arguments, context: ToolContext) -> _Plan:
    path = locate(context, args["path"], write=True)
    old, new = args["old_string"].replace("\r\n", "\n"), args["new_string"].replace("\r\n", "\n")
    name = shown(context, path)
    before = current(context, path)
    if before is None:
        return _created(path, old, new, name, context)
    if not old:
        raise Stop(failed(f"{name} exists; give the text to replace as old_string, or use write", path=name))
    if old == new:
        raise Stop(failed("old_string and new_string are the same; nothing to change", path=name))
    check_seen(context, path, before)
    try:
        file = load(before)
    except NotText:
        raise Stop(failed(f"{name} is a binary file; edit changes text only", path=name)) from None
    found = find(file.text, old, new)
    spans = _chosen(found, file, old, args.get("replace_all") or False, name)
    try:
        after = file.spliced(spans)
    except CannotEncode as error:
        reason = f"{error}, the encoding of {name}; use other characters or convert the file first"
        raise Stop(failed(reason, path=name)) from error
    return _Plan(Change(path, before, after), len(spans), found.how)


def _created(path: Path, old: str, new: str, name: str, context: ToolContext) -> _Plan:
    if old:
        raise Stop(missing(context, path))
    try:
        return _Plan(Change(path, None, new.encode("utf-8")), 0)
    except UnicodeEncodeError as error:
        reason = f"new_string holds half of a character at position {error.start}; write it whole"
        raise Stop(failed(reason, path=name)) from error


def _chosen(found: Found, file: TextFile, old: str, replace_all: bool, name: str) -> list[Span]:
    if not found.spans:
        raise Stop(_not_found(file, old, name))
    if len(found.spans) == 1 or replace_all:
        return found.spans
    count = len(found.spans)
    # Of the first ones only: each is counted from the file's beginning, and there may be a million.
    lines = [line_of(file.text, start) for start, _, _ in found.spans[:_LINES_RECORDED]]
    named = ", ".join(map(str, lines[:_LINES_NAMED])) + (", …" if count > _LINES_NAMED else "")
    how = f" (with tolerance for {found.how})" if found.how else ""
    reason = (
        f"old_string occurs {count} times in {name}{how}, at lines {named}; "
        "add surrounding lines to make it unique, or set replace_all"
    )
    raise Stop(failed(reason, Phrase("tool.many_places", n=count), path=name, matches=count, lines=lines))


def _not_found(file: TextFile, old: str, name: str) -> ToolResult:
    lines = file.text.split("\n")
    near = nearest(lines, old.split("\n"))
    reason = f"old_string is not in {name}"
    if not file.text:
        reason += ", which is empty; use write"
    elif near is None:
        reason += ", nor anything like it; read the file and copy the text exactly"
    else:
        reason += f"; the nearest text is:\n{clean(numbered(lines, *near))}\nCopy it exactly as it stands"
    return failed(reason, Phrase("tool.no_match", path=name), path=name, matches=0)
