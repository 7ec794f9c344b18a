"""Circuit breakers that may stop a turn before its next step: functions that return a reason, or None.

Limits, budget and loop detection; a new one is a new line in `GUARDS`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from coder import engine
from coder.engine.session import Session
from coder.engine.turn_state import Turn
from coder.protocol import entries
from coder.protocol.events import Failed, LoopDetected, MaxSessionTurns, Notice, TurnStatus
from coder.texts import Text

Stop = tuple[TurnStatus, Text]
Guard = Callable[[Session, Turn], Awaitable[Stop | None]]

LOOP_NOTE = (
    "You seem to be going in circles: {finding}. Do not repeat it. Say what you know, why it does not work, "
    "and try something else; if nothing is left to try, say so and stop."
)


def session_turns(session: Session, turn: Turn) -> Stop | None:
    """Checked once, before the first model call of a turn."""
    limit = session.agent.config.runtime.max_session_turns
    if limit < 0 or turn.number <= limit:
        return None
    session.agent.emit(MaxSessionTurns(limit=limit))
    return stopped(session, "error", "max_session_turns", Text("guard.turns", limit=limit))


def stopped(session: Session, status: TurnStatus, code: str, why: Text) -> Stop:
    session.agent.emit(Failed(why, code=code))
    return status, why


async def step_limit(session: Session, turn: Turn) -> Stop | None:
    limit = session.agent.config.runtime.max_steps
    if turn.steps < limit:
        return None
    return stopped(session, "max_steps", "max_steps", Text("guard.steps", limit=limit))


async def loop(session: Session, turn: Turn) -> Stop | None:
    """First a note to the model; then a person is asked, or the turn ends."""
    finding = turn.loops.finding
    if finding is None or not session.loop_guard:
        return None
    agent = session.agent
    turn.loops.strikes += 1
    session.log.append(entries.Loop(strike=turn.loops.strikes), str(finding))
    agent.emit(LoopDetected(finding))
    turn.loops.reset()
    if turn.loops.strikes == 1:
        session.history.add_note(LOOP_NOTE.format(finding=finding), "loop")
        return None
    if agent.can_ask:
        with turn.busy(Text("stopped.question")):
            answer = await engine.approval.ask_to_go_on(
                session, [Text("guard.loop_question", finding=finding)]
            )
        if answer != "no":
            turn.loops.strikes = 0
            if answer == "always":
                session.loop_guard = False
                session.log.append(entries.State(loop_guard=False))
            return None
    return stopped(session, "error", "loop", Text("guard.loop", finding=finding))


async def prompt_tokens(session: Session, turn: Turn) -> Stop | None:
    """Count before sending: too long prompts fail here, not at the provider."""
    agent = session.agent
    limits = agent.limits
    maximum = agent.prompt_limit
    if session.conversation.exceeds(maximum):
        count = session.conversation.tokens()
        why = Text("guard.prompt_limit", count=count, limit=maximum)
        return stopped(session, "prompt_limit", "prompt_limit", why)
    if limits.warning and not turn.warned_of_size and session.conversation.exceeds(limits.warning):
        turn.warned_of_size = True
        count = session.conversation.tokens()
        text = Text("guard.prompt_warning", count=count, limit=limits.warning)
        agent.emit(Notice(text, "warning"))
    return None


async def budget(session: Session, turn: Turn) -> Stop | None:
    """Stop before the request that would exceed the limit."""
    agent, money = session.agent, session.meter.budget
    if money.limit is None:
        return None
    if money.price_of(turn.model) is None and turn.model not in money.told_of:
        money.told_of.add(turn.model)
        agent.emit(Notice(Text("budget.no_price", model=turn.model), "warning"))
    if money.would_pass(turn.model, session.meter.prompt_size()):
        return stopped(session, "error", "budget", Text("budget.reached", **money.shown()))
    if money.warning_due():
        agent.emit(Notice(Text("budget.near", **money.shown()), "warning"))
    return None


async def hook(session: Session, turn: Turn) -> Stop | None:
    """A hook said that the turn must not continue."""
    if turn.stopped_by_hook is None:
        return None
    return stopped(session, "error", "hook", Text("hooks.stopped", reason=turn.stopped_by_hook))


GUARDS: tuple[Guard, ...] = (hook, step_limit, loop, prompt_tokens, budget)
