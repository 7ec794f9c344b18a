"""`write`: a file with exactly this content."""

from __future__ import annotations

from coder.tools import base
from coder.tools.base import Arguments, OnOutput, Preview, Tool, ToolContext, ToolResult, failed
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


class Write(Tool):
    """Create a file or replace its content."""

    kind = "edits"
    touches = "files"
    keys = ("path",)
    spec = base.spec(
        "write",
        "Create a file, or replace the whole content of one that you have read. Folders are made as needed; "
        "an existing file keeps its line endings, encoding and permissions. For a small change use edit.",
        {"path": {"type": "string"}, "content": {"type": "string", "description": "The whole new content."}},
        ["path", "content"],
    )

    def preview(self, args: Arguments, context: ToolContext) -> Preview:
        return diff_preview(lambda: [_planned(args, context)], context)

    async def run(self, args: Arguments, context: ToolContext, on_output: OnOutput) -> ToolResult:
        import asyncio

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
