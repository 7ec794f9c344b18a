"""What stands around a command that the model runs: the sandbox it runs in, and the memory that lets `/undo`
take back what it did to files. The person's own `!` has neither.

Where the sandbox stopped a command, that is said, and a person may let it run once more without: each time by
an answer of theirs, which nothing else stands in for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from coder.engine.approval import ask_person, somebody_to_ask
from coder.engine.desk import Desk
from coder.engine.session import Session
from coder.policy.sandbox import Sandbox, SandboxLevel, probe
from coder.policy.verdict import Ruling
from coder.protocol.events import Notice
from coder.protocol.messages import ToolCall
from coder.record.shell_undo import ShellChanges, ShellUndo
from coder.texts import Phrase
from coder.tools.base import Tool, ToolResult, failed

_NAMED = 5  # paths that a notice spells out

Printed = Callable[[str], None]


async def run_command(
    session: Session, call: ToolCall, args: Mapping[str, Any], on_output: Printed, *, read_only: bool
) -> ToolResult:
    """A line of the model's, sheltered; and once more without the sandbox where that stopped it and a person
    lets it. `read_only`: known to change nothing, so undo need not look."""
    result = await run_sheltered(session, args, on_output, read_only=read_only)
    refused = _refusal(session, result)
    if refused is None:
        return result
    said = str(refused)
    stopped = msgspec.structs.replace(
        result,
        for_model=f"{result.for_model}\n[{said}]",
        summary=said,
        phrase=refused,
        meta={**result.meta, "sandbox_refused": said},
    )
    if not _may_leave(session):
        return stopped
    ruling = Ruling("ask", [refused, Phrase("sandbox.rerun")])
    no = await ask_person(session, call, session.desk.tools["bash"], args, ruling, {"sandbox": "none"})
    if no is not None:
        words = no.for_model.removeprefix("denied: ")
        return msgspec.structs.replace(
            stopped, for_model=f"{stopped.for_model}\n[Not run again without the sandbox: {words}.]"
        )
    again = await run_sheltered(session, args, on_output, read_only=False, outside=True)
    session.desk.emit(Notice(session.desk.say("shell_undo.outside")))
    note = f"[{said} The person let it run again without the sandbox: this is what came of that.]"
    return msgspec.structs.replace(again, for_model=f"{again.for_model}\n{note}")


def _may_leave(session: Session) -> bool:
    """Only a person's own word leads out, and never out of plan mode or a sandbox that is required."""
    desk = session.desk
    return somebody_to_ask(session) and desk.mode != "plan" and desk.config.sandbox.mode != "require"


async def run_sheltered(
    session: Session,
    args: Mapping[str, Any],
    on_output: Printed,
    *,
    read_only: bool,
    outside: bool = False,
) -> ToolResult:
    """The `bash` tool, inside. `outside`: without the sandbox, but covered by undo all the same."""
    sandbox = await _sandbox(session, outside=outside)
    if isinstance(sandbox, Phrase):
        return failed(str(sandbox), sandbox)
    context = copy(session.context)
    context.wrap_command = list if sandbox is None else _wrapping(sandbox, str(args["command"]))
    run = partial(session.desk.tools["bash"].run, args, context, on_output)
    result = await (run() if read_only else _covered(session, str(args["command"]), sandbox, run))
    if "exit_code" not in result.meta:
        return result
    rung = "none" if sandbox is None else sandbox.level.rung
    return msgspec.structs.replace(result, meta={**result.meta, "sandbox": rung})


async def run_server_tool(
    session: Session, tool: Tool, args: Mapping[str, Any], on_output: Printed
) -> ToolResult:
    """A tool of an MCP server. Where we started that, it is in a sandbox already, and `/undo` covers it."""
    from coder.mcp.tools import McpTool

    run = partial(tool.run, args, session.context, on_output)
    if not (isinstance(tool, McpTool) and tool.covered):
        return await run()
    sandbox = await _sandbox(session, outside=False)
    label = f"{tool.spec.name} {tool.argument(args)}"
    return await _covered(session, label, sandbox if isinstance(sandbox, Sandbox) else None, run)


async def _covered(
    session: Session, label: str, sandbox: Sandbox | None, run: Callable[[], Awaitable[ToolResult]]
) -> ToolResult:
    """Run something that may change files, with the tree looked at before and after."""
    undo = undo_of(session)
    await _look(undo, label)
    try:
        absent = [] if sandbox is None else sandbox.places().absent
        if sandbox is not None:
            sandbox.look(undo.repositories())
    except BaseException:
        undo.not_run()
        raise
    try:
        return await run()
    finally:
        try:
            _tell(session, await asyncio.shield(asyncio.to_thread(_after, undo)))
        finally:  # whatever else is cancelled
            if sandbox is not None:
                _settle(session, sandbox, absent, undo.repositories())


def _settle(session: Session, sandbox: Sandbox, absent: list[str], repositories: list[str]) -> None:
    """Nothing that a command left may steer git, outside the sandbox, without being seen."""
    _warn(session, "sandbox.planted", sandbox.planted(absent))
    settled = sandbox.settle(repositories)
    _warn(session, "sandbox.put_back", settled.put_back)
    _warn(session, "sandbox.left", settled.left)


def _warn(session: Session, key: str, files: list[str]) -> None:
    if files:
        shown = ", ".join(map(session.desk.workspace.show, map(Path, files[:_NAMED])))
        session.desk.emit(Notice(session.desk.say(key, files=shown), "warning"))


def _wrapping(sandbox: Sandbox, line: str) -> Callable[[list[str]], list[str]]:
    if sandbox.plan or "git" not in line:
        return sandbox.wrap
    from coder.policy.git_settings import may_change_settings

    return partial(sandbox.wrap, git_settings=may_change_settings(line, sandbox.workspace))


async def _look(undo: ShellUndo, command: str) -> None:
    looking = asyncio.ensure_future(asyncio.to_thread(undo.before, command))
    try:
        await asyncio.shield(looking)
    except asyncio.CancelledError:  # the first look may take a second; nobody waits for it then
        loop = asyncio.get_running_loop()
        looking.add_done_callback(lambda _looked: loop.run_in_executor(None, undo.not_run))  # it takes locks
        raise


def _after(undo: ShellUndo) -> ShellChanges:
    try:
        return undo.after()
    except OSError:  # the journal cannot be written: better said than lost silently
        return ShellChanges(partial=True)


def undo_of(session: Session) -> ShellUndo:
    if session.shell_undo is None:
        session.shell_undo = ShellUndo(session.desk.root, session.desk.home, session.undo)
    return session.shell_undo


def _tell(session: Session, changes: ShellChanges) -> None:
    desk = session.desk
    if changes.uncovered:
        shown = ", ".join(changes.uncovered[:_NAMED])
        desk.emit(Notice(desk.say("shell_undo.uncovered", files=shown), "warning"))
    if changes.partial and not session.told_partial_undo:
        session.told_partial_undo = True
        desk.emit(Notice(desk.say("shell_undo.partial"), "warning"))
    if changes.git:
        desk.emit(Notice(desk.say("shell_undo.git")))


# the sandbox


async def _sandbox(session: Session, *, outside: bool) -> Sandbox | Phrase | None:
    """For the operating mode; None where none is wanted, a sentence where one is required and there is none.
    Outside nothing is restricted, but what a command leaves behind is ended all the same."""
    desk = session.desk
    settings = desk.config.sandbox
    if outside:
        return Sandbox(SandboxLevel(), desk.root, desk.home, environment=desk.environment)
    if settings.mode == "off":
        return None
    level = await sandbox_level(desk)
    if level.rung == "none" and settings.mode == "require":
        return Phrase("sandbox.required", reason=level.reason or "-")
    plan = desk.mode == "plan"
    if session.sandbox is None or session.sandbox.plan != plan:
        session.sandbox = Sandbox(
            level,
            desk.root,
            desk.home,
            writable=settings.writable,
            network=settings.network,
            plan=plan,
            environment=desk.environment,
        )
    return session.sandbox


async def sandbox_level(desk: Desk) -> SandboxLevel:
    """Tried out once a machine and kept; said at the first use."""
    async with desk.trying_sandbox:  # several may want it at once, and it is said once
        if desk.sandbox_level is not None:
            return desk.sandbox_level
        desk.sandbox_level = await asyncio.to_thread(probe, desk.home, desk.environment.get("PATH"))
        described = desk.sandbox_level.describe().text(desk.texts)
        desk.emit(Notice(desk.say("sandbox.first_use", level=described)))
    return desk.sandbox_level


def sandbox_text(session: Session) -> str:
    """For `/status`: what is known so far, without trying anything out."""
    desk = session.desk
    if desk.config.sandbox.mode == "off":
        return desk.say("sandbox.off")
    if desk.sandbox_level is None:
        return desk.say("sandbox.untried")
    return desk.sandbox_level.describe().text(desk.texts)


def _refusal(session: Session, result: ToolResult) -> Phrase | None:
    """Why the sandbox made a command fail; None where it did not."""
    if session.sandbox is None or result.ok or "exit_code" not in result.meta:
        return None
    return session.sandbox.explain_refusal(_Ended(result))


class _Ended:
    """A bash result in the form that the sandbox asks about."""

    def __init__(self, result: ToolResult) -> None:
        self.exit_code = int(result.meta["exit_code"])
        self.stdout = str(result.meta["stdout"])
        self.stderr = str(result.meta["stderr"])
