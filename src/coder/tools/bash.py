"""`bash`: run a shell line in the workspace, to its end or as a background job."""

from __future__ import annotations

from coder.texts import Text
from coder.tools.tool import Arguments, OnOutput, Preview, Tool, ToolContext, ToolResult, failed, spec

MAX_TIMEOUT_MS = 3_600_000

DESCRIPTION = """\
Run a bash command line in the workspace folder. Stdin is empty, each call is a new shell, and nothing it \
starts outlives it, not with & or nohup either. For a server or watcher set background: the call returns \
soon with a job id, and the `job` tool shows its output, waits for it and stops it. Output beyond 12 KB \
keeps its head and tail; all of it is in a file that `read` can page. \
Prefer read, list, glob, grep, edit and patch over cat, ls, find, grep and sed."""


class Bash(Tool):
    """The shell. `person`: the person's own, whose programs may print colours."""

    kind = "runs"
    keys = ("command",)
    spec = spec(
        "bash",
        DESCRIPTION,
        {
            "command": {"type": "string", "description": "the command line"},
            "timeout_ms": {"type": "integer", "description": "time limit; default 120000"},
            "background": {"type": "boolean", "description": "start it as a job and go on; no time limit"},
            "sandbox": {
                "type": "string",
                "enum": ["off"],
                "description": "run it outside the sandbox; the person is asked, with your reason",
            },
            "reason": {"type": "string", "description": "why it has to leave the sandbox"},
        },
        ["command"],
    )

    def __init__(self, *, person: bool = False) -> None:
        self._person = person

    def preview(self, args: Arguments, context: ToolContext) -> Preview:
        command = self.command(args)
        if args.get("sandbox") and not str(args.get("reason") or "").strip():
            return Preview(
                command, "command", failed('sandbox: "off" needs a reason, which the person is shown')
            )
        return Preview(subject=command, kind="command")

    async def run(self, args: Arguments, context: ToolContext, on_output: OnOutput) -> ToolResult:
        command: str = args["command"]
        if not command.strip():
            return failed("the command is empty", Text("tool.empty_command"))
        if "\0" in command:
            return failed("the command contains a NUL byte, which no shell line can hold")
        if args.get("sandbox") and not str(args.get("reason") or "").strip():
            return failed('sandbox: "off" needs a reason, which the person is shown')
        if args.get("background"):
            from coder.tools.shell import start_job

            return await start_job(command, context)
        timeout_ms = args.get("timeout_ms") or context.limits.command_timeout_ms
        if timeout_ms < 0:
            return failed("timeout_ms must be positive")
        from coder.tools.shell import run_command

        timeout_ms = min(timeout_ms, MAX_TIMEOUT_MS)
        return await run_command(command, timeout_ms, context, on_output, person=self._person)
