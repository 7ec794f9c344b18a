"""One model call of a turn: stream the answer, assemble it, record it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from coder import engine, models, tools
from coder.engine.routing import fall_back
from coder.engine.session import Session
from coder.engine.turn_state import Turn
from coder.models.model import (
    FILTERED,
    Adapted,
    CallDelta,
    CallReady,
    CitationFound,
    Completed,
    ModelError,
    ModelRequest,
    Progress,
    ReasoningDelta,
    Restarted,
    Retrying,
    TextDelta,
)
from coder.protocol import entries
from coder.protocol.events import (
    Citation,
    Content,
    ContentRestarted,
    Finished,
    ModelProgress,
    Notice,
    Thought,
)
from coder.protocol.messages import NOT_ASKED, LocalTokens, Message, Opaque, Tokens, Usage
from coder.texts import Text

if TYPE_CHECKING:
    from coder.engine.call_progress import CallProgress
    from coder.models.salvage.hold import CallSalvager


class Answer:
    """The model's answer received so far."""

    def __init__(self, before: str = "") -> None:
        """`before`: the earlier part, where the output limit truncated it."""
        self.joiner = _joiner(before)
        self.shown_parts: list[str] = [before] if before else []
        self.text_parts: list[str] = []
        self.reasoning_parts: list[str] = []
        self.calls: list[CallReady] = []
        self.call_progress: CallProgress | None = None
        self.finish_reason = ""
        self.usage: Usage | None = None
        self.cut_by_loop = False
        self.raw = ""  # the raw text, where the answer was parsed from it
        self.salvaged = False
        self.opaque: Opaque | None = None

    @property
    def text(self) -> str:
        return "".join(self.text_parts)

    @property
    def whole_text(self) -> str:
        """With the earlier part."""
        return "".join(self.shown_parts)

    @property
    def begun(self) -> bool:
        return bool(self.text_parts or self.reasoning_parts or self.shown_parts)

    @property
    def reasoning(self) -> str:
        return "".join(self.reasoning_parts)

    def message(self) -> Message:
        return Message(
            role="assistant",
            content=self.text.rstrip() if self.salvaged else self.text,
            tool_calls=[c.call for c in self.calls],
            reasoning=self.reasoning or None,
            opaque=self.opaque,
        )


async def ask_model(session: Session, turn: Turn) -> Answer:
    """Send the conversation, stream the answer, record it."""
    agent = session.agent
    answer = Answer(turn.unfinished)
    try:
        size = session.meter.prompt_size() if session.meter.budget.limit is not None else 0
        with turn.busy(Text("stopped.model")), session.meter.budget.waiting_for(turn.model, size):
            await _stream(session, turn, answer)
    except ModelError as error:
        if _images_refused(session, turn, error) or fall_back(session, turn, error):
            if answer.text_parts:
                _begin_again(session, answer)
            return await ask_model(session, turn)
        _record_partial(session, turn, answer)
        raise
    except asyncio.CancelledError:
        _record_partial(session, turn, answer)
        raise
    entry = replace(
        _counted(session, turn, answer), finish_reason=answer.finish_reason, salvaged=answer.salvaged
    )
    session.history.add_assistant(answer.message(), entry, answer.raw)
    turn.answer, turn.unfinished, turn.finish_reason = answer.whole_text, "", answer.finish_reason
    if answer.calls and answer.finish_reason.lower() in FILTERED:  # their faults tell the model
        agent.emit(Notice(Text("model.filtered_calls"), "warning"))
    agent.emit(Finished(answer.finish_reason, entry.tokens.completion if entry.tokens else 0))
    return answer


def _images_refused(session: Session, turn: Turn, error: ModelError) -> bool:
    if not session.conversation.has_images:
        return False

    return engine.session_images.refused(session, turn, error)


def _messages(session: Session, turn: Turn) -> Sequence[Message]:
    if not session.conversation.has_images:
        return session.conversation.messages

    return engine.session_images.messages_for(session, turn)


def _counted(session: Session, turn: Turn, answer: Answer, *, exact: bool = True) -> entries.Assistant:
    """Account for the answer's usage and cost; returns the entry."""
    usage = answer.usage
    if usage is not None and usage.source == NOT_ASKED:
        return entries.Assistant(tokens=Tokens.of(Usage()), model=turn.model, prompt_id=turn.prompt_id)
    if usage is None or not usage.prompt:  # some servers send only zeros, which would defeat a budget
        usage = _counted_here(session, answer, exact)
    turn.usage = turn.usage.plus(usage)
    cost = session.meter.count(turn.model, usage)
    turn.cost += cost or 0.0
    local = None if usage.source == "local" else _beside(session, answer, exact)
    return entries.Assistant(
        tokens=Tokens.of(usage, local), model=turn.model, prompt_id=turn.prompt_id, cost_usd=cost
    )


async def _stream(session: Session, turn: Turn, answer: Answer) -> None:
    agent = session.agent
    request = ModelRequest(
        model=turn.model,
        messages=_messages(session, turn),
        tools=agent.specs,
        reasoning_effort=turn.asks.reasoning_effort or _effort_of_modes(session) or agent.effort or None,
        max_output_tokens=agent.config.provider.max_output_tokens,
        prompt_id=turn.prompt_id,
        task=turn.text,
        typed=turn.words.typed,
        extra=agent.extra,
    )
    reading: CallSalvager | None = None
    try:
        async with aclosing(cast("Any", agent.model.stream(request))) as chunks:
            async for chunk in chunks:
                reading = reading or _reading(session, request, turn)
                for one in reading.take(chunk):
                    _take(session, answer, one)
                circling = (
                    isinstance(chunk, TextDelta) and session.loop_guard and turn.loops.saw_text(chunk.text)
                )
                if circling:  # loop detected: abort the request
                    answer.cut_by_loop, answer.finish_reason = True, "loop"
                    break
    finally:  # keep what arrived, however it ended
        if reading is not None and (held := reading.rest()):
            _say(session, answer, held)
        _show(session, answer, answer.joiner.finish() if answer.joiner else "")


def _reading(session: Session, request: ModelRequest, turn: Turn) -> models.salvage.hold.CallSalvager:
    """Imported lazily, while the model thinks."""
    return models.salvage.hold.CallSalvager(
        request.tools, partial(is_plain, session), request.task, read=request.messages, typed=request.typed
    )


def is_plain(session: Session, name: str, arguments: Mapping[str, Any] | None) -> bool:
    """Whether a call in the text is valid; by its name alone where arguments are still missing."""
    known = session.agent.tools
    if arguments is None:
        return tools.calls.resolve.names_a_tool(name, known)
    try:
        tools.calls.resolve.resolve_call(name, dict(arguments), known, session.agent.root)
    except tools.calls.resolve.AmbiguousCall:
        return False
    return True


def _joiner(before: str) -> engine.join_answers.Joiner | None:
    if not before:
        return None

    return engine.join_answers.Joiner(before)


def _effort_of_modes(session: Session) -> str | None:
    return session.modes.reasoning_effort if session.modes else None


def _take(session: Session, answer: Answer, chunk: object) -> None:
    emit = session.agent.emit
    match chunk:
        case TextDelta(text):
            _say(session, answer, text)
        case ReasoningDelta(text):
            answer.reasoning_parts.append(text)
            if answer.joiner is None or not answer.joiner.within:  # it would split the answer
                emit(Thought(text))
        case CallDelta():
            _show_call(session, answer, chunk)
        case CallReady():
            answer.calls.append(chunk)
        case Retrying():
            emit(Notice(engine.side_request.retry_text(chunk), "warning", in_answer=answer.begun))
        case Adapted(phrase):
            emit(Notice(phrase, "warning", in_answer=answer.begun))
        case Progress(stage, share):
            emit(ModelProgress(stage, share))
        case Restarted():
            _begin_again(session, answer)
        case CitationFound(text):
            emit(Citation(text))
            session.log.append(entries.Citation(), text)
        case Completed(finish_reason, usage):
            answer.finish_reason, answer.usage = finish_reason, usage
            answer.raw, answer.salvaged, answer.opaque = chunk.raw, chunk.salvaged, chunk.opaque


def _show_call(session: Session, answer: Answer, delta: CallDelta) -> None:
    """Imported lazily, while the model writes."""
    if answer.call_progress is None:
        answer.call_progress = engine.call_progress.CallProgress()
    if (event := answer.call_progress.take(delta)) is not None:
        session.agent.emit(event)


def _say(session: Session, answer: Answer, text: str) -> None:
    answer.text_parts.append(text)
    _show(session, answer, answer.joiner.feed(text) if answer.joiner else text)


def _show(session: Session, answer: Answer, text: str) -> None:
    if text:
        answer.shown_parts.append(text)
        session.agent.emit(Content(text))


def _begin_again(session: Session, answer: Answer) -> None:
    """Discard this request's part of the answer, but not that of earlier requests."""
    before = answer.joiner.before if answer.joiner else ""
    answer.text_parts.clear()
    answer.reasoning_parts.clear()
    answer.calls.clear()
    answer.call_progress = None
    answer.shown_parts.clear()
    session.agent.emit(ContentRestarted())
    answer.joiner = _joiner(before)
    _show(session, answer, before)


def _record_partial(session: Session, turn: Turn, answer: Answer) -> None:
    """Record an interrupted answer: its text was shown and paid for. Incomplete calls are dropped."""
    if answer.text.strip():
        message = Message(role="assistant", content=answer.text, reasoning=answer.reasoning or None)
        answer.calls.clear()
        session.history.add_assistant(
            message, replace(_counted(session, turn, answer, exact=False), partial=True)
        )


def _beside(session: Session, answer: Answer, exact: bool) -> LocalTokens:
    """Our own count beside the provider's. Loads no vocabulary unless one was chosen."""
    exact = session.conversation.counter.loaded or (exact and bool(session.agent.chosen.tokenizer))
    counted = _counted_here(session, answer, exact)
    return LocalTokens(counted.prompt, counted.completion, estimated=not exact)


def _counted_here(session: Session, answer: Answer, exact: bool) -> Usage:
    """For providers that send no usage. Not `exact`: an estimate, so that a cancel does not wait for the
    vocabulary."""
    conversation = session.conversation
    exact = exact or conversation.counter.loaded
    count = conversation.counter.count if exact else conversation.counter.quick
    prompt = conversation.tokens() if exact else conversation.estimate()
    completion = count(answer.text) + count(answer.reasoning)
    for ready in answer.calls:
        completion += count(ready.call.name) + count(ready.call.function.arguments)
    return Usage(prompt=prompt, completion=completion, total=prompt + completion, source="local")
