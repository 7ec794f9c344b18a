"""`job`: show, await and stop background commands; and the registry of a session's jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coder.base.text import one_line
from coder.texts import Text
from coder.tools.bash import MAX_TIMEOUT_MS
from coder.tools.tool import Arguments, OnOutput, Tool, ToolContext, ToolResult, failed, spec, summed_up

if TYPE_CHECKING:
    from coder.base.process.jobs import BackgroundJob

MAX_RUNNING = 16

DESCRIPTION = """\
Jobs that bash started with background: `list` them; `output` shows what one printed since you last looked; \
`wait` until it ends or timeout_ms (default 120000) is over; `stop` ends it and all it started. Without id: \
the one that runs. Its end is reported: do not poll."""

_LINE = 200  # characters of a command or an output line in a list


class JobTool(Tool):
    """Touches nothing but the session's own jobs."""

    kind = "looks"
    keys = ("action", "id")
    shown_as = "other"
    spec = spec(
        "job",
        DESCRIPTION,
        {
            "action": {"type": "string", "enum": ["list", "output", "wait", "stop"]},
            "id": {"type": "string", "description": "the job's id"},
            "timeout_ms": {"type": "integer", "description": "for wait"},
        },
        ["action"],
    )

    async def run(self, args: Arguments, context: ToolContext, on_output: OnOutput) -> ToolResult:
        jobs = context.jobs
        if jobs is None or not list(jobs):
            return failed("there are no jobs; bash with background: true starts one")
        if args["action"] == "list":
            return _list(jobs)
        job = _meant(jobs, str(args.get("id", "")).strip().removeprefix("job").strip())
        if job is None:
            ids = ", ".join(one.id for one in jobs)
            return failed(f"say which job with id; there are {ids}")
        if args["action"] == "wait":
            timeout_ms = args.get("timeout_ms") or context.limits.command_timeout_ms
            if timeout_ms < 0:
                return failed("timeout_ms must be positive")
            with job.watched(on_output):
                await job.wait(min(timeout_ms, MAX_TIMEOUT_MS) / 1000)
        elif args["action"] == "stop":
            job.end_reported = True
            job.stop("model")
        return _state(job)


def _meant(jobs: Jobs, job_id: str) -> BackgroundJob | None:
    """Without an id, the running one, else the only one."""
    if job_id:
        return jobs.get(job_id)
    running = jobs.running or list(jobs)
    return running[0] if len(running) == 1 else None


def _list(jobs: Jobs) -> ToolResult:
    lines = []
    for job in jobs:
        last = job.recent(1)[:_LINE]
        lines.append(f"{job.id}: {standing(job)}: {one_line(job.command, _LINE)}")
        lines += [f"   {last}"] if last else []
        job.end_reported = job.end_reported or not job.running
    return summed_up(
        Text("tool.jobs", n=len(jobs.running)),
        "\n".join(lines),
        detail="\n".join(lines),
        detail_kind="text",
        meta={"jobs": [_fields(job) for job in jobs]},
    )


def _state(job: BackgroundJob) -> ToolResult:
    from coder.tools.shell import FOR_MODEL

    output, file = job.read_new(FOR_MODEL)
    if not job.running:
        job.end_reported = True
    text = f"job {job.id}: {standing(job)}"
    if output:
        text += f"\n{output}"
    elif file is not None:
        text += f"; nothing new. All that it printed: {file}"
    else:
        text += "; it has printed nothing."
    ended = Text("tool.job_ended", id=job.id, code=job.exit_code)
    return summed_up(
        Text("tool.job_runs", id=job.id) if job.running else ended,
        text,
        detail=output,
        detail_kind="output",
        meta={**_fields(job), **({"output_file": str(file)} if file else {})},
        around=job.full_output_with_key(),
    )


def standing(job: BackgroundJob) -> str:
    if job.running:
        return f"running for {job.seconds:.0f} s"
    how = f"stopped by the {job.stopped_by}" if job.stopped_by else f"ended with exit code {job.exit_code}"
    return f"{how} after {job.seconds:.1f} s"


def ending(job: BackgroundJob) -> str:
    """The message for the model when a job has ended."""
    text = f"Job {job.id} ({one_line(job.command, _LINE)}): {standing(job)}."
    last = job.recent(10)
    return f"{text} Its last lines:\n{last}" if last else f"{text} It printed nothing."


def _fields(job: BackgroundJob) -> dict[str, Any]:
    fields: dict[str, Any] = {"job_id": job.id, "running": job.running, "command": job.command}
    return fields if job.running else {**fields, "exit_code": job.exit_code}


class TooManyJobs(Exception):
    """The message says what to do first."""


class Jobs:
    """The jobs of a session and its subagents. `on_end` is called at each job's end."""

    def __init__(self, on_end: Callable[[BackgroundJob], None]) -> None:
        self._on_end = on_end
        self._jobs: dict[str, BackgroundJob] = {}
        self.next_number = 1

    def __iter__(self) -> Iterator[BackgroundJob]:
        return iter(self._jobs.values())

    def get(self, job_id: str) -> BackgroundJob | None:
        return self._jobs.get(job_id)

    @property
    def running(self) -> list[BackgroundJob]:
        return [job for job in self if job.running]

    def start(
        self,
        command: str,
        argv: list[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        outputs: Path,
        file_limit: int,
        script: Path | None = None,
    ) -> BackgroundJob:
        """`let_go` or `withdraw` follows. Raises OSError and `TooManyJobs`."""
        if len(self.running) >= MAX_RUNNING:
            raise TooManyJobs(f"{MAX_RUNNING} jobs are running; stop one first (job, action stop)")
        from coder.base.process.jobs import BackgroundJob

        job = BackgroundJob(
            self.next_number, command, outputs / f"job-{self.next_number}.txt", file_limit, script
        )
        job.start(argv, cwd, environment)
        self.next_number += 1
        self._jobs[job.id] = job
        return job

    def let_go(self, job: BackgroundJob) -> None:
        """The call that started it is over, and it keeps running."""
        job.on_end = self._on_end

    def withdraw(self, job: BackgroundJob) -> None:
        """Discard it: it ended before it became a job."""
        job.discard()
        self._jobs.pop(job.id, None)
        if job.id == str(self.next_number - 1):
            self.next_number -= 1

    def end_all(self) -> list[BackgroundJob]:
        """Stop all at the end of the session; returns those that were running."""
        running = self.running
        for job in running:
            job.stop("session")
        return running
