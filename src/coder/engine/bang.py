"""`!command`: the person's own shell, with no policy, no approval and no model."""

from __future__ import annotations

import time
from copy import copy
from typing import Any

from coder.engine.session import Session
from coder.protocol import entries
from coder.protocol.events import CommandDone, ToolCallChanged, ToolOutput
from coder.protocol.messages import Message
from coder.tools.bash import Bash
from coder.tools.shell import run_on_terminal
from coder.tools.tool import ToolCancelled, ToolContext, ToolResult

EMPTY = "command mode error: empty command after '!'"


async def run_bang_command(session: Session, raw: str, command: str) -> CommandDone:
    """Run it in the workspace; its output joins the conversation in a fixed form."""
    agent = session.agent
    if not command:
        return CommandDone(command=raw, text=EMPTY, ok=False, data={"usage": True})
    call_id = f"bang_{time.time_ns():x}"
    agent.emit(ToolCallChanged(call_id=call_id, tool="!", state="executing", argument=command))
    context = copy(session.context)
    context.wrap_command = list  # the person's own shell: no sandbox
    shown = {"kind": "bang", "on_terminal": True} if agent.terminal is not None else {"kind": "bang"}
    try:
        result = await _run(session, command, context, call_id)
    except ToolCancelled as cut:
        text = _fixed_form(command, "cancelled", cut.result)
        _keep(session, raw, command, text, cut.result.meta)
        agent.emit(CommandDone(command=raw, text=text, ok=False, data={**shown, **cut.result.meta}))
        raise
    text = as_text(command, result)
    _keep(session, raw, command, text, result.meta)
    return CommandDone(command=raw, text=text, data={**shown, **result.meta})


async def _run(session: Session, command: str, context: ToolContext, call_id: str) -> ToolResult:
    agent = session.agent
    if agent.terminal is None:
        emit = agent.emit
        return await Bash(person=True).run(
            {"command": command}, context, lambda text: emit(ToolOutput(call_id=call_id, text=text))
        )

    async with agent.terminal() as (keys, screen, typed_ahead):
        return await run_on_terminal(command, context, keys, screen, typed_ahead)


def _keep(session: Session, raw: str, command: str, text: str, fields: dict[str, Any]) -> None:
    # The person saw the raw output; model and record get it redacted.
    text = session.redactor.redact(text)
    hide = session.redactor.redact
    entry = entries.Command(kind="bang", input=hide(raw), command=hide(command))
    session.log.append(entry, text, role="user", more=session.redactor.redact_all(fields))
    session.conversation.append(Message(role="user", content=text))
    session.write_snapshot()


def as_text(command: str, result: ToolResult) -> str:
    """Command, exit code, stdout, stderr: always all four, always in this order."""
    if "exit_code" not in result.meta:
        return f"command: {command}\n{result.for_model}"
    return _fixed_form(command, f"exit_code: {result.meta['exit_code']}", result)


def _fixed_form(command: str, end: str, result: ToolResult) -> str:
    stdout, stderr = result.meta["stdout"].rstrip("\n"), result.meta["stderr"].rstrip("\n")
    lines = [f"command: {command}", end, "stdout:", stdout, "stderr:", stderr]
    return "\n".join(line for line in lines if line)
