"""One session: its conversation, its record, and what its tools have seen.

Event sourcing: every change is recorded first, then applied.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from coder.context.conversation import Conversation
from coder.context.ledger import Ledger
from coder.context.prompt import SHORT_ROLE, read_instructions, system_prompt
from coder.context.tokens import TokenCounter
from coder.engine.agent import Agent
from coder.engine.budget import Budget
from coder.engine.redact import SessionSecrets
from coder.engine.turn_state import NOTHING_ASKED, ImageState, Turn
from coder.fs import digest
from coder.protocol import entries
from coder.protocol.events import (
    JobChanged,
    Notice,
    PastTurn,
    Recorded,
    SessionStarted,
    StateChanged,
    TodosChanged,
)
from coder.protocol.history import INTERRUPTED, HistoryEvent, title_of
from coder.protocol.messages import (
    Image,
    Message,
    ToolCall,
    chat_positions,
    tool_message,
    with_instructions,
)
from coder.protocol.usage import Tokens, Usage
from coder.record.files import RecordError
from coder.record.log import SessionLog, now
from coder.record.seal import sealed
from coder.record.sinks import HistorySink, JsonlHistorySink
from coder.record.store import new_session_id
from coder.record.turn_so_far import TurnSoFar
from coder.texts import Phrase
from coder.tools.base import Limits, Todo, ToolContext, ToolResult
from coder.tools.job import Jobs, ending

if TYPE_CHECKING:
    from coder.modes.state import ModeKeeper
    from coder.policy.sandbox.ladder import Sandbox
    from coder.policy.shell.verdict import ShellVerdict
    from coder.process.background import Job
    from coder.protocol.entries import Evidence, Verification
    from coder.record.replay import Replay
    from coder.record.undo.journal import UndoJournal
    from coder.record.undo.shell import ShellUndo


class _Undo:
    """A session's undo journal, as tools see it."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def before_change(self, path: Path, after: bytes | None, mode: int | None = None) -> None:
        self._session.undo.before_change(path, after, mode)


def _name_here(session_id: str, root: Path) -> str:
    return f"{session_id}.{digest(os.fsencode(root), 6)}"


class Session:
    """A conversation that is recorded as it happens."""

    def __init__(
        self,
        agent: Agent,
        session_id: str,
        sinks: list[HistorySink],
        created_at: str,
        *,
        made_here: bool = True,
    ) -> None:
        """`made_here`: by this person in this workspace. Any other record may bear the id of any session, and
        gets no undo journal and no outputs by it."""
        self.agent = agent
        self.id = session_id
        self._kept_as = session_id if made_here else _name_here(session_id, agent.root)
        self.created_at = created_at
        self.title = ""
        self.renamed = ""  # by the person
        seal = partial(sealed, agent.place.home)
        self.log = SessionLog(session_id, sinks, self._recorded, agent.front.sinks, seal, self._warn)
        self.conversation = Conversation(TokenCounter(agent.chosen.vocabulary), agent.specs)
        self._undo: UndoJournal | None = None
        self._undo_turn = 0
        # Of these, tools and commands reach their own session's alone: others' are of other projects.
        self.outputs = agent.place.home / "outputs" / self._kept_as
        self.context = ToolContext(
            workspace=agent.place.workspace.also_reading(self.outputs),
            journal=_Undo(self),
            limits=Limits(
                command_timeout_ms=agent.config.safety.command_timeout_ms,
                output_limit_bytes=agent.config.safety.output_limit_bytes,
            ),
            outputs=self.outputs,
            environment=agent.place.environment,
        )
        self.jobs = self.context.jobs = Jobs(self._job_ended)
        self.told_jobs_uncovered = False
        self.usage = Usage()
        self.last_usage: Usage | None = None  # of the newest request, where the provider told
        self.told_rules = ""  # what the model was last told of the operating mode and the policy
        self.told_git = False  # and of the branch and the changed files, as they were at the start
        self.told_directories: set[Path] = set()  # whose AGENTS.md the model has, where they have one
        self.modes: ModeKeeper | None = None  # made when first needed (engine.modes)
        self.modes_begun = asyncio.Event()  # what is on by default is on
        self.mode_state: entries.ModeState | None = None  # the custom modes that a resumed session had on
        self.turn: Turn | None = None  # the one that is running, or ran last
        self.checked: dict[str, frozenset[str]] = {}  # what failed when it last ran, unless edits followed
        self.shown: tuple[Evidence, Verification] | None = None  # of the last turn that changed files
        self.engine_todos: list[Todo] = []  # the list that the engine made last
        self.pending: Replay | None = None  # a resumed session's approval that nobody has answered
        self.pending_turn = TurnSoFar()  # what the turn of that approval had come to
        self.pending_asks = NOTHING_ASKED  # and what it asks of its model
        self.compaction_failed = False  # a summary came out longer: not tried again unless forced
        self.compaction_floor = 0  # tokens below which another compaction would not help
        self.ledger = Ledger()
        self.budget = Budget(agent.config.budget, agent.address_of)
        self.sandboxes: dict[tuple[bool, bool], Sandbox] = {}  # by: read-only, a check (`isolation.py`)
        self.needs_writing: set[str] = set()  # lines that failed as read-only ones
        self.judged: tuple[str, ShellVerdict] | None = None  # the line of the call in hand, its verdict
        self.shell_undo: ShellUndo | None = None
        self.told_partial_undo = False
        self.told_unlayered = False
        self.redactor = SessionSecrets(
            agent.place.home, agent.place.secrets, on=agent.config.safety.redact_secrets
        )
        self.loop_guard = agent.config.runtime.loop_guard
        self.model_in_use = agent.chosen.name  # of the newest request; another where routing chose
        self.told_servers: set[str] = set()  # MCP servers whose instructions the model has
        self.rewinds: list[entries.Rewind] = []  # since the last input: `/redo` takes them back
        self.next_notes: list[str] = []  # what the model should know with the next message
        self.images = ImageState()

    @property
    def undo(self) -> UndoJournal:
        """Imported lazily, at the first change or undo."""
        if self._undo is None:
            from coder.record.undo.journal import UndoJournal

            self._undo = UndoJournal(self.agent.place.home / "undo" / self._kept_as)
            self._undo.begin_turn(self._undo_turn)
        return self._undo

    def share_undo(self, parent: Session) -> None:
        """A subagent's changes belong to its parent's turn."""
        self._undo = parent.undo

    def begin_undo(self, turn: int) -> None:
        """Later changes belong to this turn."""
        self._undo_turn = turn
        if self._undo is not None:
            self._undo.begin_turn(turn)

    # beginnings and ends

    @classmethod
    def new(cls, agent: Agent, sink: JsonlHistorySink | None = None) -> Session:
        """`sink`: reuses the record of a session that was killed while it wrote the first line."""
        session_id = sink.path.stem if sink else new_session_id()
        sink = sink or JsonlHistorySink(agent.place.store.log_path(session_id), resolved=True)
        session = cls(agent, session_id, [sink], now())
        prompt = session.system_prompt()
        start = session.log.append(session._start(), prompt, role="system")
        session.created_at = start.ts
        session.conversation.append(Message(role="system", content=prompt))
        base = read_instructions(agent.root, agent.place.home)
        if base.text:
            from coder.modes.render import user_instructions

            session.instruct(user_instructions(base.text, ""))
        session.announce(resumed=False)
        if agent.front.kind == "interactive":  # somebody reads how full the context is, from the start
            session.show_state()
        for fault in (*base.faults, *agent.memory.faults()):
            agent.emit(Notice(fault, "warning"))
        return session

    def record_interrupted(self, calls: list[ToolCall]) -> None:
        for call in calls:
            entry = entries.Observation(
                tool=call.name, call_id=call.id, ok=False, denied=False, interrupted=True
            )
            self.log.append(entry, INTERRUPTED)

    def system_prompt(self) -> str:
        """For a session that starts now."""
        from coder.engine.notes import environment_of

        agent = self.agent
        environment, memory = map(self.redactor.redact, (environment_of(agent), agent.memory.text()))
        if agent.few_tools:
            return system_prompt(environment, "", memory, role=SHORT_ROLE)
        return system_prompt(environment, agent.skills.index(), memory)

    def _start(self) -> entries.SessionStart:
        agent = self.agent
        config = self._config()
        return entries.SessionStart(
            mode=agent.front.kind,
            operating_mode=agent.mode,
            preset=agent.preset,
            model=config.model,
            cwd=config.cwd,
            tokenizer=config.tokenizer,
            tools=config.tools,
            config=config,
        )

    def _config(self) -> entries.Config:
        """The current model and tools."""
        agent = self.agent
        return entries.Config(
            model=agent.chosen.name,
            cwd=str(agent.root),
            tokenizer=agent.chosen.vocabulary,
            tools=list(agent.tools),
        )

    def announce(self, *, resumed: bool, recent: Sequence[PastTurn] = ()) -> None:
        agent = self.agent
        if agent.ide is not None:
            agent.ide.context.tell_all_again()
        agent.emit(
            SessionStarted(
                session_id=self.id,
                cwd=str(agent.root),
                model=agent.chosen.name,
                mode=agent.mode,
                preset=agent.preset,
                resumed=resumed,
                turns=self.log.turn,
                recent=list(recent),
            )
        )

    def close(self) -> None:
        self.end_jobs()
        if self.shell_undo is not None:
            self.shell_undo.close()
        entry = entries.SessionEnd(
            mode=self.agent.front.kind,
            operating_mode=self.agent.mode,
            preset=self.agent.preset,
            config=self._config(),
            turns=self.log.turn,
            tokens=Tokens.of(self.usage),
            title=self.renamed,
        )
        self.log.append(entry)
        self.log.close()
        if self.agent.parent is None and self.log.turn:  # not for a subagent
            self._make_searchable()

    def _make_searchable(self) -> None:
        home, project = self.agent.place.home, self.agent.place.project
        if self.agent.front.kind == "once":
            # The index costs 10 ms, which a script waits for: the next search does it.
            from coder.lookback.projects import remember_project

            with contextlib.suppress(OSError):
                remember_project(home, project)
            return
        from coder.lookback.index.update import session_ended

        session_ended(home, project, self.id)

    def end_jobs(self) -> None:
        """Stop the session's jobs, with a notice that lists them."""
        if ended := self.jobs.end_all():
            names = ", ".join(f"{job.id} ({self.redactor.redact(job.command)})" for job in ended)
            self.agent.emit(Notice(Phrase("job.ended_with_session", jobs=names), "warning"))

    def show_job(self, job: Job) -> None:
        state: Literal["started", "ended", "stopped"]
        state = "started" if job.running else "stopped" if job.stopped_by else "ended"
        hide = self.redactor.redact
        self.agent.emit(
            JobChanged(
                job_id=job.id,
                command=hide(job.command),
                state=state,
                exit_code=job.exit_code,
                duration_ms=round(job.seconds * 1000),
                last=hide(job.recent(1)),
            )
        )

    def _job_ended(self, job: Job) -> None:
        """Callback, possibly during a call: the model is told later (`job_notes`)."""
        hide = self.redactor.redact
        entry = entries.Job(
            job_id=job.id,
            state="ended",
            command=hide(job.command),
            exit_code=job.exit_code,
            stopped_by=job.stopped_by,
        )
        with contextlib.suppress(RecordError):  # it has ended all the same
            self.log.append(entry, hide(ending(job)))
        self.show_job(job)

    def job_notes(self) -> list[str]:
        """Ended jobs not yet reported to the model, for the next message or result."""
        ended = [job for job in self.jobs if not (job.running or job.end_reported) and job.owner == self.id]
        for job in ended:
            job.end_reported = True
        return [self.redactor.redact(ending(job)) for job in ended]

    def _recorded(self, event: HistoryEvent) -> None:
        self.ledger.take(event)
        self.agent.emit(Recorded(event))

    def _warn(self, said: Phrase) -> None:
        self.agent.emit(Notice(said, "warning"))

    # the conversation

    def instruct(self, text: str, modes: entries.ModeState | None = None) -> None:
        """Set the instructions of person, project and custom modes, at the head of the conversation."""
        text = self.redactor.redact(text)
        messages = with_instructions(self.conversation.messages, text)
        if messages == self.conversation.messages and modes is None:
            return
        self.log.append(modes or entries.Instructions(), text, role="user")
        self.conversation.replace(messages)

    def add_user(self, text: str, entry: entries.TurnStart, images: Sequence[Image] = ()) -> None:
        """A person's input."""
        self.rewinds = []
        self.title = self.title or title_of(text)
        self.log.append(replace(entry, images=self._record_images(images)), text, role="user")
        if not entry.refused:
            message = text if entry.message is None else entry.message
            self.conversation.append(Message(role="user", content=message, images=list(images)))

    def _record_images(self, images: Sequence[Image]) -> list[str]:
        if not images:
            return []
        from coder.engine.images import record

        return record(self, images)

    def add_assistant(self, message: Message, entry: entries.Assistant, raw: str = "") -> None:
        """`raw`: the model's original text, if the message was parsed from it (salvage, dialects)."""
        calls = [
            entries.SentCall(id=c.id, name=c.name, arguments=c.function.arguments) for c in message.tool_calls
        ]
        entry = replace(
            entry,
            tool_calls=calls,
            reasoning=message.reasoning or None,
            message=message.content if raw and raw != message.content else None,
            opaque=message.opaque,
        )
        self.log.append(entry, raw or message.content, role="assistant")
        if entry.by == "engine":
            self.conversation.append(message)
        else:
            self.conversation.append_response(message)

    def add_action(
        self, call: ToolCall, arguments: Any, *, sent: ToolCall | None = None, meant: Any = None
    ) -> None:
        """A call as it will run. `sent`: as the model sent it, recorded if different."""
        as_sent = None
        if sent is not None and (sent.name != call.name or (meant and meant != arguments)):
            as_sent = entries.Sent(tool=sent.name, input=arguments)
        self.log.append(
            entries.Action(tool=call.name, input=meant or arguments, call_id=call.id, sent=as_sent)
        )

    def add_observation(
        self, call: ToolCall, result: ToolResult, sent: ToolCall | None = None, *, shown: bool = True
    ) -> HistoryEvent:
        """`sent`: the call as the model sent it. `shown`: show a changed todo list to the person."""
        entry = entries.Observation(tool=call.name, call_id=call.id, ok=result.ok, denied=result.denied)
        more = result.meta
        if result.images:
            more = {**more, "images": self._record_images(result.images)}
        event = self.log.append(entry, result.for_model, more=more)
        self.conversation.append(tool_message(sent or call, result.for_model, result.images))
        if call.name == "todowrite" and result.ok and shown:
            self.agent.emit(TodosChanged(todos=result.meta["todos"]))
        return event

    def add_note(self, text: str, reason: str) -> None:
        """A message of the engine to the model."""
        text = self.redactor.redact(text)
        self.log.append(entries.Note(reason=reason), text, role="user")
        self.conversation.append(Message(role="user", content=text))

    def count(self, model: str, usage: Usage) -> float | None:
        """Account for a request of the conversation; returns its cost, if known."""
        self.usage = self.usage.plus(usage)
        self.last_usage = usage
        self.model_in_use = model
        return self.budget.add(model, usage)

    def count_side_request(self, model: str, usage: Usage) -> float | None:
        """Account for a side request (summary, routing, checks): it costs, but is not part of the context."""
        self.usage = self.usage.plus(usage)
        cost = self.budget.add(model, usage)
        self.log.append(entries.Usage(model=model, tokens=Tokens.of(usage), cost_usd=cost))
        return cost

    def tell_next(self, text: str) -> None:
        """Queue a note for the model's next message."""
        self.next_notes.append(text)

    # what others show and keep

    def context_tokens(self) -> int:
        """The provider's last count and about what has come since, with the tokenizer as fallback."""
        told = self._told_tokens()
        return self.conversation.tokens() if told is None else told

    def shown_tokens(self) -> int:
        """As `context_tokens`, but loads no vocabulary: that holds the GIL, and a person may be typing."""
        told, conversation = self._told_tokens(), self.conversation
        if told is not None:
            return told
        return conversation.tokens() if conversation.counter.loaded else conversation.estimate()

    def _told_tokens(self) -> int | None:
        if (last := self.last_usage) is None or last.source != "provider":
            return None
        return last.prompt + last.completion + self.conversation.estimate_unanswered()

    def prompt_size(self) -> int:
        """Overestimates the next request: the provider has not counted what follows its last answer."""
        return max(self.context_tokens(), self.conversation.tokens())

    def show_state(self) -> None:
        agent = self.agent
        agent.emit(
            StateChanged(
                model=agent.chosen.name,
                mode=agent.mode,
                preset=agent.preset,
                context_tokens=self.shown_tokens(),
                context_window=agent.chosen.window,
                usage=self.usage,
                cost_usd=self.budget.spent,
                budget_usd=self.budget.limit,
            )
        )

    def record_state(self) -> None:
        """Call after a change of model, operating mode or preset."""
        agent = self.agent
        self.log.append(
            entries.State(model=agent.chosen.name, operating_mode=agent.mode, preset=agent.preset)
        )

    def write_snapshot(self) -> None:
        """Derived from the record, so a write error is a notice and does not fail the turn."""
        agent = self.agent
        if agent.parent is not None:
            return
        meta = {
            "title": self.title,
            "model": agent.chosen.name,
            "cwd": str(agent.root),
            "mode": agent.mode,
            "preset": agent.preset,
            "turns": self.log.turn,
            "tokens": Tokens.of(self.usage),
        }
        said = self.conversation.messages
        if opaque := {
            str(at): m.opaque for at, m in zip(chat_positions(said), said, strict=True) if m.opaque
        }:
            meta["opaque"] = opaque  # by message, since no other provider's request may carry it
        try:
            agent.place.store.write_snapshot(
                self.id, self.created_at, now(), meta, agent.specs, self.conversation.messages
            )
        except OSError as error:
            agent.emit(Notice(Phrase("session.no_snapshot", reason=error.strerror or error), "warning"))
