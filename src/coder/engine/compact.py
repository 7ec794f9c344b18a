"""Compaction: old outputs are shortened first; then older history becomes a summary
that the model writes, with the engine's own ledger beside it, which no summary can lose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from coder.config.files import make_private
from coder.context.compaction import (
    INSTRUCTION,
    NO_SUMMARY,
    SUMMARY_HEAD,
    cut_point,
    earlier_summary,
    plain,
    shortened_outputs,
    transcript,
    with_part,
    with_request,
)
from coder.context.conversation import message_tokens
from coder.context.prompt import MODE_NOTES
from coder.engine.aside import ask_aside
from coder.engine.routing import fall_back, model_for_asides
from coder.engine.session import Session
from coder.engine.turn_state import Turn
from coder.model.base import ModelError
from coder.protocol.events import ChatCompressed, Notice
from coder.protocol.messages import Message, head_length
from coder.record.files import write_atomically
from coder.record.replay import compacted, with_replaced
from coder.texts import Phrase

_LEDGER_SHARE = 0.1  # of the window: the ledger must not crowd out the work
_SHORT_SUMMARY = 150  # tokens: seven headings with hardly anything below them
_SHORTEST = 400  # characters of a ledger: less would be headings alone
_UNSEEN_SHARE = 0.85  # of the window, for all but summary and ledger, where there are results not seen yet
_TRANSCRIPT_SHARE = 0.7  # of the window: the request for a summary must leave room for the summary
_ENOUGH = 0.8  # shortening alone will do where it brings the prompt this far below the threshold
_GROWTH = 1.1  # a compaction that did not help is not tried again before the prompt has grown by this


async def maybe_compact(session: Session, turn: Turn) -> None:
    """Before a step: once the prompt has passed its share of the model's window."""
    settings = session.desk.config.compaction
    window = session.desk.chosen.window
    threshold = settings.threshold * window
    # What no longer fits is tried again, however little it has grown: the request would not be sent at all.
    floor = min(max(threshold, session.compaction_floor), window)
    if not settings.auto or not session.conversation.exceeds(floor):
        return
    with turn.busy(Phrase("stopped.compaction")):
        shortened = _shorten(session)
        enough = shortened and not session.conversation.exceeds(threshold * _ENOUGH)
        if not enough and not session.compaction_failed:
            head = session.conversation.messages[: head_length(session.conversation.messages)]
            room = _UNSEEN_SHARE * window - session.conversation.fixed_tokens(head)
            await compact(session, turn, unseen=room)
            if session.conversation.exceeds(window) and not session.compaction_failed:
                await compact(session, turn)
    if session.conversation.exceeds(threshold):
        session.compaction_floor = int(session.conversation.tokens() * _GROWTH)


async def make_room(session: Session, turn: Turn) -> bool:
    """The provider found the conversation too long, though by our count it is not: once a step, try less."""
    if turn.made_room_at == turn.steps or not session.desk.config.compaction.auto:
        return False
    turn.made_room_at = turn.steps
    with turn.busy(Phrase("stopped.compaction")):
        shortened = _shorten(session)
        return await compact(session, turn) is not None or shortened


async def compact(
    session: Session, turn: Turn | None = None, *, forced: bool = False, unseen: float = 0
) -> ChatCompressed | None:
    """None where there was nothing to gain: the conversation stays as it was. `turn`: the one in hand;
    `unseen`: up to how many tokens of results that the model has not seen yet are kept in any case."""
    conversation = session.conversation
    counter = conversation.counter
    sizes = [message_tokens(counter, m) for m in conversation.messages]
    at = cut_point(conversation.messages, sizes, _share_to_keep(session, sum(sizes)), unseen)
    if not at:
        return None
    around = _around(session, turn, conversation.messages[at:])
    least = counter.count(around) + (0 if forced else _SHORT_SUMMARY)
    if sum(sizes[head_length(conversation.messages) : at]) <= least:
        return None  # not worth a request, and no reason never to try again
    summary = await _summary(session, turn, conversation.messages[:at])
    text = SUMMARY_HEAD + plain(summary) + around
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


def _around(session: Session, turn: Turn | None, kept: list[Message]) -> str:
    """What the engine itself says beside a summary."""
    text = with_part("", "memory", _memories(session))
    if turn is not None:
        text = with_request(text, turn.text, kept)
    text = with_part(text, "ledger", _ledger_text(session))
    # Between turns the mode is said with the next message.
    return text if turn is None else with_part(text, "note", MODE_NOTES[session.desk.mode])


async def compact_text(session: Session) -> tuple[str, bool]:
    """`/compact`: what came of it, and whether it is an answer or a failure."""
    latched, session.compaction_failed = session.compaction_failed, False
    done = await compact(session, forced=True)
    say = session.desk.say
    if done is not None:
        text = say("compact.done", before=done.tokens_before, after=done.tokens_after)
        return text if done.summary.endswith(NO_SUMMARY) else f"{text}\n\n{done.summary}", True
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
    told = "\n".join(f"{title}: {'; '.join(facts)}" for title, facts in said.items() if facts)
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
        make_private(folder)
        for index, _text in found:
            whole = conversation.messages[index].content
            write_atomically(_output_file(folder, session, index), whole.encode("utf-8", "replace"))
    except OSError:
        return False
    before = conversation.tokens()
    gain = sum(sizes[i] - message_tokens(counter, _with(conversation.messages[i], text)) for i, text in found)
    meta: dict[str, Any] = {"kind": "shorten", "replaced": [list(pair) for pair in found]}
    meta |= {"tokens_before": before, "tokens_after": before - gain}
    session.log.append("compaction", meta=meta)
    told_mode, failed = session.told_mode, session.compaction_failed
    _replaced(session, with_replaced(conversation.messages, found))
    session.told_mode, session.compaction_failed = told_mode, failed  # outputs are neither mode nor summary
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
        make_private(path.parent)
        write_atomically(path, whole.encode("utf-8", "replace"))
    except OSError:
        return text
    return f"{text}\n\nThe whole ledger is in {path}."


async def _summary(session: Session, turn: Turn | None, messages: list[Message]) -> str:
    """The model's own words, or a line that says there are none: the earlier ones, ledger and newest messages
    remain."""
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
            return _without_summary(session, messages, error.phrase)
        return summary or _without_summary(session, messages, Phrase("compact.empty"))


def _without_summary(session: Session, messages: list[Message], reason: Phrase) -> str:
    desk = session.desk
    desk.emit(Notice(desk.say("compact.no_summary", reason=reason), "warning"))
    earlier = earlier_summary(messages).removesuffix(NO_SUMMARY).rstrip()
    return f"{earlier}\n\n{NO_SUMMARY}" if earlier else NO_SUMMARY
