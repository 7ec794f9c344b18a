"""The end of a turn: its answer, evidence and cost are recorded and shown."""

from __future__ import annotations

import time

from coder import engine
from coder.engine.session import Session
from coder.engine.turn_state import Turn
from coder.history.sinks import HistoryError
from coder.protocol import entries
from coder.protocol.events import Evidence, Failed, Steered, TurnEnded
from coder.protocol.history import INTERRUPTED
from coder.protocol.messages import Tokens, tool_message


def end(session: Session, turn: Turn) -> None:
    """Record the end and write the snapshot."""
    agent = session.agent
    turn.accepts_steering = False
    for op in turn.steers:
        agent.emit(Steered(op.text, heard=False))
    _leave_no_call_open(session)
    verification = turn.checks.result()
    turn.answer = "\n\n".join(dict.fromkeys(filter(None, turn.answers())))
    evidence = _evidence(session, turn)
    if evidence is not None:
        session.checks.last_evidence = evidence, verification
    duration = round((time.monotonic() - turn.begun) * 1000)
    entry = entries.TurnEnd(
        status=turn.status,
        step_count=turn.steps,
        duration_ms=duration,
        tokens=Tokens.of(turn.usage),
        prompt_id=turn.prompt_id,
        verification=verification,
        evidence=evidence,
        finish_reason=turn.finish_reason,
        cost_usd=turn.cost or None,
        error_message=None if turn.reason is None else str(turn.reason),
        title=session.renamed,
    )
    try:
        if turn.status == "ok":
            session.log.append(entries.Final(tokens=entry.tokens), turn.answer)
        session.log.append(entry)
    except HistoryError as error:
        if turn.status != "error":
            agent.emit(Failed(error.phrase, code="record"))
        turn.status, turn.reason = "error", error.phrase
    else:
        session.write_snapshot()
    if evidence is not None:
        engine.verify.attempts.tell_evidence(session, turn, evidence)
    agent.emit(
        TurnEnded(
            turn=turn.number,
            status=turn.status,
            text=turn.answer,
            steps=turn.steps,
            usage=turn.usage,
            duration_ms=duration,
            error=turn.reason if turn.reason is not None else "",
            verification=verification,
            finish_reason=turn.finish_reason,
            evidence=evidence,
        )
    )


def _evidence(session: Session, turn: Turn) -> Evidence | None:
    """Of a turn that changed files, or whose answer speaks of tests."""
    if not turn.checks.touched and not ("test" in turn.answer.lower() or "测" in turn.answer):
        return None
    return engine.verify.attempts.evidence_of(session, turn)


def _leave_no_call_open(session: Session) -> None:
    """Answer calls that have no result because the log could not be written; resuming does the same."""
    messages = session.conversation.messages
    at = len(messages)
    while at and messages[at - 1].role == "tool":
        at -= 1
    given = {message.tool_call_id for message in messages[at:]}
    for call in messages[at - 1].tool_calls if at else ():
        if call.id not in given:
            session.conversation.append(tool_message(call, INTERRUPTED))
