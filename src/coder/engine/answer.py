"""One step's question to the model: stream the answer out, put it together, record it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any, cast

from coder.engine.aside import retry_text
from coder.engine.routing import fall_back
from coder.engine.session import Session
from coder.engine.turn_state import Turn
from coder.model.base import (
    CallReady,
    CitationFound,
    Completed,
    ModelError,
    ModelRequest,
    ReasoningDelta,
    Restarted,
    Retrying,
    TextDelta,
)
from coder.protocol.events import Citation, Content, ContentRestarted, Finished, Notice, Thought
from coder.protocol.messages import Message
from coder.protocol.usage import Usage, tokens_meta
from coder.texts import Phrase


class Answer:
    """What has come of the model's answer so far."""

    def __init__(self) -> None:
        self.text_parts: list[str] = []
        self.reasoning_parts: list[str] = []
        self.calls: list[CallReady] = []
        self.finish_reason = ""
        self.usage: Usage | None = None
        self.cut_by_loop = False

    @property
    def text(self) -> str:
        return "".join(self.text_parts)

    @property
    def reasoning(self) -> str:
        return "".join(self.reasoning_parts)

    def message(self) -> Message:
        return Message(
            role="assistant",
            content=self.text,
            tool_calls=[c.call for c in self.calls],
            reasoning=self.reasoning or None,
        )


async def ask_model(session: Session, turn: Turn) -> Answer:
    """Send the conversation, show the answer as it comes, record it whole."""
    desk = session.desk
    answer = Answer()
    try:
        size = session.prompt_size() if session.budget.limit is not None else 0
        with turn.busy(Phrase("stopped.model")), session.budget.waiting_for(turn.model, size):
            await _stream(session, turn, answer)
    except ModelError as error:
        if fall_back(session, turn, error):
            if answer.text_parts:
                desk.emit(ContentRestarted())
            return await ask_model(session, turn)
        _record_partial(session, turn, answer)
        raise
    except asyncio.CancelledError:
        _record_partial(session, turn, answer)
        raise
    meta = {**_counted(session, turn, answer), "finish_reason": answer.finish_reason}
    session.add_assistant(answer.message(), meta)
    turn.answer = answer.text
    desk.emit(Finished(answer.finish_reason))
    return answer


def _counted(session: Session, turn: Turn, answer: Answer, *, exact: bool = True) -> dict[str, Any]:
    """Put what the answer took on the accounts; the same for the record."""
    usage = answer.usage
    if usage is None or not usage.prompt:  # some servers send nothing but zeros: a budget would never end
        usage = _counted_here(session, answer, exact)
    turn.usage = turn.usage.plus(usage)
    cost = session.count(turn.model, usage)
    meta: dict[str, Any] = {
        "tokens": tokens_meta(usage),
        "model": turn.model,
        "prompt_id": turn.prompt_id,
    }
    if cost is not None:
        turn.cost += cost
        meta["cost_usd"] = cost
    return meta


async def _stream(session: Session, turn: Turn, answer: Answer) -> None:
    desk = session.desk
    request = ModelRequest(
        model=turn.model,
        messages=session.conversation.messages,
        tools=desk.specs,
        reasoning_effort=turn.asks.reasoning_effort or _effort_of_modes(session),
        prompt_id=turn.prompt_id,
    )
    async with aclosing(cast("Any", desk.model.stream(request))) as chunks:
        async for chunk in chunks:
            _take(session, answer, chunk)
            circling = isinstance(chunk, TextDelta) and session.loop_guard and turn.loops.saw_text(chunk.text)
            if circling:  # the rest would be more of the same: the request is closed here
                answer.cut_by_loop, answer.finish_reason = True, "loop"
                return


def _effort_of_modes(session: Session) -> str | None:
    return session.modes.reasoning_effort if session.modes else None


def _take(session: Session, answer: Answer, chunk: object) -> None:
    emit = session.desk.emit
    match chunk:
        case TextDelta(text):
            answer.text_parts.append(text)
            emit(Content(text))
        case ReasoningDelta(text):
            answer.reasoning_parts.append(text)
            emit(Thought(text))
        case CallReady():
            answer.calls.append(chunk)
        case Retrying():
            emit(Notice(retry_text(session, chunk), "warning"))
        case Restarted():
            answer.text_parts.clear()
            answer.reasoning_parts.clear()
            answer.calls.clear()
            emit(ContentRestarted())
        case CitationFound(text):
            emit(Citation(text))
            session.log.append("citation", text)
        case Completed(finish_reason, usage):
            answer.finish_reason, answer.usage = finish_reason, usage


def _record_partial(session: Session, turn: Turn, answer: Answer) -> None:
    """What was shown belongs to the conversation even where it broke off, and is paid for; half a call does
    not."""
    if answer.text.strip():
        message = Message(role="assistant", content=answer.text, reasoning=answer.reasoning or None)
        answer.calls.clear()
        session.add_assistant(message, {**_counted(session, turn, answer, exact=False), "partial": True})


def _counted_here(session: Session, answer: Answer, exact: bool) -> Usage:
    """For providers that send no usage. Not `exact`: no vocabulary is loaded for it, for whoever
    cancels should not wait."""
    conversation = session.conversation
    exact = exact or conversation.counter.loaded
    count = conversation.counter.count if exact else conversation.counter.quick
    prompt = conversation.tokens() if exact else conversation.estimate()
    completion = count(answer.text) + count(answer.reasoning)
    for ready in answer.calls:
        completion += count(ready.call.name) + count(ready.call.function.arguments)
    return Usage(prompt=prompt, completion=completion, total=prompt + completion, source="local")
