"""One session: its conversation, its record, and what its tools have seen.

State and the few ways it changes; every change goes to the record first and is then true.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from coder.context.conversation import Conversation
from coder.context.ledger import Ledger
from coder.context.prompt import read_instructions, system_prompt
from coder.context.tokens import TokenCounter
from coder.engine.budget import Budget
from coder.engine.choices import Choices
from coder.engine.desk import Desk
from coder.engine.loops import LoopWatch
from coder.engine.redact import SessionSecrets
from coder.protocol.events import (
    Notice,
    PastTurn,
    Recorded,
    SessionStarted,
    StateChanged,
    TodosChanged,
    TurnStatus,
)
from coder.protocol.history import HistoryEvent
from coder.protocol.messages import Message, ToolCall, answered, with_instructions
from coder.protocol.usage import Usage
from coder.record.files import RecordError
from coder.record.log import SessionLog, now, read_log
from coder.record.recent import RecentTurns
from coder.record.replay import INTERRUPTED, Replay, title_of
from coder.record.sinks import HistorySink, JsonlHistorySink
from coder.record.store import new_session_id
from coder.record.undo import UndoJournal
from coder.texts import Phrase
from coder.tools.base import Limits, ToolContext, ToolResult
from coder.tools.todo import restore

if TYPE_CHECKING:
    from coder.modes.state import ModeKeeper
    from coder.policy.sandbox import Sandbox
    from coder.record.shell_undo import ShellUndo


class Session:
    """A conversation that is recorded as it happens."""

    def __init__(self, desk: Desk, session_id: str, sinks: list[HistorySink], created_at: str) -> None:
        self.desk = desk
        self.id = session_id
        self.created_at = created_at
        self.title = ""
        self.log = SessionLog(session_id, sinks, self._recorded, desk.sinks)
        self.conversation = Conversation(TokenCounter(desk.chosen.vocabulary), desk.specs)
        self.undo = UndoJournal(desk.home / "undo" / session_id)
        self.context = ToolContext(
            workspace=desk.workspace,
            journal=self.undo,
            limits=Limits(
                command_timeout_ms=desk.config.safety.command_timeout_ms,
                output_limit_bytes=desk.config.safety.output_limit_bytes,
            ),
            outputs=desk.home / "outputs" / session_id,
            environment=desk.environment,
        )
        self.usage = Usage()
        self.last_usage: Usage | None = None  # of the newest request, where the provider told
        self.told_mode = ""  # the operating mode that the model was last told of
        self.modes: ModeKeeper | None = None  # made when first needed (engine.modes)
        self.modes_begun = asyncio.Event()  # what is on by default is on
        self.mode_meta: dict[str, Any] = {}  # the custom modes that a resumed session had on
        self.turn: Turn | None = None  # the one that is running, or ran last
        self.pending: Replay | None = None  # a resumed session's approval that was never answered
        self.pending_asks = NOTHING_ASKED  # what the turn of that approval asks of its model
        self.compaction_failed = False  # a summary came out longer: not tried again unless forced
        self.compaction_floor = 0  # tokens below which another compaction would not help
        self.ledger = Ledger()
        self.budget = Budget(desk.config.budget)
        self.sandbox: Sandbox | None = None  # these two are made for the first command (engine.shelter)
        self.shell_undo: ShellUndo | None = None
        self.told_partial_undo = False
        self.redactor = SessionSecrets(desk.home, desk.secrets, on=desk.config.safety.redact_secrets)
        self.loop_guard = desk.config.runtime.loop_guard
        self.model_in_use = desk.chosen.name  # of the newest request; another where routing chose
        self.next_notes: list[str] = []  # what the model should know with the next message

    # beginnings and ends

    @classmethod
    def new(cls, desk: Desk) -> Session:
        session_id = new_session_id()
        session = cls(desk, session_id, [JsonlHistorySink(desk.store.log_path(session_id))], now())
        prompt = system_prompt(desk.root, desk.skills.index(), session.redactor.redact(desk.memory.text()))
        start = session.log.append("session_start", prompt, role="system", meta=session._start_meta())
        session.created_at = start.ts
        session.conversation.append(Message(role="system", content=prompt))
        base = read_instructions(desk.root, desk.home)
        if base.text:
            from coder.modes.render import user_instructions

            session.instruct(user_instructions(base.text, ""), "instructions", {})
        session._announce(resumed=False)
        if desk.session_kind == "interactive":  # somebody reads how full the context is, from the start
            session.show_state()
        for fault in (*base.faults, *desk.memory.faults()):
            desk.emit(Notice(fault.text(desk.texts), "warning"))
        return session

    @classmethod
    def resumed(cls, desk: Desk, session_id: str) -> Session:
        """From the log alone. Calls that were never answered are answered as interrupted."""
        if not desk.store.exists(session_id):
            raise RecordError("session.missing", id=session_id)
        path = desk.store.log_path(session_id)
        sink = JsonlHistorySink(path)
        sink.open()
        state, ledger, recent, choices = Replay(), Ledger(), RecentTurns(), Choices()
        for event in read_log(path):
            for taker in (state, ledger, recent, choices):
                taker.take(event)
        session = cls(desk, session_id, [sink], state.created_at)
        session.ledger = ledger
        session.budget.limit = choices.limit(session.budget.limit)
        if choices.loop_guard is not None:
            session.loop_guard = choices.loop_guard
        session.pending_asks = asks_from(choices.asks)
        session._take_over(state)
        session._tell_of_memory()
        session._announce(resumed=True, recent=recent.turns)
        session.show_state()
        return session

    def _take_over(self, state: Replay) -> None:
        self.title = state.title
        self.usage = state.usage
        self.mode_meta = state.mode_state
        self.budget.spent = state.cost
        if not self.desk.mode_chosen and state.mode == "plan":  # what allows more is asked for anew
            self.desk.mode = "plan"
        self.log.turn = state.turn
        self.next_notes += state.notes
        self.context.todos = restore(state.todos)
        self.undo.begin_turn(state.turn)
        if state.pending_approval is not None and self.desk.can_ask and state.unanswered:
            self.pending = state
            self.conversation.replace(state.messages)
            return
        unanswered = state.unanswered
        state.close_open_calls()
        self.conversation.replace(state.messages)
        self.record_interrupted(unanswered)
        if state.turn_open:
            meta = {"status": "cancelled", "step_count": state.steps, "tokens": tokens_meta(state.turn_usage)}
            self.log.append("turn_end", meta={**meta, "error_message": "interrupted"})

    def _tell_of_memory(self) -> None:
        """What was remembered or forgotten since the system message was made, and no message has told."""
        system, *others = self.conversation.messages or [Message(role="system", content="")]
        told = "\n".join(message.content for message in others)
        memory, hide = self.desk.memory, self.redactor.redact
        for title, facts in (
            ("Remembered since", memory.missing_from(system.content)),
            ("No longer holds", memory.gone_from(system.content)),
        ):
            if new := [fact for fact in map(hide, facts) if fact not in told]:
                self.tell_next(f"{title}: {'; '.join(new)}")

    def record_interrupted(self, calls: list[ToolCall]) -> None:
        for call in calls:
            meta = {"tool": call.name, "call_id": call.id, "ok": False, "denied": False, "interrupted": True}
            self.log.append("observation", INTERRUPTED, meta=meta)

    def _start_meta(self) -> dict[str, Any]:
        desk = self.desk
        return {
            "mode": desk.session_kind,
            "operating_mode": desk.mode,
            "preset": desk.preset,
            "model": desk.chosen.name,
            "cwd": str(desk.root),
            "tokenizer": desk.chosen.vocabulary,
            "tools": list(desk.tools),
        }

    def _announce(self, *, resumed: bool, recent: Sequence[PastTurn] = ()) -> None:
        desk = self.desk
        if desk.ide is not None:
            desk.ide.context.tell_all_again()
        desk.emit(
            SessionStarted(
                session_id=self.id,
                cwd=str(desk.root),
                model=desk.chosen.name,
                mode=desk.mode,
                preset=desk.preset,
                resumed=resumed,
                turns=self.log.turn,
                recent=list(recent),
            )
        )

    def close(self) -> None:
        if self.shell_undo is not None:
            self.shell_undo.close()
        self.log.append("session_end", meta={"tokens": tokens_meta(self.usage)})
        self.log.close()

    def _recorded(self, event: HistoryEvent) -> None:
        self.ledger.take(event)
        self.desk.emit(Recorded(event))

    # the conversation

    def instruct(self, text: str, kind: str, meta: dict[str, Any]) -> None:
        """Set what person, project and custom modes say, at the head of the conversation."""
        text = self.redactor.redact(text)
        messages = with_instructions(self.conversation.messages, text)
        if messages == self.conversation.messages and not meta:
            return
        self.log.append(kind, text, role="user", meta=meta)
        self.conversation.replace(messages)

    def add_user(self, text: str, message: str, meta: dict[str, Any]) -> None:
        """A person's input; `message` is what the model gets of it."""
        self.title = self.title or title_of(text)
        if message != text:
            meta = {**meta, "message": message}
        self.log.append("turn_start", text, role="user", meta=meta)
        self.conversation.append(Message(role="user", content=message))

    def add_assistant(self, message: Message, meta: dict[str, Any]) -> None:
        if message.tool_calls:
            calls = [
                {"id": c.id, "name": c.name, "arguments": c.function.arguments} for c in message.tool_calls
            ]
            meta = {**meta, "tool_calls": calls}
        if message.reasoning:
            meta = {**meta, "reasoning": message.reasoning}
        self.log.append("assistant", message.content, role="assistant", meta=meta)
        self.conversation.append(message)

    def add_action(self, call: ToolCall, arguments: Any) -> None:
        meta = {"tool": call.name, "input": arguments, "call_id": call.id}
        self.log.append("action", meta=meta)

    def add_observation(self, call: ToolCall, result: ToolResult) -> None:
        meta = {
            "tool": call.name,
            "call_id": call.id,
            "ok": result.ok,
            "denied": result.denied,
            **result.meta,
        }
        self.log.append("observation", result.for_model, meta=meta)
        self.conversation.append(answered(call, result.for_model))
        if call.name == "todowrite" and result.ok:
            self.desk.emit(TodosChanged(todos=result.meta["todos"]))

    def add_note(self, text: str, reason: str) -> None:
        """Something the engine tells the model by itself."""
        text = self.redactor.redact(text)
        self.log.append("note", text, role="user", meta={"reason": reason})
        self.conversation.append(Message(role="user", content=text))

    def count(self, model: str, usage: Usage) -> float | None:
        """A request of the conversation; returns what it cost, where that is known."""
        self.usage = self.usage.plus(usage)
        self.last_usage = usage
        self.model_in_use = model
        return self.budget.add(model, usage)

    def count_aside(self, model: str, usage: Usage) -> float | None:
        """A request of the engine's own (summary, routing, checks): it costs, but is not the context."""
        self.usage = self.usage.plus(usage)
        cost = self.budget.add(model, usage)
        self.log.append("usage", meta={"model": model, "tokens": tokens_meta(usage), "cost_usd": cost})
        return cost

    def tell_next(self, text: str) -> None:
        """Something the model should know with the next message; what waits already is told as well."""
        self.next_notes.append(text)

    # what others show and keep

    def context_tokens(self) -> int:
        """What the provider last counted, or the tokenizer where it did not."""
        told = self._told_tokens()
        return self.conversation.tokens() if told is None else told

    def shown_tokens(self) -> int:
        """As `context_tokens`, but no vocabulary is loaded for it: that holds Python's lock for as long as it
        takes, and a person may be typing."""
        told = self._told_tokens()
        if told is not None:
            return told
        conversation = self.conversation
        return conversation.tokens() if conversation.counter.loaded else conversation.estimate()

    def _told_tokens(self) -> int | None:
        last = self.last_usage
        return last.prompt + last.completion if last is not None and last.source == "provider" else None

    def prompt_size(self) -> int:
        """Tokens of the next request, rather too many than too few: what came after the newest answer is in
        no count of the provider's."""
        return max(self.context_tokens(), self.conversation.tokens())

    def show_state(self) -> None:
        desk = self.desk
        desk.emit(
            StateChanged(
                model=desk.chosen.name,
                mode=desk.mode,
                preset=desk.preset,
                context_tokens=self.shown_tokens(),
                context_window=desk.chosen.window,
                usage=self.usage,
                cost_usd=self.budget.spent,
                budget_usd=self.budget.limit,
            )
        )

    def record_state(self) -> None:
        """After the model, the operating mode or the preset was changed."""
        desk = self.desk
        meta = {"model": desk.chosen.name, "operating_mode": desk.mode, "preset": desk.preset}
        self.log.append("state", meta=meta)

    def record_choice(self, **chosen: object) -> None:
        """What the person chose for this session alone (`engine.choices`)."""
        self.log.append("state", meta=chosen)

    def write_snapshot(self) -> None:
        """Derived from the record, so a failure to write it is worth a line, not the turn."""
        desk = self.desk
        if not desk.keeps_snapshot:
            return
        meta = {
            "title": self.title,
            "model": desk.chosen.name,
            "cwd": str(desk.root),
            "mode": desk.mode,
            "preset": desk.preset,
            "turns": self.log.turn,
            "tokens": tokens_meta(self.usage),
        }
        try:
            desk.store.write_snapshot(
                self.id, self.created_at, now(), meta, desk.specs, self.conversation.messages
            )
        except OSError as error:
            desk.emit(Notice(desk.say("session.no_snapshot", reason=error.strerror or error), "warning"))


class Asks(msgspec.Struct, frozen=True):
    """What an instant mode asks for the turn that it starts."""

    model: str | None = None
    reasoning_effort: str | None = None


NOTHING_ASKED = Asks()


def asks_from(recorded: Any) -> Asks:
    try:
        return msgspec.convert(recorded, Asks)
    except msgspec.ValidationError:  # none, or of another version
        return NOTHING_ASKED


class Turn:
    """What is known of the turn that is running."""

    def __init__(self, number: int, text: str, session_id: str, asks: Asks = NOTHING_ASKED) -> None:
        self.number = number
        self.text = text
        self.asks = asks
        self.prompt_id = f"{session_id}-{number}"
        self.begun = time.monotonic()
        self.steps = 0
        self.usage = Usage()
        self.edited: set[str] = set()
        self.verify_attempts = 0
        self.continuations = 0
        self.empty_answers = 0
        self.warned_of_size = False
        self.made_room_at = -1  # the step at which the provider last found the prompt too long
        self.loops = LoopWatch()
        self.model = ""  # which answers this prompt, all of it
        self.models_tried: list[str] = []
        self.cost = 0.0
        self.answer = ""
        self.status: TurnStatus = "ok"
        self.reason: Phrase | None = None  # why it did not end well
        self.doing: list[str | Phrase] = []  # what is under way just now; a cancel says what it stopped

    @contextmanager
    def busy(self, what: str | Phrase) -> Iterator[None]:
        """Name what is done inside. Where it is cut short the name stays, for whoever tells of it."""
        self.doing.append(what)
        yield
        self.doing.remove(what)


def tokens_meta(usage: Usage) -> dict[str, Any]:
    """`meta.tokens` of the record."""
    meta: dict[str, Any] = {
        "prompt": usage.prompt,
        "completion": usage.completion,
        "total": usage.total,
    }
    if usage.cached:
        meta["cached"] = usage.cached
    if usage.source:
        meta["source"] = usage.source
    return meta
