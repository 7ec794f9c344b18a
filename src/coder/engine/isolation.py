"""Run the model's commands in the sandbox and with undo. The person's own `!` has neither.

Defence in depth: a line that runs without approval because it was judged read-only runs in the sandbox of
`plan`, so a wrong verdict costs a failed command and no file.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from coder import engine
from coder.base.files import write_atomically
from coder.base.process.programs import PROGRAMS, path_with_ripgrep
from coder.engine.agent import Place
from coder.engine.approval import LEAVE, environment_for, leaves_sandbox, sets_git, verdict_on
from coder.engine.session import Session
from coder.engine.verify.attempts import saw_shell_changes
from coder.extend import mcp
from coder.history.undo.shell_changes import ShellChanges, ShellUndo
from coder.policy.check_lines import checks_in, failing_parts, found_nothing, in_last_pipeline
from coder.policy.check_programs import OFFLINE
from coder.policy.programs.command_rules import HARMLESS
from coder.policy.sandbox.backends import LongSandbox, Sandbox, SandboxLevel, probe
from coder.policy.sandbox.places import LineAccess
from coder.policy.verification import with_project_tools
from coder.protocol.events import AnyEvent, Notice
from coder.texts import Text
from coder.tools.tool import Approved, Tool, ToolContext, ToolResult, failed

if TYPE_CHECKING:
    from coder.config.schema import SandboxBackend
    from coder.policy.network.door import Door
    from coder.policy.sandbox.grants import Grants
    from coder.policy.shell.verdict import ShellVerdict

_SAID = "sandbox-explained"  # in $CODER_HOME: the description that was shown last
_NAMED = 5  # paths that a notice spells out
_RECORDED = 200  # paths in the record of a command

_AGAIN = (
    "If that is why it failed, send exactly the same line once more: it is then judged as a command that "
    "writes, and put to the person where the policy asks."
)

_ONE_COMMAND = re.compile(r"[a-z][\w .,/:=+@-]*")
_LEAVABLE = tuple(f"sandbox.note.{kind}" for kind in ("write", "network", "limited", "check"))
_CHANGED = "the repositories that this line looks at changed meanwhile; send it again"

Printed = Callable[[str], None]
_T = TypeVar("_T")


async def run_command(
    session: Session,
    tool: Tool,
    args: Mapping[str, Any],
    on_output: Printed,
    *,
    read_only: bool = False,
    check: bool = False,
    plan: bool = False,
    call_id: str = "",
) -> ToolResult:
    """Run a line of the model in the sandbox. `read_only`: it runs without approval, for that reason.
    `check`: it runs without approval because it is a check. `plan`: it may run in the sandbox of plan mode
    alone."""
    line = tool.command(args)
    if leaves_sandbox(session, args):
        return await _run_outside(session, tool, args, on_output)
    sandbox = await _sandbox(session, read_only=read_only or plan, check=check)
    if isinstance(sandbox, Text):
        return failed(str(sandbox), sandbox)
    context = _context(session, line, read_only=read_only, check=check)
    if context is None:
        return failed(_CHANGED)
    approved = session.context.approved
    by_person = approved is not None and approved.person and sandbox is not None and not sandbox.plan
    settings = by_person and "git" in line and sets_git(session, line)
    try:
        grants = _grants(session, sandbox, approved) if by_person else None
    except OSError as error:
        return failed(f"the command was not run: {error.strerror or error}")
    door = await _door(session, sandbox, line, call_id, check=check)
    held = sandbox is not None and sandbox.plan and sandbox.level.backend != "none"
    access = LineAccess(
        tool_caches=not read_only,
        git_settings=settings,
        door=door,
        caches=not held and _may_use_caches(session, line),
    )
    if grants is not None and approved is not None and approved.verdict is not None:
        access = msgspec.structs.replace(
            access,
            granted=grants.opened,
            staged=list(grants.staged.values()),
            plain=approved.verdict.plain,
        )
    context.wrap_command = list if sandbox is None else partial(sandbox.wrap, access=access)
    run = partial(tool.run, args, context, on_output)
    # A command that cannot write changed nothing: a change meanwhile is the person's.
    changed: list[str] = []
    problems: list[str] = []
    try:
        if held:
            result = await run()
        else:
            result = await _covered(session, line, sandbox, run, changed, git_settings=settings)
    finally:
        await _closed(door)
        if grants is not None:
            problems = grants.close()
    result = _with_changes(result, changed)
    if problems:
        result = msgspec.structs.replace(
            result, ok=False, for_model=f"error: {'; '.join(problems)}\n{result.for_model}"
        )
    if sandbox is not None and sandbox.unlayered and not session.reminders.unlayered:
        session.reminders.unlayered = True
        session.agent.emit(Notice(Text("sandbox.unlayered", paths=", ".join(sandbox.unlayered)), "warning"))
    if "exit_code" not in result.meta:
        return result
    result = _with_parts(line, result)
    backend = "none" if sandbox is None else sandbox.level.backend
    result = msgspec.structs.replace(result, meta={**result.meta, "sandbox": backend})
    if sandbox is not None and not result.ok:
        result = _explained(session, sandbox, line, result, door, check=check)
    return _with_refusals(result, door)


async def _door(
    session: Session, sandbox: Sandbox | None, line: str, call_id: str, *, check: bool = False
) -> Door | None:
    """By which a command reaches the hosts that it may, where the network is limited to a list."""
    if sandbox is None or sandbox.plan or isinstance(session.agent.config.sandbox.network, bool):
        return None

    return await engine.network.door_for(session, sandbox.level, line, call_id, check=check)


async def _closed(door: Door | None) -> None:
    if door is not None:
        door.close()
        await door.settled()


def _with_refusals(result: ToolResult, door: Door | None) -> ToolResult:
    """Name what the command did not reach, by what coder itself has seen."""
    if door is None:
        return result
    told = list(door.refused.values())
    if door.bypassed:
        told.append(str(Text("sandbox.note.bypassed", addresses=", ".join(door.bypassed))))
    if not told:
        return result
    return msgspec.structs.replace(result, for_model=f"{result.for_model}\n[{' '.join(told)}]")


def _may_use_caches(session: Session, line: str) -> bool:
    """Whether it may run a package manager: mounting their caches takes as long as the rest of a sandbox."""
    if session.agent.mode == "yolo":  # lines are not parsed there
        return not (_ONE_COMMAND.fullmatch(line) and line.split()[0] in HARMLESS)
    verdict = verdict_on(session, line)
    return not (verdict.read_only or verdict.plain)


def _grants(session: Session, sandbox: Sandbox | None, approved: Approved | None) -> Grants | None:
    """What the person let the line write outside the workspace. Raises OSError."""
    if sandbox is None or approved is None or approved.verdict is None or not approved.verdict.outside:
        return None
    from coder.policy.sandbox.grants import Grants, refusal_to_open

    verdict: ShellVerdict = approved.verdict
    place = session.agent.place
    mounts = sandbox.level.backend == "bwrap"
    return Grants(
        verdict.outside,
        sandbox.places(),
        plain=verdict.plain,
        mounts=mounts,
        seen=approved.seen,
        state=sandbox.state if mounts else None,
        refused=lambda directory: refusal_to_open(directory, str(place.home), place.environment),
    )


async def _run_outside(
    session: Session, tool: Tool, args: Mapping[str, Any], on_output: Printed
) -> ToolResult:
    """Run a line that a person let out of the sandbox; `/undo` covers what it does to the workspace."""
    context = copy(session.context)
    # The launcher restricts nothing here, but no process outlives the command.
    context.wrap_command = _new_sandbox(session, SandboxLevel(), plan=False, kind=Sandbox).wrap
    run = partial(tool.run, args, context, on_output)
    changed: list[str] = []
    result = _with_changes(await _covered(session, tool.command(args), None, run, changed), changed)
    return msgspec.structs.replace(result, meta={**result.meta, "sandbox": "off"})


def _context(session: Session, line: str, *, read_only: bool, check: bool = False) -> ToolContext | None:
    """What a line runs with; None if it is not known to be read-only any more (TOCTOU)."""
    context = copy(session.context)
    if read_only:
        environment = environment_for(session, line)
        if environment is None:
            return None
        context.environment = environment
    elif scratch := session.agent.place.workspace.scratch:
        context.environment = {**context.environment, "TMPDIR": scratch}
    # A test runs the project's own code, which could run its tools as well; a linter does not.
    if check or (not read_only and any(run.kind == "tests" for run in checks_in(line, 0, ""))):
        context.environment = with_project_tools(line, session.agent.root, context.environment)
    if check:
        context.environment = {**context.environment, **OFFLINE}
    context.wants_statuses = bool(in_last_pipeline(line))
    path = path_with_ripgrep(
        context.environment.get("PATH", ""), session.agent.root, session.agent.place.home
    )
    context.environment = {**context.environment, "PATH": path}
    return context


def _with_parts(line: str, result: ToolResult) -> ToolResult:
    """Name the part of a pipeline that failed; a search that found nothing has not."""
    code, statuses = result.meta["exit_code"], result.meta.get("statuses", ())
    if code == 1 and not result.meta["stderr"] and found_nothing(line, statuses):
        told = result.for_model.partition("\n")[2]
        shown = "no match (exit code 1)" if told == "(no output)" else f"{told}\n[no match: exit code 1]"
        return msgspec.structs.replace(result, ok=True, for_model=shown)
    if parts := failing_parts(line, statuses):
        return msgspec.structs.replace(result, for_model=f"{result.for_model}\n[{parts}]")
    return result


def _explained(
    session: Session,
    sandbox: Sandbox,
    line: str,
    result: ToolResult,
    door: Door | None = None,
    *,
    check: bool = False,
) -> ToolResult:
    """Append the sandbox's rule where that may have caused the error. It is true whatever the command
    printed, which proves nothing."""
    # What a person approved was opened, whatever else failed.
    written = () if session.context.approved else (write.path for write in verdict_on(session, line).outside)
    note = sandbox.note(f"{result.meta['stdout']}\n{result.meta['stderr']}", written)
    if note is not None and note.key == "sandbox.note.network":
        limited = "sandbox.note.limited" if door is not None else note.key
        note = Text("sandbox.note.check" if check else limited)
    if note is None:
        return result
    told = str(note)
    if sandbox.plan and session.agent.mode != "plan":
        session.commands.needs_writing.add(line)
        told = f"{told} {_AGAIN}"
    elif not sandbox.plan and note.key in _LEAVABLE and session.agent.front.can_ask:
        told = f"{told} {LEAVE}"
    return msgspec.structs.replace(
        result, for_model=f"{result.for_model}\n[{told}]", phrase=note, summary=str(note)
    )


async def start_isolated(
    session: Session,
    tool: Tool,
    args: Mapping[str, Any],
    on_output: Printed,
    *,
    read_only: bool,
    check: bool = False,
    plan: bool = False,
    call_id: str = "",
) -> ToolResult:
    """Start a background command. Undo covers its start only, which is reported."""
    agent, command = session.agent, tool.command(args)
    outside = leaves_sandbox(session, args)
    found = None if outside else await _sandbox(session, read_only=read_only or plan)
    if isinstance(found, Text):
        return failed(str(found), found)
    # Where none is wanted it is still ended with us, whatever ends us.
    level = SandboxLevel() if found is None else found.level
    plan = plan or read_only or agent.mode == "plan"
    sandbox = _new_sandbox(session, level, plan=plan, check=check, kind=Sandbox if plan else LongSandbox)
    held = sandbox.plan and level.backend != "none"
    door = await _door(session, sandbox, command, call_id, check=check)  # the job holds it from its start on

    def wrap(argv: list[str]) -> list[str]:
        if level.backend in ("bwrap", "seatbelt") and not sandbox.plan:  # locks what steers git further down
            sandbox.look(undo_of(session).repositories())
        return sandbox.wrap(argv, LineAccess(door=door))

    context = _context(session, command, read_only=read_only, check=check)
    if context is None:
        return failed(_CHANGED)
    context.wrap_command = wrap
    run = partial(tool.run, args, context, on_output)
    result = await (run() if held else _covered(session, command, None, run))
    job = session.jobs.get(str(result.meta.get("job_id")))
    if job is None:
        await _closed(door)
        failed_inside = not result.ok and "exit_code" in result.meta
        return _explained(session, sandbox, command, result, door, check=check) if failed_inside else result
    job.owner = session.id
    session.jobs.show(job)
    if not held and not session.reminders.jobs_uncovered:
        session.reminders.jobs_uncovered = True
        agent.emit(Notice(Text("job.uncovered")))
    said = "" if held else f"{_JOB_LIMITS[level.backend]}/undo does not cover what it changes from now on."
    return msgspec.structs.replace(
        result,
        for_model=f"{result.for_model}\n[{said}]" if said else result.for_model,
        meta={**result.meta, "sandbox": level.backend if found is not None else "none"},
    )


# Nobody waits for a job's end, to put git's files back then: they are closed to it from the start.
_JOB_LIMITS = {
    "bwrap": "For a job .git is read-only. ",
    "landlock": "A job cannot write .git, nor make new files at the top of the workspace. ",
    "seatbelt": "For a job .git is read-only. ",
    "none": "",
}


def _new_sandbox(
    session: Session, level: SandboxLevel, *, plan: bool, kind: type[Sandbox], check: bool = False
) -> Sandbox:
    agent = session.agent
    settings = agent.config.sandbox
    return kind(
        level,
        agent.root,
        agent.place.home,
        writable=settings.writable,
        readable=[session.outputs, agent.place.home / PROGRAMS],
        network=settings.network is True and not check,  # the hosts of a list are reached by a door
        plan=plan,
        environment=agent.place.environment,
        records=[agent.place.store.history, agent.place.store.sessions],
        caches=True,
    )


async def run_server_tool(
    session: Session, tool: Tool, args: Mapping[str, Any], on_output: Printed
) -> ToolResult:
    """Run a tool of an MCP server. One that we started is sandboxed and covered by `/undo`."""
    run = partial(tool.run, args, session.context, on_output)
    if not (isinstance(tool, mcp.mcp_tools.McpTool) and tool.covered):
        return await run()
    sandbox = await _sandbox(session)
    label = f"{tool.spec.name} {tool.argument(args)}"
    changed: list[str] = []
    covered = _covered(session, label, sandbox if isinstance(sandbox, Sandbox) else None, run, changed)
    return _with_changes(await covered, changed)


async def run_program(
    session: Session,
    argv: list[str],
    run: Callable[[list[str]], Awaitable[_T]],
    *,
    sandboxed: bool,
    covered: str,
) -> _T | Text:
    """Run a hook's program. `covered`: the label under which `/undo` covers it; a sandboxed one that is not
    covered can write nothing. A phrase where a sandbox is required and unavailable."""
    sandbox = await _sandbox(session, read_only=not covered) if sandboxed else None
    if isinstance(sandbox, Text):
        return sandbox
    door = await _door(session, sandbox, covered, "")
    try:
        job = partial(run, argv if sandbox is None else sandbox.wrap(argv, LineAccess(door=door)))
        return await (_covered(session, covered, sandbox, job) if covered else job())
    finally:
        await _closed(door)


async def _covered(
    session: Session,
    label: str,
    sandbox: Sandbox | None,
    run: Callable[[], Awaitable[_T]],
    changed: list[str] | None = None,
    *,
    git_settings: bool = False,
) -> _T:
    """Run something that may change files, with the tree scanned before and after; the names are added to
    `changed`. `git_settings`: it may change the repository's settings."""
    undo = undo_of(session)
    await _look(undo, label)
    try:
        absent = [] if sandbox is None else sandbox.places().absent
        if sandbox is not None:
            sandbox.look(undo.repositories(), git_settings=git_settings)
    except BaseException:
        undo.not_run()
        raise
    try:
        return await run()
    finally:
        try:
            changes = await asyncio.shield(asyncio.to_thread(_after, undo))
            shown = map(session.agent.place.workspace.show, map(Path, changes.changed))
            seen = saw_shell_changes(session, label, shown)
            if changed is not None:
                changed += seen
            _tell(session, changes)
        finally:  # whatever else is cancelled
            if sandbox is not None:
                _settle(session, sandbox, absent, undo.repositories())


def _with_changes(result: ToolResult, changed: list[str]) -> ToolResult:
    """The record names what a command changed; undo's journal has all of it."""
    if not changed:
        return result
    return msgspec.structs.replace(result, meta={**result.meta, "changed": sorted(changed)[:_RECORDED]})


def _settle(session: Session, sandbox: Sandbox, absent: list[str], repositories: list[str]) -> None:
    """Put back and report files by which a command could make git run programs outside the sandbox."""
    _warn(session, "sandbox.planted", sandbox.planted(absent))
    settled = sandbox.settle(repositories)
    _warn(session, "sandbox.put_back", settled.put_back)
    _warn(session, "sandbox.left", settled.left)


def _warn(session: Session, key: str, files: list[str]) -> None:
    if files:
        shown = ", ".join(map(session.agent.place.workspace.show, map(Path, files[:_NAMED])))
        session.agent.emit(Notice(Text(key, files=shown), "warning"))


async def _look(undo: ShellUndo, command: str) -> None:
    looking = asyncio.ensure_future(asyncio.to_thread(undo.before, command))
    try:
        await asyncio.shield(looking)
    except asyncio.CancelledError:  # the first scan may take a second: do not wait
        loop = asyncio.get_running_loop()
        looking.add_done_callback(lambda _looked: loop.run_in_executor(None, undo.not_run))  # it takes locks
        raise


def _after(undo: ShellUndo) -> ShellChanges:
    try:
        return undo.after()
    except OSError:  # the journal cannot be written: report it
        return ShellChanges(partial=True)


def undo_of(session: Session) -> ShellUndo:
    if session.undo.shell is None:
        session.undo.shell = ShellUndo(session.agent.root, session.agent.place.home, session.undo.journal)
    return session.undo.shell


def _tell(session: Session, changes: ShellChanges) -> None:
    agent = session.agent
    if changes.uncovered:
        shown = ", ".join(changes.uncovered[:_NAMED])
        agent.emit(Notice(Text("shell_undo.uncovered", files=shown), "warning"))
    if changes.partial and not session.reminders.partial_undo:
        session.reminders.partial_undo = True
        agent.emit(Notice(Text("shell_undo.partial"), "warning"))
    if changes.git:
        agent.emit(Notice(Text("shell_undo.git")))


# the sandbox


async def _sandbox(
    session: Session, *, read_only: bool = False, check: bool = False
) -> Sandbox | Text | None:
    """None if disabled, a message where one is required and unavailable."""
    agent = session.agent
    settings = agent.config.sandbox
    if settings.mode == "off":
        return None
    level = await agent.sandbox.find()
    if level.backend == "none" and settings.mode == "require":
        return Text("sandbox.required", reason=level.reason or "-")
    plan = read_only or agent.mode == "plan"
    if (plan, check) not in session.commands.sandboxes:
        session.commands.sandboxes[plan, check] = _new_sandbox(
            session, level, plan=plan, check=check, kind=Sandbox
        )
    return session.commands.sandboxes[plan, check]


async def found_sandbox(
    place: Place, emit: Callable[[AnyEvent], None], backend: SandboxBackend = "auto"
) -> SandboxLevel:
    """Probed once per machine and cached; described once per machine, and in every session where there is
    none."""
    path = place.environment.get("PATH")
    level = await asyncio.to_thread(probe, place.home, path, place.workspace.root, backend)
    described = level.describe()
    if level.backend == "none":
        emit(Notice(Text("sandbox.first_none", reason=level.reason or "-"), "warning"))
    elif _is_news(place.home, str(described)):
        emit(Notice(Text("sandbox.first_use", level=described)))
    return level


def _is_news(home: Path, text: str) -> bool:
    """Whether this was not the last thing said about the sandbox on this machine; it is then remembered."""
    said = home / _SAID
    try:
        if said.is_file() and said.read_text(encoding="utf-8", errors="replace") == text:
            return False
        write_atomically(said, text.encode("utf-8"))
    except OSError:
        pass  # said again next time
    return True


def sandbox_text(session: Session) -> Text:
    """For `/status`: what is known so far, without probing."""
    agent = session.agent
    if agent.config.sandbox.mode == "off":
        return Text("sandbox.off")
    if agent.sandbox.level is None:
        return Text("sandbox.untried")
    return agent.sandbox.level.describe()
