"""`list`: what one directory holds."""

from __future__ import annotations

from coder.base.text import utf8_safe
from coder.tools import tool as base
from coder.tools.tool import Arguments, OnOutput, Tool, ToolContext, ToolResult

MAX_ENTRIES = 500


class List(Tool):
    """One level of a directory: directories first, files with sizes, ignored entries by name."""

    kind = "looks"
    touches = "folders"
    concurrent = True
    spec = base.spec(
        "list",
        f"List one folder: subfolders (ending in /) first, then files with sizes, at most {MAX_ENTRIES}. "
        "What .gitignore excludes is only named. To search deeper use glob.",
        {"path": {"type": "string", "description": "Folder; default: the workspace."}},
        [],
    )

    @classmethod
    def argument(cls, args: Arguments) -> str:
        return utf8_safe(args.get("path") or ".")

    async def run(self, args: Arguments, context: ToolContext, on_output: OnOutput) -> ToolResult:
        from coder.tools.search.listing import list_directory

        return await list_directory(args.get("path") or ".", context)
