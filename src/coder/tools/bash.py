"""`bash`: run a shell line in the workspace."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from coder.texts import Phrase
from coder.tools.base import Arguments, Preview, ToolContext, ToolResult, failed, spec, summed_up
from coder.tools.process import Outcome, run_process

# What the model sees of an output: the most that still helps it, at about 8,000 tokens.
KEEP_BYTES = 32_000
MAX_TIMEOUT_MS = 3_600_000
# Linux takes at most 128 KiB in one argument; a longer script is handed over as a file.
_LONGEST_ARGUMENT = 100_000

DESCRIPTION = """\
Run a bash command line in the workspace folder. Stdin is empty, each call is a new shell, and nothing it \
starts outlives it. Output beyond 32 KB keeps its head and tail; the rest is in a file that `read` can page. \
Prefer read, list, glob, grep, edit and patch over cat, ls, find, grep and sed."""


class Bash:
    """The shell."""

    spec = spec(
        "bash",
        DESCRIPTION,
        {
            "command": {"type": "string", "description": "the command line"},
            "timeout_ms": {"type": "integer", "description": "time limit; default 120000"},
        },
        ["command"],
    )
    concurrent = False

    def argument(self, args: Arguments) -> str:
        return str(args.get("command", ""))

    def preview(self, args: Arguments, context: ToolContext) -> Preview:
        return Preview(subject=self.argument(args), kind="command")

    async def run(
        self, args: Arguments, context: ToolContext, on_output: Callable[[str], None]
    ) -> ToolResult:
        command: str = args["command"]
        if not command.strip():
            return failed("the command is empty", Phrase("tool.empty_command"))
        if "\0" in command:
            return failed("the command contains a NUL byte, which no shell line can hold")
        timeout_ms = args.get("timeout_ms") or context.limits.command_timeout_ms
        if timeout_ms < 0:
            return failed("timeout_ms must be positive")
        timeout_ms = min(timeout_ms, MAX_TIMEOUT_MS)
        script: Path | None = None
        try:
            argv, script = _argv(command, context)
            outcome = await run_process(
                context.wrap_command(argv),
                cwd=context.workspace.root,
                environment=context.environment,
                timeout_ms=timeout_ms,
                keep_bytes=KEEP_BYTES,
                spill_to=context.outputs / f"bash-{time.time_ns():x}.txt",
                spill_limit=context.limits.output_limit_bytes,
                on_output=on_output,
            )
        except OSError as error:
            return failed(f"the shell could not be started: {error.strerror or error}")
        finally:
            if script is not None:
                script.unlink(missing_ok=True)
        return _result(outcome, timeout_ms)


def _argv(command: str, context: ToolContext) -> tuple[list[str], Path | None]:
    from coder.tools.programs import find_program

    shell = find_program("bash", context.environment.get("PATH"), context.workspace.root) or "/bin/sh"
    text = os.fsencode(command)
    if len(text) <= _LONGEST_ARGUMENT:
        return [shell, "-c", command], None
    context.outputs.mkdir(parents=True, exist_ok=True, mode=0o700)
    script = context.outputs / f"script-{time.time_ns():x}.sh"
    script.write_bytes(text)
    return [shell, str(script)], script


def _result(outcome: Outcome, timeout_ms: int) -> ToolResult:
    meta = {
        "exit_code": outcome.exit_code,
        "stdout": outcome.stdout,
        "stderr": outcome.stderr,
        "truncated": outcome.truncated,
        "duration_ms": outcome.duration_ms,
    }
    if outcome.spilled is not None:
        meta["output_file"] = str(outcome.spilled)
    output = _output_text(outcome)
    if outcome.timed_out:
        text = (
            f"error: no end after {timeout_ms} ms, so the command and all it started were ended "
            f"(exit code {outcome.exit_code}). Give a larger timeout_ms, or run less at once.\n{output}"
        )
    elif outcome.exit_code != 0:
        text = f"error: exit code {outcome.exit_code}\n{output}"
    else:
        text = output
    key = "tool.exit_late" if outcome.timed_out else "tool.exit"
    return summed_up(
        Phrase(key, code=outcome.exit_code),
        text.rstrip("\n"),
        ok=outcome.exit_code == 0,
        detail=output,
        detail_kind="output",
        meta=meta,
    )


def _output_text(outcome: Outcome) -> str:
    parts = [outcome.stdout.rstrip("\n")] if outcome.stdout.strip("\n") else []
    if outcome.stderr.strip("\n"):
        parts.append("[stderr]\n" + outcome.stderr.rstrip("\n") if parts else outcome.stderr.rstrip("\n"))
    if not parts:
        parts.append("(no output)")
    if outcome.spilled is not None:
        parts.append(f"[output was cut; more of it is in {outcome.spilled}]")
    return "\n".join(parts)
