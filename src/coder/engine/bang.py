"""`!command`: the person's own shell, with no policy, no approval and no model."""

from __future__ import annotations

import asyncio
import time
from copy import copy
from typing import Any

from coder.engine.session import Session
from coder.protocol.events import CommandDone, ToolCallChanged, ToolOutput
from coder.protocol.messages import Message
from coder.tools.base import ToolResult

EMPTY = "command mode error: empty command after '!'"


async def run_bang_command(session: Session, raw: str, command: str) -> CommandDone:
    """Run it in the workspace; what it printed becomes part of the conversation in a fixed form."""
    desk = session.desk
    if not command:
        return CommandDone(command=raw, text=EMPTY, ok=False, data={"usage": True})
    call_id = f"bang_{time.time_ns():x}"
    desk.emit(ToolCallChanged(call_id=call_id, tool="!", state="executing", argument=command))
    printed: list[str] = []

    def on_output(text: str) -> None:
        printed.append(text)
        desk.emit(ToolOutput(call_id=call_id, text=text))

    try:
        context = copy(session.context)
        context.wrap_command = list  # the person's own shell: no sandbox
        result = await desk.tools["bash"].run({"command": command}, context, on_output)
    except asyncio.CancelledError:
        _keep(
            session, raw, command, f"command: {command}\ncancelled\nstdout:\n{''.join(printed)}".rstrip(), {}
        )
        raise
    text = as_text(command, result)
    _keep(session, raw, command, text, result.meta)
    return CommandDone(command=raw, text=text, data={"kind": "bang", **result.meta})


def _keep(session: Session, raw: str, command: str, text: str, fields: dict[str, Any]) -> None:
    # The person has seen it as it is; the model and the record get it as everything else.
    text = session.redactor.redact(text)
    meta = session.redactor.redact_all({"kind": "bang", "input": raw, "command": command, **fields})
    session.log.append("command", text, role="user", meta=meta)
    session.conversation.append(Message(role="user", content=text))


def as_text(command: str, result: ToolResult) -> str:
    """Command, exit code, stdout, stderr: always all four, always in this order."""
    if "exit_code" not in result.meta:
        return f"command: {command}\n{result.for_model}"
    stdout, stderr = result.meta["stdout"].rstrip("\n"), result.meta["stderr"].rstrip("\n")
    lines = [
        f"command: {command}",
        f"exit_code: {result.meta['exit_code']}",
        "stdout:",
        stdout,
        "stderr:",
        stderr,
    ]
    if "output_file" in result.meta:
        lines.append(f"[output was cut; more of it is in {result.meta['output_file']}]")
    return "\n".join(line for line in lines if line)
