"""`task`: hand a piece of work to a subagent with a context of its own; its summary comes back."""

from __future__ import annotations

from coder.tools.tool import Arguments, OnOutput, Preview, Tool, ToolContext, ToolResult, failed, spec

AGENTS = {
    "general": "any piece of work that can be described in a few sentences",
    "explore": "finding out how something works; reads and searches, changes nothing",
}

DESCRIPTION = (
    "Give a self-contained piece of work to a subagent that has its own context and sees nothing of this "
    "conversation; you get its summary. Good for broad searches whose details you do not need, and for "
    "independent parts, several calls at once. Agents: "
    + "; ".join(f"{name}: {what}" for name, what in AGENTS.items())
    + "."
)


class Task(Tool):
    """Starts subagents, which cannot start further ones."""

    kind = "reaches"
    for_subagents = False
    shown_as = "think"
    spec = spec(
        "task",
        DESCRIPTION,
        {
            "agent": {"type": "string", "enum": list(AGENTS)},
            "objective": {"type": "string", "description": "all it needs to know, and what to report"},
        },
        ["agent", "objective"],
    )
    concurrent = True

    @classmethod
    def argument(cls, args: Arguments) -> str:
        return f"{args.get('agent', '')}: {args.get('objective', '')}"

    def preview(self, args: Arguments, context: ToolContext) -> Preview:
        return Preview(subject=self.argument(args))

    async def run(self, args: Arguments, context: ToolContext, on_output: OnOutput) -> ToolResult:
        if context.start_task is None:
            return failed("a subagent cannot start another one; do the work yourself")
        if not args["objective"].strip():
            return failed("the objective is empty; say what the subagent shall find out or do")
        return await context.start_task(args["agent"], args["objective"], on_output)
