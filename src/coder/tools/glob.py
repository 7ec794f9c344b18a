"""`glob`: files by name pattern."""

from __future__ import annotations

from coder.base.text import utf8_safe
from coder.tools import tool as base
from coder.tools.tool import Arguments, OnOutput, Preview, Tool, ToolContext, ToolResult

MAX_SHOWN = 200


class Glob(Tool):
    """Files whose path below a directory matches a glob pattern, newest first."""

    kind = "looks"
    touches = "folders"
    keys = ("pattern",)
    concurrent = True
    spec = base.spec(
        "glob",
        f"Find files by glob pattern relative to path: * ? [..] {{a,b}} within a name, ** across folders "
        f"(**/*.py). Newest first, at most {MAX_SHOWN}. What .gitignore excludes is not searched, nor .venv.",
        {
            "pattern": {"type": "string"},
            "path": {"type": "string", "description": "Folder to search; default: the workspace."},
        },
        ["pattern"],
    )

    def preview(self, args: Arguments, context: ToolContext) -> Preview:
        return Preview(f"glob {self.argument(args)} in {utf8_safe(args.get('path') or '.')}")

    async def run(self, args: Arguments, context: ToolContext, on_output: OnOutput) -> ToolResult:
        from coder.tools.search.listing import files_matching

        return await files_matching(args["pattern"], args.get("path") or ".", context)
