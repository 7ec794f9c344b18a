"""`read`: a file as numbered lines, or a clear word on why not."""

from __future__ import annotations

from coder.tools import tool as base
from coder.tools.tool import Arguments, OnOutput, Tool, ToolContext, ToolResult

DEFAULT_LIMIT = 2000


class Read(Tool):
    """A page of a text file, or an image."""

    kind = "looks"
    touches = "files"
    keys = ("path",)
    concurrent = True
    spec = base.spec(
        "read",
        f"Read a text file as numbered lines (number, tab, text): up to {DEFAULT_LIMIT} lines or 256 KB; "
        "a last line [has_more …] names the offset that continues. A folder is listed, an image shown.",
        {
            "path": {"type": "string"},
            "offset": {
                "type": "integer",
                "description": "First line, from 1; negative counts from the end (-20: the last 20 lines).",
            },
            "limit": {"type": "integer", "description": f"Number of lines, default {DEFAULT_LIMIT}."},
        },
        ["path"],
    )

    async def run(self, args: Arguments, context: ToolContext, on_output: OnOutput) -> ToolResult:
        from coder.tools.text.page import read_page

        return await read_page(args, context)
