"""Compaction: old outputs are shortened first; then older history becomes a summary
that the model writes, with the engine's own ledger beside it, which no summary can lose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from coder.context.compaction import (
    INSTRUCTION,
    NO_SUMMARY,
    SUMMARY_HEAD,
    cut_point,
    shortened_outputs,
    transcript,
    with_ledger,
    with_request,
)
from coder.context.conversation import message_tokens
from coder.engine.aside import ask_aside
from coder.engine.routing import fall_back, model_for_asides
from coder.engine.session import Session, Turn
from coder.model.base import ModelError
from coder.protocol.events import ChatCompressed, Notice
from coder.protocol.messages import Message
from coder.record.replay import compacted, with_replaced

_LEDGER_SHARE = 0.1  # of the window: the ledger must not crowd out the work
_SHORTEST = 400  # characters of a ledger: less would be headings alone
_TRANSCRIPT_SHARE = 0.7  # of the window: the request for a summary must leave room for the summary
_ENOUGH = 0.8  # shortening alone will do where it brings the prompt this far below the threshold
_GROWTH = 1.1  # a compaction that did not help is not tried again before the prompt has grown by this


async def maybe_compact(session: Session, turn: Turn) -> None:
    """Before a step: once the prompt has passed its share of the model's window."""
    settings = session.desk.config.compaction
    if not settings.auto or session.compaction_failed:
        return
    threshold = settings.threshold * session.desk.chosen.window
    if not session.conversation.exceeds(max(threshold, session.compaction_floor)):
        return
    with turn.busy(session.desk.say("stopped.compaction")):
        shortened = _shorten(session)
        if not shortened or session.conversation.exceeds(threshold * _ENOUGH):
            await compact(session, turn)
    if session.conversation.exceeds(threshold):
        session.compaction_floor = int(session.conversation.tokens() * _GROWTH)


async def make_room(session: Session, turn: Turn) -> bool:
    """The provider found the conversation too long, though by our count it is not: once a turn, try less."""
    if turn.made_room or not session.desk.config.compaction.auto:
        return False
    turn.made_room = True
    with turn.busy(session.desk.say("stopped.compaction")):
        shortened = _shorten(session)
        return await compact(session, turn) is not None or shortened


async def compact(
    session: Session, turn: Turn | None = None, *, forced: bool = False
) -> ChatCompressed | None:
    """None where there was nothing to gain: the conversation stays as it was. `turn`: the one in hand."""
    conversation = session.conversation
    counter = conversation.counter
    sizes = [message_tokens(counter, m) for m in conversation.messages]
    at = cut_point(conversation.messages, sizes, _share_to_keep(session, sum(sizes)))
    if not at:
        return None
    summary = await _summary(session, turn, conversation.messages[:at])
    text = SUMMARY_HEAD + summary + _memories(session)
    if turn is not None:
        text = with_request(text, turn.text, conversation.messages[at:])
    text = with_ledger(text, _ledger_text(session))
    before = conversation.tokens()
    kept = len(conversation.messages) - at
    messages = compacted(conversation.messages, text, kept)
    replaced = messages[: len(messages) - kept]
    after = before - sum(sizes[:at]) + sum(message_tokens(counter, m) for m in replaced)
    if after >= before:
        if not forced:
            session.desk.emit(Notice(session.desk.say("compact.inflated"), "warning"))
        session.compaction_failed = True
        return None
    meta = {"kept": kept, "tokens_before": before, "tokens_after": after, "forced": forced}
    session.log.append("compaction", text, meta=meta)
    _replaced(session, messages)
    event = ChatCompressed(tokens_before=before, tokens_after=after, summary=summary, forced=forced)
    session.desk.emit(event)
    return event


async def compact_text(session: Session) -> tuple[str, bool]:
    """`/compact`: what came of it, and whether it is an answer or a failure."""
    latched, session.compaction_failed = session.compaction_failed, False
    done = await compact(session, forced=True)
    say = session.desk.say
    if done is not None:
        text = say("compact.done", before=done.tokens_before, after=done.tokens_after)
        return text if done.summary == NO_SUMMARY else f"{text}\n\n{done.summary}", True
    if session.compaction_failed:
        return say("compact.inflated"), False
    session.compaction_failed = latched
    return say("compact.nothing"), True


def _share_to_keep(session: Session, size: int) -> float:
    """Of a conversation from a model with a larger window, no more than would be kept in this one."""
    settings = session.desk.config.compaction
    return settings.keep * min(1.0, settings.threshold * session.desk.chosen.window / max(1, size))


def _memories(session: Session) -> str:
    """What changed in the memory since the system message was made was told in messages that are now gone."""
    memory, system = session.desk.memory, session.conversation.messages[0].content
    said = {"Remembered since": memory.missing_from(system), "No longer holds": memory.gone_from(system)}
    told = "".join(f"\n\n{title}: {'; '.join(facts)}" for title, facts in said.items() if facts)
    return session.redactor.redact(told)


def _replaced(session: Session, messages: list[Message]) -> None:
    session.conversation.replace(messages)
    session.last_usage = None  # what the provider last counted is no longer what will be sent
    session.told_mode = ""
    if session.desk.ide is not None:
        session.desk.ide.context.tell_all_again()
    session.compaction_failed = False
    session.compaction_floor = 0


def _shorten(session: Session) -> bool:
    """Old tool outputs cut to head and tail; each whole goes into a file. Whether there were any."""
    conversation = session.conversation
    counter = conversation.counter
    sizes = [message_tokens(counter, m) for m in conversation.messages]
    at = cut_point(conversation.messages, sizes, _share_to_keep(session, sum(sizes)))
    folder = session.context.outputs
    found = shortened_outputs(
        conversation.messages[:at], lambda index: str(_output_file(folder, session, index))
    )
    if not found:
        return False
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for index, _text in found:
            whole = conversation.messages[index].content
            _output_file(folder, session, index).write_text(whole, encoding="utf-8", errors="replace")
    except OSError:
        return False
    before = conversation.tokens()
    gain = sum(sizes[i] - message_tokens(counter, _with(conversation.messages[i], text)) for i, text in found)
    meta: dict[str, Any] = {"kind": "shorten", "replaced": [list(pair) for pair in found]}
    meta |= {"tokens_before": before, "tokens_after": before - gain}
    session.log.append("compaction", meta=meta)
    _replaced(session, with_replaced(conversation.messages, found))
    session.desk.emit(ChatCompressed(tokens_before=before, tokens_after=before - gain, summary=""))
    return True


def _output_file(folder: Path, session: Session, index: int) -> Path:
    """A name of its own each time: what an earlier compaction put away is still pointed at."""
    return folder / f"turn{session.log.turn}-step{session.log.step}-message{index}.txt"


def _with(message: Message, content: str) -> Message:
    return msgspec.structs.replace(message, content=content)


def _ledger_text(session: Session) -> str:
    """Bounded by tokens: the same number of characters is three times as many of them in Chinese."""
    counter = session.conversation.counter
    room = session.desk.chosen.window * _LEDGER_SHARE
    whole, text = session.ledger.whole_text(), session.ledger.text(int(room * 4))
    while (size := counter.count(text)) > room and len(text) > _SHORTEST:
        text = session.ledger.text(int(len(text) * min(0.9, room / size)))
    if text == whole:
        return text
    path = session.context.outputs / "ledger.md"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text(whole, encoding="utf-8", errors="replace")
    except OSError:
        return text
    return f"{text}\n\nThe whole ledger is in {path}."


async def _summary(session: Session, turn: Turn | None, messages: list[Message]) -> str:
    """The model's own words, or a line that says there are none: ledger and newest messages remain."""
    desk = session.desk
    counter = session.conversation.counter
    while True:
        model = turn.model if turn is not None and turn.model else model_for_asides(session)
        text = transcript(messages, int(desk.chosen.window * _TRANSCRIPT_SHARE), counter.count)
        try:
            summary = await ask_aside(session, turn, model, INSTRUCTION, text)
        except ModelError as error:
            if turn is not None and fall_back(session, turn, error):
                continue
            desk.emit(Notice(desk.say("compact.no_summary", reason=error.phrase), "warning"))
            return NO_SUMMARY
        if summary:
            return summary
        desk.emit(Notice(desk.say("compact.no_summary", reason=desk.say("compact.empty")), "warning"))
        return NO_SUMMARY
