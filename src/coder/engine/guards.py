"""What may stop a turn before its next step. A guard is one function: the reason to stop, or None.

Limits, budgets and loop detection are all of this shape; a new one is a new line in `GUARDS`.
"""

from __future__ import annotations

from collections.abc import Callable

from coder.engine.session import Session, Turn
from coder.protocol.events import Failed, MaxSessionTurns, Notice, TurnStatus

Stop = tuple[TurnStatus, str]
Guard = Callable[[Session, Turn], Stop | None]


def step_limit(session: Session, turn: Turn) -> Stop | None:
    limit = session.desk.config.runtime.max_steps
    if turn.steps < limit:
        return None
    session.desk.emit(Failed(session.desk.say("guard.steps", limit=limit), code="max_steps"))
    return "max_steps", "step limit reached"


def session_turns(session: Session, turn: Turn) -> Stop | None:
    limit = session.desk.config.runtime.max_session_turns
    if limit < 0 or turn.number <= limit:
        return None
    session.desk.emit(MaxSessionTurns(limit=limit))
    text = session.desk.say("guard.turns", limit=limit)
    session.desk.emit(Failed(text, code="max_session_turns"))
    return "error", text


def prompt_tokens(session: Session, turn: Turn) -> Stop | None:
    """Counted before the request is sent (seed 004): too long is refused here, not by the provider."""
    desk = session.desk
    limits = desk.limits
    if limits.maximum and session.conversation.exceeds(limits.maximum):
        count = session.conversation.tokens()
        text = desk.say("guard.prompt_limit", count=count, limit=limits.maximum)
        desk.emit(Failed(text, code="prompt_limit"))
        return "prompt_limit", text
    if limits.warning and not turn.warned_of_size and session.conversation.exceeds(limits.warning):
        turn.warned_of_size = True
        count = session.conversation.tokens()
        text = desk.say("guard.prompt_warning", count=count, limit=limits.warning)
        desk.emit(Notice(text, "warning"))
    return None


GUARDS: tuple[Guard, ...] = (session_turns, step_limit, prompt_tokens)
