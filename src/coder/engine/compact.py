"""Compaction: old outputs are shortened first; then older history becomes a summary
that the model writes, with the engine's own action log beside it, which no summary can lose."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import msgspec

from coder import engine
from coder.base.files import make_private, write_atomically
from coder.context.compaction import (
    INSTRUCTION,
    NO_SUMMARY,
    SUMMARY_HEAD,
    cut_point,
    earlier_summary,
    escaped_tags,
    protected,
    shortened_outputs,
    transcript,
    with_part,
    with_request,
)
from coder.context.conversation import message_tokens
from coder.engine.limits import kept_whole
from coder.engine.notes import rules_note
from coder.engine.routing import fall_back, model_for_side_requests
from coder.engine.session import Session
from coder.engine.side_request import side_request
from coder.engine.turn_state import Turn
from coder.history.replay import compacted, with_replaced
from coder.models.model import ModelError
from coder.protocol import entries
from coder.protocol.events import ChatCompressed, ModelProgress, Notice
from coder.protocol.messages import Message, head_length
from coder.texts import AnyText, Text

_ACTION_LOG_SHARE = 0.1  # of the window: the action log must not crowd out the work
_SHORT_SUMMARY = 150  # tokens: seven headings with hardly anything below them
_SHORTEST = 400  # characters of a action log: less would be headings alone
_KEPT_SHARE = 0.85  # of the limit, for all but summary and action log
_TRANSCRIPT_SHARE = 0.7  # of the window: the request for a summary must leave room for the summary
_ENOUGH = 0.8  # shortening alone will do where it brings the prompt this far below the threshold
_GROWTH = 1.1  # a compaction that did not help is not tried again before the prompt has grown by this


async def compact_if_needed(session: Session, turn: Turn) -> None:
    """Compact before a step, once the prompt has passed the threshold."""
    threshold = session.agent.config.compaction.threshold * session.agent.chosen.window
    with turn.busy(Text("stopped.compaction")):
        shortened = _shorten(session)
        if not shortened or session.conversation.exceeds(threshold * _ENOUGH):
            done = await compact(session, turn)
            if isinstance(done, Text):
                done = Text("compact.shortened", **done.values) if shortened else done
                session.agent.emit(Notice(done, "warning"))
    if session.conversation.exceeds(threshold):
        session.compactions.floor = int(session.conversation.tokens() * _GROWTH)


async def compact_after_overflow(session: Session, turn: Turn) -> bool:
    """Compact once per step where the provider rejected a prompt that fits by our count."""
    if turn.made_room_at == turn.steps or not session.agent.config.compaction.auto:
        return False
    turn.made_room_at = turn.steps
    with turn.busy(Text("stopped.compaction")):
        shortened = _shorten(session)
        return isinstance(await compact(session, turn, too_long=True), ChatCompressed) or shortened


async def compact(
    session: Session, turn: Turn | None = None, *, forced: bool = False, too_long: bool = False
) -> ChatCompressed | Text | None:
    """Replace older history by a summary. None if there was nothing to gain, a phrase where there is no
    usable summary: the conversation stays as it was, unless it is `too_long` for any request; then log and
    newest messages alone are kept. `turn`: the one in hand."""
    conversation = session.conversation
    counter = conversation.counter
    too_long = too_long or conversation.exceeds(session.agent.prompt_limit)
    if session.compactions.failed and not (forced or too_long):
        return None
    sizes = [message_tokens(counter, m) for m in conversation.messages]
    room = _room(session)
    keep = min(_share_to_keep(session, sum(sizes)) * sum(sizes[head_length(conversation.messages) :]), room)
    fixed = protected(conversation.messages, sizes, conversation.unanswered, room)
    at = cut_point(conversation.messages, sizes, keep, fixed)
    if not at:
        return None
    around = _around(session, turn, conversation.messages[at:], room - sum(sizes[at:]))
    least = counter.count(around) + (0 if forced else _SHORT_SUMMARY)
    if sum(sizes[head_length(conversation.messages) : at]) <= least:
        return None  # not worth a request, and no reason never to try again
    if session.agent.hooks is not None and not too_long:
        blocked = await engine.hook_points.before_compaction(session, forced=forced)
        if blocked:
            return Text("compact.unchanged", reason=blocked)
    attempt = _Attempt(session, at, sizes, around, forced=forced, during_turn=turn is not None)
    summary: str | Text = Text("compact.inflated_before")
    if not session.compactions.failed or forced:
        session.agent.emit(ModelProgress("compacting"))
        summary = await _summary(session, turn, conversation.messages[:at])
    if isinstance(summary, str):
        if done := attempt.replace(summary):
            return done
        session.compactions.failed = True
        summary = Text("compact.inflated_now")
    inflated = session.compactions.failed
    if not too_long:
        return Text("compact.unchanged", reason=summary)
    earlier = earlier_summary(conversation.messages[:at]).removesuffix(NO_SUMMARY).rstrip()
    done = attempt.replace(f"{earlier}\n\n{NO_SUMMARY}" if earlier else NO_SUMMARY)
    session.compactions.failed = inflated
    if done is not None:
        session.agent.emit(Notice(Text("compact.fell_back", reason=summary), "warning"))
    return done


class _Attempt:
    """One cut of the conversation, and what would stand in place of the older part."""

    def __init__(
        self, session: Session, at: int, sizes: list[int], around: str, *, forced: bool, during_turn: bool
    ) -> None:
        self.session, self.at, self.sizes = session, at, sizes
        self.around, self.forced, self.during_turn = around, forced, during_turn

    def replace(self, summary: str) -> ChatCompressed | None:
        """Record the compaction, then apply it. None if it would gain nothing."""
        session, counter = self.session, self.session.conversation.counter
        messages = session.conversation.messages
        text = SUMMARY_HEAD + escaped_tags(summary) + self.around
        before = session.conversation.tokens()
        kept = len(messages) - self.at
        replaced = compacted(messages, text, kept)
        head = replaced[: len(replaced) - kept]
        after = before - sum(self.sizes[: self.at]) + sum(message_tokens(counter, m) for m in head)
        if after >= before:
            return None
        entry = entries.Compaction(kept=kept, tokens_before=before, tokens_after=after, forced=self.forced)
        session.log.append(entry, text)
        replace_conversation(session, replaced)
        if self.during_turn:
            session.reminders.rules = rules_note(session)  # they stand beside the summary
        event = ChatCompressed(tokens_before=before, tokens_after=after, summary=summary, forced=self.forced)
        session.agent.emit(event)
        return event


def _room(session: Session) -> float:
    """Tokens for the messages that a compaction keeps."""
    conversation = session.conversation
    head = conversation.messages[: head_length(conversation.messages)]
    return max(0.0, _KEPT_SHARE * session.agent.prompt_limit - conversation.fixed_tokens(head))


def _around(session: Session, turn: Turn | None, kept: list[Message], room: float) -> str:
    """The engine's parts beside a summary. `room`: tokens that the kept messages leave free."""
    text = with_part("", "memory", _memories(session))
    if turn is not None:
        text = with_request(text, [turn.text, *turn.heard], kept, partial(kept_whole, session))
    text = with_part(text, "action_log", _action_log_text(session, room))
    # Between turns the mode is said with the next message.
    return text if turn is None else with_part(text, "note", rules_note(session))


async def compact_text(session: Session) -> tuple[AnyText, bool]:
    """`/compact`: its message, and whether it succeeded."""
    done = await compact(session, forced=True)
    if done is None:
        return Text("compact.nothing"), True
    if isinstance(done, Text):
        return done, False
    text = Text("compact.done", before=f"{done.tokens_before:,}", after=f"{done.tokens_after:,}")
    return text if done.summary.endswith(NO_SUMMARY) else text + f"\n\n{done.summary}", True


def _share_to_keep(session: Session, size: int) -> float:
    """Of a conversation from a model with a larger window, no more than would be kept in this one."""
    settings = session.agent.config.compaction
    return settings.keep * min(1.0, settings.threshold * session.agent.chosen.window / max(1, size))


def _memories(session: Session) -> str:
    """What changed in the memory since the system message was made was told in messages that are now gone."""
    memory, system = session.agent.memory, session.conversation.messages[0].content
    said = {"Remembered since": memory.missing_from(system), "No longer holds": memory.gone_from(system)}
    told = "\n".join(f"{title}: {'; '.join(facts)}" for title, facts in said.items() if facts)
    return session.redactor.redact(told)


def replace_conversation(session: Session, messages: list[Message]) -> None:
    """What the model was told in messages that may be gone is told again."""
    session.conversation.replace(messages)
    session.meter.last_usage = None  # what the provider last counted is no longer what will be sent
    session.reminders.rules = ""
    session.reminders.directories.clear()
    if session.agent.ide is not None:
        session.agent.ide.tell_all_again()
    session.compactions.failed = False
    session.compactions.floor = 0


def _shorten(session: Session) -> bool:
    """Old tool outputs cut to head and tail; each whole goes into a file. Whether there were any."""
    conversation = session.conversation
    counter = conversation.counter
    sizes = [message_tokens(counter, m) for m in conversation.messages]
    keep = _share_to_keep(session, sum(sizes)) * sum(sizes[head_length(conversation.messages) :])
    fixed = protected(conversation.messages, sizes, conversation.unanswered, _room(session))
    at = cut_point(conversation.messages, sizes, keep, fixed)
    directory = session.context.outputs
    found = shortened_outputs(
        conversation.messages[:at], lambda index: str(_output_file(directory, session, index))
    )
    if not found:
        return False
    try:
        make_private(directory)
        for index, _text in found:
            whole = conversation.messages[index].content
            write_atomically(_output_file(directory, session, index), whole.encode("utf-8", "replace"))
    except OSError:
        return False
    before = conversation.tokens()
    gain = sum(sizes[i] - message_tokens(counter, _with(conversation.messages[i], text)) for i, text in found)
    session.log.append(
        entries.Compaction(kind="shorten", replaced=found, tokens_before=before, tokens_after=before - gain)
    )
    told, directories, failed = (
        session.reminders.rules,
        set(session.reminders.directories),
        session.compactions.failed,
    )
    replace_conversation(session, with_replaced(conversation.messages, found))
    # Outputs are neither rules, instructions nor a summary.
    session.reminders.rules, session.reminders.directories, session.compactions.failed = (
        told,
        directories,
        failed,
    )
    session.agent.emit(ChatCompressed(tokens_before=before, tokens_after=before - gain, summary=""))
    return True


def _output_file(directory: Path, session: Session, index: int) -> Path:
    """A name of its own each time: what an earlier compaction put away is still pointed at."""
    return directory / f"turn{session.log.turn}-step{session.log.step}-message{index}.txt"


def _with(message: Message, content: str) -> Message:
    return msgspec.structs.replace(message, content=content)


def _action_log_text(session: Session, free: float) -> str:
    """Bounded by tokens: the same number of characters is three times as many of them in Chinese."""
    counter = session.conversation.counter
    share = session.agent.chosen.window * _ACTION_LOG_SHARE
    room = max(_SHORTEST / 4, min(share, free))
    whole, text = session.action_log.whole_text(), session.action_log.text(int(room * 4))
    while (size := counter.count(text)) > room and len(text) > _SHORTEST:
        text = session.action_log.text(int(len(text) * min(0.9, room / size)))
    if text == whole:
        return text
    path = session.context.outputs / "action_log.md"
    try:
        make_private(path.parent)
        write_atomically(path, whole.encode("utf-8", "replace"))
    except OSError:
        return text
    return f"{text}\n\nThe whole action log is in {path}."


async def _summary(session: Session, turn: Turn | None, messages: list[Message]) -> str | Text:
    """The model's summary, or why there is none."""
    agent = session.agent
    counter = session.conversation.counter
    while True:
        model = turn.model if turn is not None and turn.model else model_for_side_requests(session)
        text = transcript(messages, int(agent.chosen.window * _TRANSCRIPT_SHARE), counter.count)
        try:
            return await side_request(session, turn, model, INSTRUCTION, text) or Text("compact.empty")
        except ModelError as error:
            if turn is None or not fall_back(session, turn, error):
                return error.phrase
