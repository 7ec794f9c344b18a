"""The one entry for whatever a person types (seed 001 §1, §2)."""

from __future__ import annotations

from coder.engine.bang import run_bang_command
from coder.engine.desk import Desk
from coder.engine.turn import run_turn
from coder.protocol.events import InputDone
from coder.record.files import valid_text


async def run_input(desk: Desk, text: str) -> InputDone:
    """`!` is the person's shell, `/` a command, anything else a turn."""
    text = valid_text(text).strip()
    if text.startswith("!"):
        done = await run_bang_command(desk.session, text, text[1:].strip())
        desk.emit(done)
        return InputDone(ok=done.ok)
    if text.startswith("/"):
        from coder.engine.commands import run_slash_command

        name, _, args = text[1:].partition(" ")
        done = await run_slash_command(desk, text, name, args.strip())
        desk.emit(done)
        return InputDone(ok=done.ok, exit=bool(done.data.get("exit")))
    if not text:
        return InputDone()
    turn = await run_turn(desk.session, text)
    return InputDone(ok=turn.status == "ok")
