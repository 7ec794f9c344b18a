"""The single entry for typed input and queued ops."""

from __future__ import annotations

from collections.abc import Sequence

from coder import engine
from coder.engine.agent import Agent
from coder.engine.complex_tasks import without_pastes
from coder.engine.custom_modes import instant_prompt, set_modes
from coder.engine.turn import run_turn
from coder.engine.turn_state import NOTHING_ASKED, TurnInput, Words
from coder.history.sinks import valid_text
from coder.protocol.entries import InstantMode
from coder.protocol.events import InputDone
from coder.protocol.messages import Image
from coder.protocol.modes import SetModeState, SetValue, TriggerInstantMode
from coder.protocol.ops import UserInput

Work = UserInput | SetModeState | TriggerInstantMode


async def run_op(agent: Agent, op: Work) -> InputDone:
    """Run one op to completion."""
    match op:
        case UserInput(text, attached, pasted, images):
            return await run_input(agent, text, attached, pasted, images)
        case SetModeState():
            return InputDone(ok=not (await set_modes(agent.session, op)).errors)
        case TriggerInstantMode():
            return await run_instant(agent, op)


async def run_instant(
    agent: Agent,
    op: TriggerInstantMode,
    leftover: str = "",
    attached: str = "",
    images: Sequence[Image] = (),
) -> InputDone:
    """Use an instant mode's prompt as the person's message; its model and effort apply to that turn. What the
    person said of it are the values that they gave."""
    executed, asks = await instant_prompt(agent.session, op, leftover)
    if executed.errors:
        agent.emit(engine.commands.mode_commands.refusal(op, executed))
        return InputDone(ok=False)
    given = " ".join(value.value for value in op.variables.values() if isinstance(value, SetValue))
    instant = InstantMode(mode_id=executed.mode_id, values=executed.values)
    words = Words(typed=given, said=given)
    turn = await run_turn(
        agent.session, TurnInput(executed.rendered_prompt, asks, attached, words, instant, images)
    )
    return InputDone(ok=turn.status == "ok", refused=turn.refused)


async def run_input(
    agent: Agent, text: str, attached: str = "", pasted: Sequence[str] = (), images: Sequence[Image] = ()
) -> InputDone:
    """`!` is the person's shell, `/` a command or a custom mode, anything else a turn."""
    # Lone surrogates would fail in the HTTP client and the tokenizer.
    text, attached = valid_text(text).strip(), valid_text(attached).strip()
    if text.startswith("!"):
        done = await engine.bang.run_bang_command(agent.session, text, text[1:].strip())
        agent.emit(done)
        return InputDone(ok=done.ok)
    if text.startswith("/") and "/" not in text.split(maxsplit=1)[0][1:]:  # `/home/me/x` is a path
        answer = await engine.commands.table.run_slash_command(agent, text)
        if isinstance(answer, engine.commands.mode_commands.InstantLine):
            return await run_instant(agent, answer.op, answer.leftover, attached, images)
        if isinstance(answer, engine.commands.mode_commands.Prompt):
            words, instant = Words(answer.said, answer.said), answer.instant
            turn = await run_turn(
                agent.session, TurnInput(answer.text, NOTHING_ASKED, attached, words, instant, images)
            )
            return InputDone(ok=turn.status == "ok", refused=turn.refused)
        agent.emit(answer)
        if not (attached and answer.ok and "mode_id" in answer.data):
            return InputDone(ok=answer.ok, exit=bool(answer.data.get("exit")))
        text = ""  # the mode is active: the attachment is the message
    if not (text or attached or images):
        return InputDone()
    typed = without_pastes(text, [valid_text(piece).strip() for piece in pasted])
    words = Words(typed=typed, said=typed or text or attached)
    turn = await run_turn(agent.session, TurnInput(text, attached=attached, words=words, images=images))
    return InputDone(ok=turn.status == "ok", refused=turn.refused)
