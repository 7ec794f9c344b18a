"""Resume a session from its log, as far as the record is trusted."""

from __future__ import annotations

import contextlib

from msgspec import UnsetType
from msgspec.structs import replace

from coder.config import shown
from coder.config.schema import EFFORTS
from coder.context.conversation import count_unanswered
from coder.context.ledger import Ledger
from coder.engine.agent import Agent
from coder.engine.session import Session
from coder.engine.turn_state import NOTHING_ASKED
from coder.fs.safe_open import status_of
from coder.protocol import entries
from coder.protocol.entries import Job, Observation, State, TurnStart
from coder.protocol.events import Notice
from coder.protocol.history import HistoryEvent
from coder.protocol.messages import Image, Message
from coder.protocol.usage import Tokens
from coder.record.files import RecordError
from coder.record.recent import RecentTurns
from coder.record.replay import Replay
from coder.record.rewound import marked_log
from coder.record.seal import is_made_in, is_trusted
from coder.record.sinks import JsonlHistorySink
from coder.record.turn_so_far import NewestTurn
from coder.texts import Phrase
from coder.tools.todo import restore


def resume_session(agent: Agent, session_id: str) -> Session:
    """Unanswered calls get an interrupted result. Raises `RecordError`."""
    if not agent.place.store.exists(session_id):
        raise RecordError("session.missing", id=shown(session_id))
    believed = is_trusted(agent.place.home, agent.place.store, session_id)
    path = agent.place.store.log_path(session_id)
    sink = JsonlHistorySink(path, resolved=True)
    sink.open()
    if not status_of(path).st_size:
        return Session.new(agent, sink)
    state, ledger, recent, choices, newest = Replay(), Ledger(), RecentTurns(), Choices(), NewestTurn()
    jobs = JobsLeft()
    for event, current in marked_log(path):
        for taker in (state, choices, newest, jobs, *((ledger, recent) if current else ())):
            taker.take(event)
    made_here = is_made_in(agent.root, agent.place.home, agent.place.store, session_id)
    session = Session(agent, session_id, [sink], state.created_at, made_here=made_here)
    session.ledger = ledger
    session.budget.limit = choices.limit(session.budget.limit)
    if believed:
        _take_choices(session, choices)
    session.pending_asks = choices.asks
    session.pending_turn = newest.so_far
    session.shown = newest.shown
    if not believed:
        _keep_conversation_only(session, state)
    _take_over(session, state)
    tell_of_memory(session)
    session.announce(resumed=True, recent=recent.turns)
    _tell_of_jobs(session, jobs)
    session.show_state()
    return session


def _take_choices(session: Session, choices: Choices) -> None:
    agent = session.agent
    if choices.loop_guard is not None:
        session.loop_guard = choices.loop_guard
    if choices.effort is not None and choices.effort in ("", *EFFORTS) and not agent.config.provider.effort:
        agent.effort = choices.effort


def _keep_conversation_only(session: Session, state: Replay) -> None:
    """An untrusted record: keep its conversation, but not its system message, signed reasoning, model
    settings or pending approvals."""
    state.pending_approval = None
    own = Message(role="system", content=session.system_prompt())
    words = [own if m.role == "system" else _words_of(m) for m in state.messages]
    state.messages = words if own in words else [own, *words]
    agent = session.agent
    agent.emit(Notice(Phrase("record.words_only", id=shown(session.id)), "warning"))


def _words_of(message: Message) -> Message:
    """Drop invalid images: providers refuse the whole request for one."""
    images: list[Image] = []
    if message.images:
        from coder.tools.images.fit import Unusable, decoded

        for image in message.images:
            with contextlib.suppress(Unusable):
                images.append(decoded(image.data, image.name))
    return replace(message, opaque=None, images=images)


def _take_over(session: Session, state: Replay) -> None:
    session.title, session.renamed = state.title, state.renamed
    session.rewinds = state.rewinds
    session.usage = state.usage
    session.mode_state = state.mode_state
    session.images.recorded = set(state.images)
    session.budget.spent = state.cost
    if not session.agent.mode_chosen and state.mode == "plan":  # looser modes are not restored
        session.agent.mode = "plan"
    session.log.turn = state.turn
    session.next_notes += state.notes
    session.context.todos = restore(state.todos)
    session.engine_todos = restore(state.engine_todos)
    session.begin_undo(state.turn)
    if state.pending_approval is not None and session.agent.front.can_ask and state.unanswered:
        session.pending = state
        session.conversation.replace(state.messages)
        session.conversation.unanswered = count_unanswered(state.messages)
        return
    unanswered = state.unanswered
    state.close_open_calls()
    session.conversation.replace(state.messages)
    session.conversation.unanswered = count_unanswered(state.messages)
    session.record_interrupted(unanswered)
    if state.turn_open:
        _end_interrupted_turn(session)


def _end_interrupted_turn(session: Session) -> None:
    turn = session.pending_turn
    session.log.append(
        entries.TurnEnd(
            status="cancelled",
            step_count=turn.steps,
            tokens=Tokens.of(turn.usage),
            verification=turn.checks.result(),
            evidence=turn.checks.evidence(),
            cost_usd=turn.cost or None,
            error_message="interrupted",
        )
    )


def _tell_of_jobs(session: Session, left: JobsLeft) -> None:
    """Report jobs that ended with the old process. Their ids are not reused."""
    session.jobs.next_number = left.highest + 1
    session.next_notes += left.unreported.values()
    for job_id, command in left.running.items():  # killed without an end in the record
        entry = entries.Job(job_id=job_id, state="ended", command=command, stopped_by="session")
        session.log.append(entry)
    gone = left.gone | left.running
    if gone:
        names = ", ".join(f"{job_id} ({command})" for job_id, command in gone.items())
        session.tell_next(
            f"Background jobs ended with the earlier process: {names}. Start again what you need."
        )
        session.agent.emit(Notice(Phrase("job.gone", jobs=names)))


def tell_of_memory(session: Session) -> None:
    """Report facts saved or deleted since the system message was made."""
    system, *others = session.conversation.messages or [Message(role="system", content="")]
    told = "\n".join(message.content for message in others)
    memory, hide = session.agent.memory, session.redactor.redact
    for title, facts in (
        ("Remembered since", memory.missing_from(system.content)),
        ("No longer holds", memory.gone_from(system.content)),
    ):
        if new := [fact for fact in map(hide, facts) if fact not in told]:
            session.tell_next(f"{title}: {'; '.join(new)}")


class Choices:
    """A person's choices for a session that are not messages: the newest of each kind. A record may be
    shipped with a project, so it can only lower a budget."""

    def __init__(self) -> None:
        self.budget: float | None = None
        self.loop_guard: bool | None = None
        self.effort: str | None = None
        self.asks = NOTHING_ASKED  # the newest turn's model settings

    def take(self, event: HistoryEvent) -> None:
        match event.entry:
            case TurnStart(asks=asks):
                self.asks = asks or NOTHING_ASKED
            case State(budget_usd=amount, loop_guard=guard, effort=effort):
                self.effort = self.effort if effort is None else effort
                if not isinstance(amount, UnsetType):
                    self.budget = amount if amount is not None and amount >= 0 else None
                if guard is not None:
                    self.loop_guard = guard

    def limit(self, configured: float | None) -> float | None:
        given = [amount for amount in (self.budget, configured) if amount is not None]
        return min(given) if given else None


class JobsLeft:
    """Background jobs that a session had when its process ended, by id, from the record. `running`: no end is
    recorded, as after a kill; `gone`: ended with the session; `unreported`: ended, but no message to the
    model says so yet."""

    def __init__(self) -> None:
        self.running: dict[str, str] = {}
        self.gone: dict[str, str] = {}
        self.unreported: dict[str, str] = {}
        self.highest = 0

    def take(self, event: HistoryEvent) -> None:
        match event.inner.entry:
            case Observation(background=True, job_id=job_id, command=command) if job_id.isdecimal():
                self.running[job_id] = command
                self.highest = max(self.highest, int(job_id))
        match event.entry:
            case Observation():  # pending reports were delivered with it
                self.unreported.clear()
            case TurnStart():
                self.unreported.clear()
                self.gone.clear()
            case Job(state="ended") as job:
                self._ended(job, event.content)

    def _ended(self, job: Job, text: str) -> None:
        self.running.pop(job.job_id, None)
        if job.stopped_by == "session":
            self.gone[job.job_id] = job.command
        elif job.stopped_by != "model":
            self.unreported[job.job_id] = text
