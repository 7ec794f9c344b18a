"""`patch`: several changes to several files at once, all of them or none."""

from __future__ import annotations

from coder.base.text import utf8_safe
from coder.tools import tool as base
from coder.tools.tool import Arguments, OnOutput, Preview, Tool, ToolContext, ToolResult


class Patch(Tool):
    """Apply a unified diff or a `*** Begin Patch` envelope."""

    kind = "edits"
    touches = "files"
    spec = base.spec(
        "patch",
        "Change several files at once, all or none. Takes a unified diff, or:\n"
        "*** Begin Patch\n*** Update File: a.py\n@@ def f():\n context\n-old\n+new\n"
        "*** Add File: b.py\n+line\n*** Delete File: c.py\n*** End Patch\n"
        "(`*** Move to: new.py` after Update File moves it.) Give 3 lines of context around a change.",
        {
            "patch": {"type": "string"},
            "dry_run": {"type": "boolean", "description": "Only say what would change."},
        },
        ["patch"],
    )

    @classmethod
    def paths(cls, args: Arguments) -> list[str]:
        from coder.tools.patching.formats import BadPatch, parse

        try:
            files = parse(str(args.get("patch", "")))
        except BadPatch:
            return []
        return [name for file in files for name in (file.path, file.move_to) if name]

    @classmethod
    def argument(cls, args: Arguments) -> str:
        names = cls.paths(args)
        if not names:
            return "(unreadable patch)"
        return utf8_safe(", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else ""))

    def preview(self, args: Arguments, context: ToolContext) -> Preview:
        from coder.tools.patching.plan import preview

        return preview(args, context)

    async def run(self, args: Arguments, context: ToolContext, on_output: OnOutput) -> ToolResult:
        from coder.tools.patching.plan import apply_patch

        return await apply_patch(args, context)
