"""`bash`: run a shell line in the workspace, to its end or as a background job."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coder.process.output import KEY_MARK
from coder.texts import Phrase
from coder.tools.base import (
    Arguments,
    OnOutput,
    Preview,
    Tool,
    ToolCancelled,
    ToolContext,
    ToolResult,
    failed,
    spec,
    summed_up,
)

if TYPE_CHECKING:
    from coder.process.background import Job
    from coder.process.output import Printed
    from coder.process.run import Outcome

# What the model sees of an output: about 3,000 tokens, as much as a careful reader takes in at once.
FOR_MODEL = 12_000
FOR_PERSON = 32_000
# In memory, a stream: escape sequences and progress bars are taken out before it is cut to what is shown.
_KEEP_BYTES = 262_144
_FIRST_LOOK = 0.5  # seconds: a port in use, a missing program, the address that a server prints
MAX_TIMEOUT_MS = 3_600_000
# Linux takes at most 128 KiB in one argument; a longer script is handed over as a file.
_LONGEST_ARGUMENT = 100_000

# For commands of the model. Programs that obey these print no colours and move no cursor. `CI` is not among
# them: it changes what builds do. A variable that forces colours would win, and node warns of the clash.
QUIET = {"NO_COLOR": "1", "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "MANPAGER": "cat"}
_LOUD = ("FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS", "COLORTERM")

DESCRIPTION = """\
Run a bash command line in the workspace folder. Stdin is empty, each call is a new shell, and nothing it \
starts outlives it, not with & or nohup either. For a server or watcher set background: the call returns \
soon with a job id, and the `job` tool shows its output, waits for it and stops it. Output beyond 12 KB \
keeps its head and tail; all of it is in a file that `read` can page. \
Prefer read, list, glob, grep, edit and patch over cat, ls, find, grep and sed."""


class TooManyJobs(Exception):
    """What to do first is the text."""


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
        },
        ["command"],
    )

    def __init__(self, *, person: bool = False) -> None:
        self._person = person

    def preview(self, args: Arguments, context: ToolContext) -> Preview:
        return Preview(subject=self.command(args), kind="command")

    async def run(self, args: Arguments, context: ToolContext, on_output: OnOutput) -> ToolResult:
        command: str = args["command"]
        if fault := fault_of(command):
            return fault
        if args.get("background"):
            return await start_job(command, context)
        timeout_ms = args.get("timeout_ms") or context.limits.command_timeout_ms
        if timeout_ms < 0:
            return failed("timeout_ms must be positive")
        timeout_ms = min(timeout_ms, MAX_TIMEOUT_MS)
        from coder.process.run import CutShort, run_process

        script: Path | None = None
        try:
            argv, script = shell_line(command, context)
            outcome = await run_process(
                context.wrap_command(argv),
                cwd=context.workspace.root,
                environment=context.environment if self._person else quiet(context.environment),
                timeout_ms=timeout_ms,
                keep_bytes=_KEEP_BYTES,
                spill_to=context.outputs / f"bash-{time.time_ns():x}.txt",
                spill_limit=context.limits.output_limit_bytes,
                spill_from=FOR_MODEL,
                on_output=on_output,
            )
        except CutShort as cut:
            raise ToolCancelled(_result(cut.outcome, command, timeout_ms, context)) from None
        except OSError as error:
            return failed(f"the shell could not be started: {error.strerror or error}")
        finally:
            if script is not None:
                script.unlink(missing_ok=True)
        return _result(outcome, command, timeout_ms, context)


async def start_job(command: str, context: ToolContext) -> ToolResult:
    """It is watched for a moment: what fails at once is told at once, and is no job."""
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
    output, file = job.take_new(FOR_MODEL)
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


def fault_of(command: str) -> ToolResult | None:
    if not command.strip():
        return failed("the command is empty", Phrase("tool.empty_command"))
    if "\0" in command:
        return failed("the command contains a NUL byte, which no shell line can hold")
    return None


def quiet(environment: Mapping[str, str]) -> dict[str, str]:
    return {**{name: value for name, value in environment.items() if name not in _LOUD}, **QUIET}


def shell_line(command: str, context: ToolContext) -> tuple[list[str], Path | None]:
    """The argument vector, and the file that holds a command too long for one."""
    from coder.process.executables import find_program

    shell = find_program("bash", context.environment.get("PATH"), context.workspace.root) or "/bin/sh"
    text = os.fsencode(command)
    if len(text) <= _LONGEST_ARGUMENT:
        return [shell, "-c", command], None
    context.outputs.mkdir(parents=True, exist_ok=True, mode=0o700)
    script = context.outputs / f"script-{time.time_ns():x}.sh"
    script.write_bytes(text)
    return [shell, str(script)], script


def _result(outcome: Outcome, command: str, timeout_ms: int, context: ToolContext) -> ToolResult:
    from coder.process.output import clean_file, cut_pair

    out, err = outcome.out.plain(), outcome.err.plain()
    file = outcome.spilled
    if file is not None and out.fits(FOR_MODEL) and err.fits(FOR_MODEL) and out.size + err.size <= FOR_MODEL:
        file.unlink(missing_ok=True)  # it was long for its escape sequences alone
        file = None
    where = _where(file, outcome, context)
    stdout, stderr = cut_pair(out, err, FOR_MODEL, where)
    meta: dict[str, Any] = {
        "exit_code": outcome.exit_code,
        "stdout": stdout,
        "stderr": stderr,
        "truncated": file is not None or outcome.truncated,
        "duration_ms": outcome.duration_ms,
    }
    if file is not None:
        clean_file(file)
        meta["output_file"] = str(file)
    if outcome.cancelled:  # it has no exit code of its own
        del meta["exit_code"]
        meta["cancelled"] = True
    model = _output_text(*cut_pair(out.folded(), err.folded(), FOR_MODEL, where))
    key = "tool.exit_late" if outcome.timed_out else "tool.exit"
    return summed_up(
        Phrase(key, code=outcome.exit_code),
        _told(outcome, model or "(no output)", command, timeout_ms).rstrip("\n"),
        ok=outcome.exit_code == 0 and not outcome.cancelled,
        # As it was printed: the screen shows escape sequences, and obeys none.
        detail=_output_text(*cut_pair(outcome.out, outcome.err, FOR_PERSON)),
        detail_kind="output",
        meta=meta,
        around=_with_key(out, err) if meta["truncated"] else "",
    )


def _with_key(*streams: Printed) -> str:
    """Of a private key that the cut goes through, neither half looks like one."""
    text = "\n".join(part for stream in streams for part in (stream.head, stream.tail))
    return text if KEY_MARK in text else ""


def _where(file: Path | None, outcome: Outcome, context: ToolContext) -> str:
    if file is None:
        return ""
    total = sum(s.size + s.dropped[0] for s in (outcome.out, outcome.err))
    limit = context.limits.output_limit_bytes
    return f"; all of it: {file}" if total <= limit else f"; the first {limit} bytes: {file}"


def _told(outcome: Outcome, output: str, command: str, timeout_ms: int) -> str:
    if outcome.cancelled:
        seconds = outcome.duration_ms / 1000
        return f"error: cancelled by the person after {seconds:.1f} s; output so far:\n{output}"
    if outcome.timed_out:
        return (
            f"error: no end after {timeout_ms} ms, so the command and all it started were ended "
            f"(exit code {outcome.exit_code}). For a server or watcher use background: true; for slow work "
            f"give a larger timeout_ms, or run less at once.\n{output}"
        )
    text = f"error: exit code {outcome.exit_code}\n{output}" if outcome.exit_code else output
    if leaves_behind(command):
        text = text.rstrip("\n") + (
            "\n[What & puts in the background is ended when the call ends. To keep it running, "
            "call bash again with that command alone and background: true.]"
        )
    return text


_QUOTED = re.compile(r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|(?<!\S)#[^\n]*", re.DOTALL)
_AMPERSAND = re.compile(r"(?<![&<>|])&(?=[\s;)]|$)")
_WAITS = re.compile(r"\bwait\b")


def leaves_behind(command: str) -> bool:
    """Whether a line puts something in the background and does not wait for it. Good for a hint: a rough
    reading of the line, not a parse."""
    bare = _QUOTED.sub("''", command)
    return _AMPERSAND.search(bare) is not None and _WAITS.search(bare) is None


def _output_text(stdout: str, stderr: str) -> str:
    parts = [stdout.rstrip("\n")] if stdout.strip("\n") else []
    if stderr.strip("\n"):
        parts.append("[stderr]\n" + stderr.strip("\n") if parts else stderr.rstrip("\n"))
    return "\n".join(parts)
