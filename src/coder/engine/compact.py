"""Compaction (SPEC §1.8, seed 002): old outputs are shortened first; then older history becomes a summary
that the model writes, with the engine's own ledger beside it, which no summary can lose."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import msgspec

from coder.context.compaction import (
    INSTRUCTION,
    NO_SUMMARY,
    SUMMARY_HEAD,
    cut_point,
    shortened_outputs,
    transcript,
    with_ledger,
)
from coder.context.conversation import message_tokens
from coder.engine.session import Session, Turn
from coder.model.base import Completed, ModelError, ModelRequest, TextDelta
from coder.protocol.events import ChatCompressed, Notice
from coder.protocol.messages import Message
from coder.record.replay import compacted, with_replaced

_LEDGER_SHARE = 0.1  # of the window, at four characters a token: the ledger must not crowd out the work
_ENOUGH = 0.8  # shortening alone will do where it brings the prompt this far below the threshold
_GROWTH = 1.1  # a compaction that did not help is not tried again before the prompt has grown by this


async def maybe_compact(session: Session, turn: Turn) -> None:
    """Before a step: once the prompt has passed its share of the model's window."""
    settings = session.desk.config.compaction
    if not settings.auto or session.compaction_failed:
        return
    threshold = settings.threshold * session.desk.context_window
    if not session.conversation.exceeds(max(threshold, session.compaction_floor)):
        return
    with turn.busy(session.desk.say("stopped.compaction")):
        if not _shorten(session, threshold):
            await compact(session, forced=False, prompt_id=turn.prompt_id)
    if session.conversation.exceeds(threshold):
        session.compaction_floor = int(session.conversation.tokens() * _GROWTH)


async def compact(session: Session, *, forced: bool, prompt_id: str = "") -> ChatCompressed | None:
    """None where there was nothing to gain: the conversation stays as it was."""
    conversation = session.conversation
    counter = conversation.counter
    sizes = [message_tokens(counter, m) for m in conversation.messages]
    at = cut_point(conversation.messages, sizes, session.desk.config.compaction.keep)
    if not at:
        return None
    summary = await _summary(session, conversation.messages[:at], prompt_id)
    text = with_ledger(SUMMARY_HEAD + summary + _new_memories(session), _ledger_text(session))
    before = conversation.tokens()
    kept = len(conversation.messages) - at
    messages = compacted(conversation.messages, text, kept)
    replaced = messages[: len(messages) - kept]
    after = before - sum(sizes[:at]) + sum(message_tokens(counter, m) for m in replaced)
    if after >= before:
        session.desk.emit(Notice(session.desk.say("compact.inflated"), "warning"))
        session.compaction_failed = True
        return None
    meta = {"kept": kept, "tokens_before": before, "tokens_after": after, "forced": forced}
    session.log.append("compaction", text, meta=meta)
    _replaced(session, messages)
    event = ChatCompressed(tokens_before=before, tokens_after=after, summary=summary, forced=forced)
    session.desk.emit(event)
    return event


def _new_memories(session: Session) -> str:
    """Facts saved since the system message was made were told in messages that are now gone."""
    facts = session.desk.memory.missing_from(session.conversation.messages[0].content)
    return "\n\nRemembered since: " + "; ".join(facts) if facts else ""


def _replaced(session: Session, messages: list[Message]) -> None:
    session.conversation.replace(messages)
    session.last_usage = None  # what the provider last counted is no longer what will be sent
    session.told_mode = ""
    if session.desk.editor is not None:
        session.desk.editor.context.tell_all_again()
    session.compaction_failed = False
    session.compaction_floor = 0


def _shorten(session: Session, threshold: float) -> bool:
    """Old tool outputs cut to head and tail, where that alone is enough; each whole goes into a file."""
    conversation = session.conversation
    counter = conversation.counter
    sizes = [message_tokens(counter, m) for m in conversation.messages]
    at = cut_point(conversation.messages, sizes, session.desk.config.compaction.keep)
    folder = session.context.outputs
    found = shortened_outputs(
        conversation.messages[:at], lambda index: str(_output_file(folder, session, index))
    )
    gain = sum(sizes[i] - message_tokens(counter, _with(conversation.messages[i], text)) for i, text in found)
    before = conversation.tokens()
    if not found or before - gain > threshold * _ENOUGH:
        return False
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for index, _text in found:
            whole = conversation.messages[index].content
            _output_file(folder, session, index).write_text(whole, encoding="utf-8", errors="replace")
    except OSError:
        return False
    meta: dict[str, Any] = {"kind": "shorten", "replaced": [list(pair) for pair in found]}
    meta |= {"tokens_before": before, "tokens_after": before - gain}
    session.log.append("compaction", meta=meta)
    _replaced(session, with_replaced(conversation.messages, found))
    session.desk.emit(ChatCompressed(tokens_before=before, tokens_after=before - gain, summary=""))
    return True


def _output_file(folder: Path, session: Session, index: int) -> Path:
    return folder / f"turn{session.log.turn}-message{index}.txt"


def _with(message: Message, content: str) -> Message:
    return msgspec.structs.replace(message, content=content)


def _ledger_text(session: Session) -> str:
    limit = int(session.desk.context_window * _LEDGER_SHARE * 4)
    text = session.ledger.text(limit)
    whole = session.ledger.whole_text()
    if len(text) >= len(whole):
        return text
    path = session.context.outputs / "ledger.md"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text(whole, encoding="utf-8", errors="replace")
    except OSError:
        return text
    return f"{text}\n\nThe whole ledger is in {path}."


async def _summary(session: Session, messages: list[Message], prompt_id: str) -> str:
    """The model's own words, or a line that says there are none: ledger and newest messages remain."""
    model = session.model_in_use
    request = ModelRequest(
        model=model,
        messages=[
            Message(role="system", content=INSTRUCTION),
            Message(role="user", content=transcript(messages, session.desk.context_window)),
        ],
        prompt_id=prompt_id,
    )
    parts: list[str] = []
    try:
        async with aclosing(cast("Any", session.desk.model.stream(request))) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, TextDelta):
                    parts.append(chunk.text)
                elif isinstance(chunk, Completed) and chunk.usage is not None:
                    session.count_aside(model, chunk.usage)
    except ModelError as error:
        session.desk.emit(Notice(session.desk.say("compact.failed", reason=str(error)), "warning"))
        return NO_SUMMARY
    return "".join(parts).strip() or NO_SUMMARY
