"""Resume a session from its log, as far as the record is trusted."""

from __future__ import annotations

import contextlib

from msgspec import UnsetType
from msgspec.structs import replace

from coder import tools
from coder.base.safe_open import status_of
from coder.base.text import shown
from coder.config.schema import EFFORTS
from coder.context.action_log import ActionLog
from coder.context.conversation import count_unanswered
from coder.engine.agent import Agent
from coder.engine.session import Session
from coder.engine.session_parts import PendingApproval
from coder.engine.turn_state import NOTHING_ASKED
from coder.history.replay import Replay
from coder.history.rewound import RecentTurns, marked_log
from coder.history.signature import is_made_in, is_trusted
from coder.history.sinks import HistoryError, JsonlHistorySink
from coder.history.turn_so_far import NewestTurn, TurnSoFar
from coder.protocol import entries
from coder.protocol.entries import Job, Observation, State, TurnStart
from coder.protocol.events import Notice
from coder.protocol.history import HistoryEvent
from coder.protocol.messages import Image, Message, Tokens
from coder.texts import Text
from coder.tools.todo import restore


def resume_session(agent: Agent, session_id: str) -> Session:
    """Unanswered calls get an interrupted result. Raises `HistoryError`."""
    if not agent.place.store.exists(session_id):
        raise HistoryError("session.missing", id=shown(session_id))
    believed = is_trusted(agent.place.home, agent.place.store, session_id)
    path = agent.place.store.log_path(session_id)
    sink = JsonlHistorySink(path, resolved=True)
    sink.open()
    if not status_of(path).st_size:
        return Session.new(agent, sink)
    state, action_log, recent, choices, newest = Replay(), ActionLog(), RecentTurns(), Choices(), NewestTurn()
    jobs = JobsLeft()
    for event, current in marked_log(path):
        for taker in (state, choices, newest, jobs, *((action_log, recent) if current else ())):
            taker.take(event)
    made_here = is_made_in(agent.root, agent.place.home, agent.place.store, session_id)
    session = Session(agent, session_id, [sink], state.created_at, made_here=made_here)
    session.action_log = action_log
    session.meter.budget.limit = choices.limit(session.meter.budget.limit)
    if believed:
        _take_choices(session, choices)
    session.checks.last_evidence = newest.shown
    if not believed:
        _keep_conversation_only(session, state)
    _take_over(session, state, PendingApproval(state, newest.so_far, choices.asks))
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
    agent.emit(Notice(Text("record.words_only", id=shown(session.id)), "warning"))


def _words_of(message: Message) -> Message:
    """Drop invalid images: providers refuse the whole request for one."""
    images: list[Image] = []
    if message.images:
        for image in message.images:
            with contextlib.suppress(tools.images.Unusable):
                images.append(tools.images.decoded(image.data, image.name))
    return replace(message, opaque=None, images=images)


def _take_over(session: Session, state: Replay, newest: PendingApproval) -> None:
    session.title, session.renamed = state.title, state.renamed
    session.rewinds = state.rewinds
    session.meter.usage = state.usage
    session.mode_state = state.mode_state
    session.history.recorded_images = set(state.images)
    session.meter.budget.spent = state.cost
    if not session.agent.mode_chosen and state.mode == "plan":  # looser modes are not restored
        session.agent.mode = "plan"
    session.log.turn = state.turn
    session.reminders.next_notes += state.notes
    session.context.todos = restore(state.todos)
    session.engine_todos = restore(state.engine_todos)
    session.undo.begin_turn(state.turn)
    if state.pending_approval is not None and session.agent.front.can_ask and state.unanswered:
        session.pending = newest
        session.conversation.replace(state.messages)
        session.conversation.unanswered = count_unanswered(state.messages)
        return
    unanswered = state.unanswered
    state.close_open_calls()
    session.conversation.replace(state.messages)
    session.conversation.unanswered = count_unanswered(state.messages)
    session.history.record_interrupted(unanswered)
    if state.turn_open:
        _end_interrupted_turn(session, newest.turn)


def _end_interrupted_turn(session: Session, turn: TurnSoFar) -> None:
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
    session.reminders.next_notes += left.unreported.values()
    for job_id, command in left.running.items():  # killed without an end in the record
        entry = entries.Job(job_id=job_id, state="ended", command=command, stopped_by="session")
        session.log.append(entry)
    gone = left.gone | left.running
    if gone:
        names = ", ".join(f"{job_id} ({command})" for job_id, command in gone.items())
        session.reminders.add(
            f"Background jobs ended with the earlier process: {names}. Start again what you need."
        )
        session.agent.emit(Notice(Text("job.gone", jobs=names)))


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
            session.reminders.add(f"{title}: {'; '.join(new)}")


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
