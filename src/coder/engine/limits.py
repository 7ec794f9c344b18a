"""What may stop a turn before its next step, and what fits into the context window.

A guard is a function that returns why the turn must stop, or None; a new one is a new line in `GUARDS`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from coder import engine
from coder.base import process
from coder.base.files import make_private, write_atomically
from coder.context.conversation import message_bytes, message_tokens
from coder.engine.session import Session
from coder.engine.turn_state import Turn
from coder.protocol import entries
from coder.protocol.events import Failed, LoopDetected, MaxSessionTurns, Notice, TurnStatus
from coder.protocol.messages import Image, Message, head_length
from coder.texts import Text
from coder.tools.tool import ToolResult

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


_RESULTS_SHARE = 0.75  # of the limit, for head and newest results; summary and answer need the rest
_SHORTEST = 200  # tokens that each result gets at least


def needs_compaction(session: Session) -> bool:
    """Whether the prompt has passed the compaction threshold."""
    settings = session.agent.config.compaction
    threshold = settings.threshold * session.agent.chosen.window
    # Always retry at the hard limit: the request could not be sent otherwise.
    floor = min(max(threshold, session.compactions.floor), session.agent.prompt_limit)
    return settings.auto and session.conversation.exceeds(floor)


def too_long(session: Session, text: str, images: Sequence[Image] = ()) -> Text | None:
    """Why a message would not fit even alone, or None."""
    limit = session.agent.prompt_limit
    conversation = session.conversation
    message = Message(role="user", content=text, images=list(images))
    if conversation.bytes + message_bytes(message) <= limit:  # no text has more tokens than bytes
        return None
    head = conversation.messages[: head_length(conversation.messages)]
    fixed = conversation.fixed_tokens(head)
    if fixed >= limit:
        return Text("guard.fixed_too_long", count=fixed, limit=limit)
    count = fixed + message_tokens(conversation.counter, message)
    return Text("guard.message_too_long", count=count, limit=limit) if count > limit else None


def fitted(session: Session, result: ToolResult, waiting: int) -> ToolResult:
    """The result, truncated to head and tail where compaction could not make room. `waiting`: results of the
    same response still to come."""
    conversation = session.conversation
    limit = _RESULTS_SHARE * session.agent.prompt_limit
    message = Message(role="tool", content=result.for_model, images=list(result.images))
    if conversation.bytes + message_bytes(message) <= limit:
        return result
    count = conversation.counter.count
    size = message_tokens(conversation.counter, message)
    head = conversation.messages[: head_length(conversation.messages)]
    newest = conversation.messages[len(conversation.messages) - conversation.unanswered :]
    taken = conversation.fixed_tokens(head) + sum(message_tokens(conversation.counter, m) for m in newest)
    room = max(_SHORTEST, (limit - taken) / (waiting + 1))
    if size <= room:
        return result
    if result.images:
        text = f"{result.for_model}\n[no image is shown: the context window has no room for it]"
        return fitted(session, msgspec.structs.replace(result, for_model=text, images=()), waiting)
    kept = kept_whole(session, result.for_model)
    half = int(len(result.for_model) * (room - _SHORTEST / 4) / size) // 2
    cut = _ends(result.for_model, half, kept)
    while half > 1 and count(cut) > room:  # dense parts have more tokens per character
        half = half * 3 // 4
        cut = _ends(result.for_model, half, kept)
    return msgspec.structs.replace(result, for_model=cut)


def _ends(text: str, half: int, kept: str) -> str:
    head, tail = process.output.both_ends(text, half)
    left_out = len(text) - len(head) - len(tail)
    return (
        f"{head}\n[… {left_out} characters left out: the context window has no room for them{kept} …]\n{tail}"
    )


def kept_whole(session: Session, text: str) -> str:
    """Write a text to a file for the model; returns the reference, empty on failure."""
    path = session.context.outputs / f"result-{time.time_ns():x}.txt"
    try:
        make_private(path.parent)
        write_atomically(path, text.encode("utf-8", "replace"))
    except OSError:
        return ""
    return f"; all of it is in {path}, to be read in parts"
