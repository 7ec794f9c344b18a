"""`write`: a file with exactly this content."""

from __future__ import annotations

from coder.tools import tool as base
from coder.tools.tool import Arguments, OnOutput, Preview, Tool, ToolContext, ToolResult


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
        from coder.tools.text.replace import preview_overwrite as preview

        return preview(args, context)

    async def run(self, args: Arguments, context: ToolContext, on_output: OnOutput) -> ToolResult:
        from coder.tools.text.replace import overwrite

        return await overwrite(args, context)
