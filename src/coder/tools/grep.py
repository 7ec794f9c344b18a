"""`grep`: lines by regular expression."""

from __future__ import annotations

from typing import Any, ClassVar

from coder.base.text import utf8_safe
from coder.tools import tool as base
from coder.tools.tool import Arguments, OnOutput, Preview, Tool, ToolContext, ToolResult

DEFAULT_MATCHES = 100
MAX_MATCHES = 1000
_MODES = ("content", "files_with_matches", "count")


class Grep(Tool):
    """Lines that match a regular expression, grouped by file."""

    kind = "looks"
    touches = "folders"
    keys = ("pattern",)
    concurrent = True
    spec = base.spec(
        "grep",
        "Search file contents with a regular expression (ripgrep syntax, case-sensitive; (?i) ignores case). "
        "Answers path, then `line: text` (`line- text`: context). What .gitignore excludes is not searched, "
        "nor .venv.",
        {
            "pattern": {"type": "string"},
            "path": {"type": "string", "description": "File or folder; default: the workspace."},
            "glob": {
                "type": "string",
                "description": "Only files matching this, e.g. *.py or src/**/*.{ts,tsx}.",
            },
            "max_matches": {
                "type": "integer",
                "description": f"Default {DEFAULT_MATCHES}, at most {MAX_MATCHES}.",
            },
            "context": {"type": "integer", "description": "Lines around each match; default 0."},
        },
        ["pattern"],
    )
    unadvertised: ClassVar[dict[str, Any]] = {"output_mode": {"type": "string", "enum": list(_MODES)}}

    def preview(self, args: Arguments, context: ToolContext) -> Preview:
        return Preview(f"grep {self.argument(args)} in {utf8_safe(args.get('path') or '.')}")

    async def run(self, args: Arguments, context: ToolContext, on_output: OnOutput) -> ToolResult:
        from coder.tools.search.matches import lines_matching

        return await lines_matching(args, context)
