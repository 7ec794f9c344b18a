"""`edit`: pieces of a file replaced by others, all or none."""

from __future__ import annotations

from typing import Any, ClassVar

from coder.tools import tool as base
from coder.tools.tool import Arguments, OnOutput, Preview, Tool, ToolContext, ToolResult

_ITEM = {
    "old_string": {"type": "string"},
    "new_string": {"type": "string"},
    "replace_all": {"type": "boolean"},
}


class Edit(Tool):
    """Replace texts that stand in a file exactly once, or everywhere they stand."""

    kind = "edits"
    touches = "files"
    keys = ("path",)
    spec = base.spec(
        "edit",
        "Replace old_string by new_string in a file. old_string must be the file's text (without read's line "
        "numbers) and occur once: add surrounding lines to make it unique, or set replace_all. An empty "
        "old_string creates a new file. For several changes of one file give edits instead: all or none.",
        {
            "path": {"type": "string"},
            **_ITEM,
            "edits": {
                "type": "array",
                "items": {"type": "object", "properties": _ITEM, "required": ["old_string", "new_string"]},
            },
        },
        ["path"],
    )
    unadvertised: ClassVar[dict[str, Any]] = {"expected": {"type": "integer"}}

    def preview(self, args: Arguments, context: ToolContext) -> Preview:
        from coder.tools.text.replace import preview

        return preview(args, context)

    async def run(self, args: Arguments, context: ToolContext, on_output: OnOutput) -> ToolResult:
        from coder.tools.text.replace import replace

        return await replace(args, context)
