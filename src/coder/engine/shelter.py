"""What stands around a command that the model runs: the sandbox it runs in, and the memory that lets `/undo`
take back what it did to files. The person's own `!` has neither."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from coder.engine.session import Session
from coder.policy.sandbox import Sandbox, SandboxLevel, probe
from coder.protocol.events import Notice
from coder.record.shell_undo import ShellChanges, ShellUndo
from coder.tools.base import ToolResult, failed

_NAMED = 5  # paths that a notice spells out


async def run_sheltered(
    session: Session, args: Mapping[str, Any], on_output: Callable[[str], None], *, read_only: bool
) -> ToolResult:
    """The `bash` tool, inside. `read_only`: known to change nothing, so undo need not look."""
    problem = await _enter(session)
    if problem:
        return failed(problem)
    tool = session.desk.tools["bash"]
    if read_only:
        return await tool.run(args, session.context, on_output)
    undo = _undo_of(session)
    await asyncio.to_thread(undo.before, str(args["command"]))
    try:
        return await tool.run(args, session.context, on_output)
    finally:
        _tell(session, await asyncio.shield(asyncio.to_thread(_after, undo)))


def _after(undo: ShellUndo) -> ShellChanges:
    try:
        return undo.after()
    except OSError:  # the journal cannot be written: better said than lost silently
        return ShellChanges(partial=True)


def _undo_of(session: Session) -> ShellUndo:
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


async def _enter(session: Session) -> str:
    """Set up the sandbox for the operating mode; a sentence where one is required and there is none."""
    desk = session.desk
    settings = desk.config.sandbox
    if settings.mode == "off":
        session.context.wrap_command = list
        return ""
    level = await sandbox_level(session)
    if level.rung == "none" and settings.mode == "require":
        return str(desk.say("sandbox.required", reason=level.reason or "-"))
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
        session.context.wrap_command = session.sandbox.wrap
    return ""


async def sandbox_level(session: Session) -> SandboxLevel:
    """Tried out once a machine and kept; said at the first use."""
    desk = session.desk
    if desk.sandbox_level is None:
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


def refusal_text(session: Session, result: ToolResult) -> str:
    """Why the sandbox made a command fail, for the person and the model; empty where it did not."""
    if session.sandbox is None or result.ok or "exit_code" not in result.meta:
        return ""
    phrase = session.sandbox.explain_refusal(_Ended(result))
    return phrase.text(session.desk.texts) if phrase is not None else ""


class _Ended:
    """A bash result in the form that the sandbox asks about."""

    def __init__(self, result: ToolResult) -> None:
        self.exit_code = int(result.meta["exit_code"])
        self.stdout = str(result.meta["stdout"])
        self.stderr = str(result.meta["stderr"])
