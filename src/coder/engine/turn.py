"""One turn, from a message to its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from coder import engine
from coder.engine import turn_record
from coder.engine.complex_tasks import start_with_todos
from coder.engine.limits import GUARDS, Stop, needs_compaction, session_turns
from coder.engine.notes import rules_note, settle_sandbox, tell_changed_rules, tell_nested_instructions
from coder.engine.routing import choose_model
from coder.engine.session import Session
from coder.engine.setup import installed
from coder.engine.step import Answer, ask_model
from coder.engine.turn_state import Turn, TurnInput
from coder.history.sinks import HistoryError
from coder.models.model import CallReady, ModelError
from coder.protocol.events import Failed, Notice
from coder.protocol.history import INTERRUPTED
from coder.protocol.messages import tool_message
from coder.texts import Text


async def run_turn(session: Session, given: TurnInput) -> Turn:
    """Run a message to its answer. Whatever happens, the turn's end is recorded."""
    turn, stop = await turn_record.begin(session, given)
    await _run_and_finish(session, turn, _work(session, turn, stop))
    return turn


async def _work(session: Session, turn: Turn, stop: Stop | None) -> None:
    if stop := stop or session_turns(session, turn):
        turn.status, turn.reason = stop
        return
    await _gather_tools(session, turn)
    await choose_model(session, turn)
    await start_with_todos(session, turn)
    await _run_steps(session, turn)


async def _gather_tools(session: Session, turn: Turn) -> None:
    """Wait for the tools of installed packages and MCP servers."""
    agent = session.agent
    if agent.plugins is None:
        agent.plugins = await asyncio.to_thread(installed, agent.root)
        if agent.plugins:
            with turn.busy(Text("stopped.packages")):
                await engine.plugins.add_tools(session)
    if agent.mcp is not None:
        with turn.busy(Text("stopped.servers")):
            await engine.mcp_session.offer_tools(session)


async def _run_steps(session: Session, turn: Turn) -> None:
    """The loop: ask the model and run its calls until it answers without any."""
    while True:
        session.log.step = turn.steps
        await settle_sandbox(session)  # before the guards: what they find must hold until the request
        if needs_compaction(session):
            await engine.compact.compact_if_needed(session, turn)
        for guard in GUARDS:
            if stop := await guard(session, turn):
                turn.status, turn.reason = stop
                return
        tell_changed_rules(session)
        await turn_record.add_steering(session, turn)
        answer = await _ask(session, turn)
        if answer is None:
            continue
        turn.steps += 1
        if answer.calls:
            await engine.calls.run_calls(session, turn, answer.calls)
            tell_nested_instructions(session)
        elif answer.cut_by_loop:
            continue  # the loop guard decides
        elif not await _continues(session, turn, answer):
            return


async def _ask(session: Session, turn: Turn) -> Answer | None:
    """None if the prompt was too long and has been compacted."""
    try:
        return await ask_model(session, turn)
    except ModelError as error:
        if error.kind == "context" and await engine.compact.compact_after_overflow(session, turn):
            return None
        raise


async def _continues(session: Session, turn: Turn, answer: Answer) -> bool:
    """Whether the turn goes on after an answer without calls: it was truncated, a check failed, a hook wants
    more, or the person wrote meanwhile.
    """
    if await engine.continuation.wants_to_continue(session, turn, answer):
        return True
    if turn.edited and await engine.verify.attempts.verify_edits(session, turn):
        return True
    if session.agent.hooks is not None and await engine.hook_points.before_stop(session, turn):
        return True
    if not turn.steers:
        return False
    turn.earlier_answers, turn.unverified_answers = turn.answers(), []
    return True


async def _run_and_finish(session: Session, turn: Turn, work: Coroutine[Any, Any, None]) -> None:
    """Run the work and end the turn, however the work ends."""
    try:
        await work
    except asyncio.CancelledError:
        turn.status, turn.reason = "cancelled", cancelled(turn.doing)
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()  # the cancel was for this turn; its end must not be cut off
        _report_running_jobs(session)
    except ModelError as error:
        turn.status, turn.reason = ("prompt_limit" if error.kind == "context" else "error"), error.phrase
        session.agent.emit(Failed(error.phrase, code=error.kind))
    except HistoryError as error:
        turn.status, turn.reason = "error", error.phrase
        session.agent.emit(Failed(error.phrase, code="record"))
    except Exception as error:  # the engine reports it; here the turn is ended
        words = f"{type(error).__name__}: {error}"
        turn.status, turn.reason = "error", Text("fault.words", words=words)
        turn_record.end(session, turn)
        raise
    turn_record.end(session, turn)


def cancelled(doing: Sequence[str | Text]) -> Text:
    return Text("turn.cancelled", what=tuple(doing)) if doing else Text("turn.cancelled_idle")


def _report_running_jobs(session: Session) -> None:
    """A cancel ends the turn, not the session's background jobs."""
    if session.agent.parent is None and (running := session.jobs.running):  # not for a subagent as well
        names = ", ".join(f"{job.id} ({session.redactor.redact(job.command)})" for job in running)
        session.agent.emit(Notice(Text("job.still_running", jobs=names)))


async def continue_turn(session: Session) -> Turn | None:
    """Resume a turn whose last call waited for approval: ask again, then continue."""
    pending = session.pending
    if pending is None:
        return None
    session.pending = None
    state = pending.replay
    turn = Turn.taken_up(state.turn, pending.turn, session.id, pending.asks)
    turn_record.allow_subagents(session)
    session.turn = turn
    session.log.step = max(0, turn.steps - 1)
    session.reminders.rules = rules_note(session)
    waiting = state.pending_approval and state.pending_approval.call_id
    lost = [call for call in state.unanswered if call.id != waiting]

    async def work() -> None:
        session.history.record_interrupted(lost)
        for call in lost:
            session.conversation.append(tool_message(call, INTERRUPTED))
        await choose_model(session, turn, pending.turn.model)
        asked = [CallReady(call) for call in state.unanswered if call.id == waiting]
        await engine.calls.run_calls(session, turn, asked)
        await _run_steps(session, turn)

    await _run_and_finish(session, turn, work())
    return turn
