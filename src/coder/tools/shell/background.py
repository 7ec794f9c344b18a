"""`bash` with a background command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coder.texts import Phrase
from coder.tools.base import ToolContext, ToolResult, failed, summed_up
from coder.tools.job import TooManyJobs
from coder.tools.shell.command import FOR_MODEL, quiet, shell_line

if TYPE_CHECKING:
    from coder.process.background import Job

_FIRST_LOOK = 0.5  # seconds: a port in use, a missing program, the address that a server prints


async def start_job(command: str, context: ToolContext) -> ToolResult:
    """Start it and wait a moment: a command that fails at once is reported at once, and is no job."""
    if context.jobs is None:
        return failed("nothing can run in the background here; run it without background")
    try:
        argv, script = shell_line(command, context)
        job = context.jobs.start(
            command,
            context.wrap_command(argv),
            cwd=context.workspace.root,
            environment=quiet(context.environment),
            outputs=context.outputs,
            file_limit=context.limits.output_limit_bytes,
            script=script,
        )
    except TooManyJobs as error:
        return failed(str(error))
    except OSError as error:
        return failed(f"the shell could not be started: {error.strerror or error}")
    try:
        await job.wait(_FIRST_LOOK)
    except BaseException:
        context.jobs.withdraw(job)
        raise
    output, file = job.read_new(FOR_MODEL)
    meta: dict[str, Any] = {"background": True, "command": command}
    if not job.running:
        context.jobs.withdraw(job)
        return _ended_at_once(job, output, meta)
    context.jobs.let_go(job)
    text = f"Job {job.id} runs in the background. It ends with the session; `job` shows, awaits and stops it."
    shown = f"{text}\n{output}" if output else f"{text} It has printed nothing yet."
    return summed_up(
        Phrase("tool.job_started", id=job.id),
        shown,
        detail=output,
        detail_kind="output",
        meta={**meta, "job_id": job.id, **({"output_file": str(file)} if file else {})},
    )


def _ended_at_once(job: Job, output: str, meta: dict[str, Any]) -> ToolResult:
    code = job.exit_code or 0
    head = f"error: exit code {code}\n" if code else ""
    return summed_up(
        Phrase("tool.exit", code=code),
        f"{head}[It ended at once, so there is no job.]\n{output}".rstrip("\n"),
        ok=code == 0,
        detail=output,
        detail_kind="output",
        meta={
            **meta,
            "exit_code": code,
            "stdout": output,
            "stderr": "",
            "truncated": False,
            "duration_ms": round(job.seconds * 1000),
        },
    )
