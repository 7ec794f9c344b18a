"""What `write` does: a file created, or the whole content of a known one replaced."""

from __future__ import annotations

import asyncio

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
from coder.tools.paths import Stop, locate, shown
from coder.tools.text.file import CannotEncode, NotText, load


def preview(args: Arguments, context: ToolContext) -> Preview:
    return diff_preview(lambda: [_planned(args, context)], context)


async def overwrite(args: Arguments, context: ToolContext) -> ToolResult:
    try:
        change = await asyncio.to_thread(_planned, args, context)
        note = hard_link_note(change.path) if change.operation == "updated" else ""
        apply([change], context, all_known=True)
    except Stop as stop:
        return stop.result
    return single_result(change, context, note)


def _planned(args: Arguments, context: ToolContext) -> Change:
    path = locate(context, args["path"], write=True)
    before = current(context, path)
    check_seen(context, path, before, must_know=bool(before))
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
