"""`bash` with a command that runs to completion, and its result."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from coder.base.files import make_private
from coder.base.process.output import PRIVATE_KEY_MARKER, clean_file, cut_pair
from coder.base.process.programs import HeldLine, Runs, find_program
from coder.base.process.run import ProcessCancelled, ProcessOutcome, run_process
from coder.texts import Text
from coder.tools.job import TooManyJobs
from coder.tools.tool import OnOutput, ToolCancelled, ToolContext, ToolResult, failed, summed_up

if TYPE_CHECKING:
    from coder.base.process.jobs import BackgroundJob


# What the model sees of an output: about 3,000 tokens, as much as a careful reader takes in at once.
FOR_MODEL = 12_000
FOR_PERSON = 32_000
# In memory, a stream: escape sequences and progress bars are taken out before it is cut to what is shown.
_KEEP_BYTES = 262_144
# Linux takes at most 128 KiB in one argument; a longer script is handed over as a file.
_LONGEST_ARGUMENT = 100_000
_MOST_STATUSES = 4096  # bytes

# For commands of the model. Programs that obey these print no colours and move no cursor. `CI` is not among
# them: it changes what builds do. A variable that forces colours would win, and node warns of the clash.
_PAGERS = dict.fromkeys(("PAGER", "GIT_PAGER", "MANPAGER"), "cat")
_NO_NOTICES = {"npm_config_update_notifier": "false", "NO_UPDATE_NOTIFIER": "1"}  # of new versions
QUIET = {"NO_COLOR": "1", "TERM": "dumb", **_PAGERS, **_NO_NOTICES}
_LOUD = ("FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS", "COLORTERM")


async def run_command(
    command: str, timeout_ms: int, context: ToolContext, on_output: OnOutput, *, person: bool
) -> ToolResult:
    script: Path | None = None
    reported = _Statuses()
    try:
        argv, script = shell_line(command, context)
        wanted = context.wants_statuses and script is None
        outcome = await run_process(
            reported.asked(argv, context) if wanted else context.wrap_command(argv),
            runs=Runs.FOR_PERSON if person else Runs.IN_SANDBOX,
            cwd=context.workspace.root,
            environment=context.environment if person else quiet(context.environment),
            timeout_ms=timeout_ms,
            keep_bytes=_KEEP_BYTES,
            spill_to=context.outputs / f"bash-{time.time_ns():x}.txt",
            spill_limit=context.limits.output_limit_bytes,
            spill_from=FOR_MODEL,
            on_output=on_output,
        )
    except ProcessCancelled as cut:
        raise ToolCancelled(_result(cut.outcome, command, timeout_ms, context)) from None
    except OSError as error:
        return failed(f"the shell could not be started: {error.strerror or error}")
    finally:
        statuses = reported.close()
        if script is not None:
            script.unlink(missing_ok=True)
    result = _result(outcome, command, timeout_ms, context)
    return replace(result, meta={**result.meta, "statuses": statuses}) if len(statuses) > 1 else result


class _Statuses:
    """The exit codes of a line's last pipeline, which bash writes to a pipe of ours when it exits."""

    def __init__(self) -> None:
        self._ends: tuple[int, ...] = ()

    def asked(self, argv: list[str], context: ToolContext) -> list[str]:
        """The line to start. Raises OSError."""
        shell, option, command = argv
        if not shell.endswith("bash"):
            return context.wrap_command(argv)
        self._ends = os.pipe()
        os.set_blocking(self._ends[0], False)
        report = f'trap \'printf "%s " "${{PIPESTATUS[@]}}" >&{self._ends[1]}\' EXIT; '
        line = context.wrap_command([shell, option, report + command])
        held = line if isinstance(line, HeldLine) else HeldLine(line)
        held.descriptors = (*held.descriptors, self._ends[1])
        return held

    def close(self) -> list[int]:
        """The reported codes; the command could have written anything."""
        found = b""
        if self._ends:
            with contextlib.suppress(OSError):
                found = os.read(self._ends[0], _MOST_STATUSES)
        for end in self._ends:
            os.close(end)
        return list(map(int, found.split())) if re.fullmatch(rb"(?:\d{1,3} )*", found) else []


async def run_on_terminal(
    command: str, context: ToolContext, keys: int, screen: int, typed_ahead: Callable[[bytes], object]
) -> ToolResult:
    """The person's own command, on their terminal: descriptors `keys` and `screen`. `typed_ahead` gets the
    keys that it has not read."""
    from coder.base.process import on_terminal

    script: Path | None = None
    try:
        argv, script = shell_line(command, context)
        outcome = await on_terminal.run_on_terminal(
            argv,
            cwd=context.workspace.root,
            environment=context.environment,
            keys=keys,
            screen=screen,
            keep_bytes=_KEEP_BYTES,
            typed_ahead=typed_ahead,
        )
    except ProcessCancelled as cut:
        raise ToolCancelled(_result(cut.outcome, command, 0, context)) from None
    except OSError as error:
        return failed(f"the shell could not be started: {error.strerror or error}")
    finally:
        if script is not None:
            script.unlink(missing_ok=True)
    return _result(outcome, command, 0, context)


def quiet(environment: Mapping[str, str]) -> dict[str, str]:
    return {**{name: value for name, value in environment.items() if name not in _LOUD}, **QUIET}


def shell_line(command: str, context: ToolContext) -> tuple[list[str], Path | None]:
    """The argument vector, and the script file if the command is too long for one argument."""
    shell = find_program("bash", context.environment.get("PATH"), context.workspace.root) or "/bin/sh"
    text = os.fsencode(command)
    if len(text) <= _LONGEST_ARGUMENT:
        return [shell, "-c", command], None
    make_private(context.outputs)
    script = context.outputs / f"script-{time.time_ns():x}.sh"
    script.write_bytes(text)
    return [shell, str(script)], script


def _result(outcome: ProcessOutcome, command: str, timeout_ms: int, context: ToolContext) -> ToolResult:
    out, err = outcome.out.plain(), outcome.err.plain()
    file = outcome.spilled
    if file is not None and out.fits(FOR_MODEL) and err.fits(FOR_MODEL) and out.size + err.size <= FOR_MODEL:
        file.unlink(missing_ok=True)  # it was long for its escape sequences alone
        file = None
    where = _where(file, outcome, context)
    stdout, stderr = cut_pair(out, err, FOR_MODEL, where)
    meta: dict[str, Any] = {"exit_code": outcome.exit_code, "stdout": stdout, "stderr": stderr}
    meta |= {"truncated": file is not None or outcome.truncated, "duration_ms": outcome.duration_ms}
    if file is not None:
        clean_file(file)
        meta["output_file"] = str(file)
    if outcome.cancelled:  # it has no exit code of its own
        del meta["exit_code"]
        meta["cancelled"] = True
    model = _output_text(*cut_pair(out.folded(), err.folded(), FOR_MODEL, where))
    key = "tool.exit_late" if outcome.timed_out else "tool.exit"
    # Of a truncated private key neither half is recognised.
    whole = "\n".join((out.head, out.tail, err.head, err.tail))
    return summed_up(
        Text(key, code=outcome.exit_code),
        _for_model(outcome, model or "(no output)", command, timeout_ms).rstrip("\n"),
        ok=outcome.exit_code == 0 and not outcome.cancelled,
        # As it was printed: the screen shows escape sequences, and obeys none.
        detail=_output_text(*cut_pair(outcome.out, outcome.err, FOR_PERSON)),
        detail_kind="output",
        meta=meta,
        around=whole if meta["truncated"] and PRIVATE_KEY_MARKER in whole else "",
    )


def _where(file: Path | None, outcome: ProcessOutcome, context: ToolContext) -> str:
    if file is None:
        return ""
    total = sum(s.size + s.dropped[0] for s in (outcome.out, outcome.err))
    limit = context.limits.output_limit_bytes
    return f"; all of it: {file}" if total <= limit else f"; the first {limit} bytes: {file}"


def _for_model(outcome: ProcessOutcome, output: str, command: str, timeout_ms: int) -> str:
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
    if not outcome.exit_code and output.startswith(("error:", "denied:")):  # the program's words, not ours
        text = f"exit code 0\n{output}"
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
    """Whether a line starts a background process without waiting for it: a heuristic for a hint."""
    bare = _QUOTED.sub("''", command)
    return _AMPERSAND.search(bare) is not None and _WAITS.search(bare) is None


def _output_text(stdout: str, stderr: str) -> str:
    parts = [stdout.rstrip("\n")] if stdout.strip("\n") else []
    if stderr.strip("\n"):
        parts.append("[stderr]\n" + stderr.strip("\n") if parts else stderr.rstrip("\n"))
    return "\n".join(parts)


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
        Text("tool.job_started", id=job.id),
        shown,
        detail=output,
        detail_kind="output",
        meta={**meta, "job_id": job.id, **({"output_file": str(file)} if file else {})},
    )


def _ended_at_once(job: BackgroundJob, output: str, meta: dict[str, Any]) -> ToolResult:
    code = job.exit_code or 0
    meta |= {"exit_code": code, "stdout": output, "stderr": "", "truncated": False}
    meta["duration_ms"] = round(job.seconds * 1000)
    head = f"error: exit code {code}\n" if code else ""
    return summed_up(
        Text("tool.exit", code=code),
        f"{head}[It ended at once, so there is no job.]\n{output}".rstrip("\n"),
        ok=code == 0,
        detail=output,
        detail_kind="output",
        meta=meta,
    )
