"""Compaction: older messages are replaced by a summary that the model writes (SPEC §1.8, seed 002)."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any, cast

from coder.context.compaction import INSTRUCTION, SUMMARY_HEAD, cut_point, transcript
from coder.context.conversation import message_tokens
from coder.engine.session import Session, Turn, tokens_meta
from coder.model.base import Completed, ModelError, ModelRequest, TextDelta
from coder.protocol.events import ChatCompressed, Notice
from coder.protocol.messages import Message
from coder.record.replay import compacted


async def maybe_compact(session: Session, turn: Turn) -> None:
    """Before a step: compact once the prompt has passed its share of the model's window."""
    settings = session.desk.config.compaction
    if not settings.auto or session.compaction_failed:
        return
    if session.conversation.exceeds(settings.threshold * session.desk.context_window):
        with turn.busy(session.desk.say("stopped.compaction")):
            await compact(session, forced=False, prompt_id=turn.prompt_id)


async def compact(session: Session, *, forced: bool, prompt_id: str = "") -> ChatCompressed | None:
    """None where there was nothing to gain: the conversation stays as it was."""
    conversation = session.conversation
    counter = conversation.counter
    sizes = [message_tokens(counter, m) for m in conversation.messages]
    at = cut_point(conversation.messages, sizes, session.desk.config.compaction.keep)
    if not at:
        return None
    try:
        summary = await _summary(session, conversation.messages[:at], prompt_id)
    except ModelError as error:
        session.desk.emit(Notice(session.desk.say("compact.failed", reason=str(error)), "warning"))
        session.compaction_failed = not forced
        return None
    before = conversation.tokens()
    kept = len(conversation.messages) - at
    messages = compacted(conversation.messages, SUMMARY_HEAD + summary, kept)
    after = (
        before - sum(sizes[:at]) + sum(message_tokens(counter, m) for m in messages[: len(messages) - kept])
    )
    if after >= before:
        session.desk.emit(Notice(session.desk.say("compact.inflated"), "warning"))
        session.compaction_failed = True
        return None
    meta = {"kept": kept, "tokens_before": before, "tokens_after": after, "forced": forced}
    session.log.append("compaction", SUMMARY_HEAD + summary, meta=meta)
    conversation.replace(messages)
    session.last_usage = None  # what the provider last counted is no longer what will be sent
    session.told_mode = ""
    session.compaction_failed = False
    event = ChatCompressed(tokens_before=before, tokens_after=after, summary=summary, forced=forced)
    session.desk.emit(event)
    return event


async def _summary(session: Session, messages: list[Message], prompt_id: str) -> str:
    request = ModelRequest(
        model=session.desk.model_name,
        messages=[
            Message(role="system", content=INSTRUCTION),
            Message(role="user", content=transcript(messages)),
        ],
        prompt_id=prompt_id,
    )
    parts: list[str] = []
    async with aclosing(cast("Any", session.desk.model.stream(request))) as chunks:
        async for chunk in chunks:
            if isinstance(chunk, TextDelta):
                parts.append(chunk.text)
            elif isinstance(chunk, Completed) and chunk.usage is not None:
                session.usage = session.usage.plus(chunk.usage)
                session.log.append("usage", meta={"for": "compaction", "tokens": tokens_meta(chunk.usage)})
    text = "".join(parts).strip()
    if not text:
        raise ModelError("the model wrote no summary", kind="protocol")
    return text
