"""One session: its parts, its beginning and its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from coder import engine, extend, history
from coder.base.files import digest
from coder.context.action_log import ActionLog
from coder.context.conversation import Conversation, TokenCounter
from coder.context.prompt import SHORT_ROLE, read_instructions, system_prompt
from coder.engine.agent import Agent
from coder.engine.redactor import SessionSecrets
from coder.engine.session_parts import (
    Budget,
    CheckMemory,
    CommandState,
    Compactions,
    History,
    Meter,
    PendingApproval,
    Reminders,
    SessionJobs,
    SessionUndo,
)
from coder.engine.turn_state import ImageState, Turn
from coder.history.log import SessionLog, now
from coder.history.signature import sealed
from coder.history.sinks import HistorySink, JsonlHistorySink
from coder.history.store import new_session_id
from coder.protocol import entries
from coder.protocol.events import Notice, PastTurn, Recorded, SessionStarted, StateChanged
from coder.protocol.history import HistoryEvent
from coder.protocol.messages import Message, Tokens, chat_positions
from coder.texts import Text
from coder.tools.tool import Limits, Todo, ToolContext

if TYPE_CHECKING:
    from coder.extend.modes.mode_state import ModeKeeper


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
        parent: Session | None = None,
    ) -> None:
        """`made_here`: by this person in this workspace. Any other record may bear the id of any session, and
        gets no undo journal and no outputs by it. `parent`: of a subagent, which shares its undo, jobs,
        budget, secrets and outputs.
        """
        self.agent = agent
        self.id = session_id
        kept_as = session_id if made_here else _name_here(session_id, agent.root)
        self.created_at = created_at
        self.title = ""
        self.renamed = ""  # by the person
        home, safety = agent.place.home, agent.config.safety
        sign = partial(sealed, home)
        self.log = SessionLog(session_id, sinks, self._recorded, agent.front.sinks, sign, self._warn)
        self.conversation = Conversation(TokenCounter(agent.chosen.vocabulary), agent.specs)
        secrets = SessionSecrets(home, agent.place.secrets, on=safety.redact_secrets)
        self.redactor: SessionSecrets = parent.redactor if parent else secrets
        self.history = History(self.log, self.conversation, self.redactor, agent.emit)
        budget = parent.meter.budget if parent else Budget(agent.config.budget, agent.address_of)
        self.meter: Meter = Meter(self.conversation, budget, agent.chosen.name)
        self.reminders = Reminders()
        self.checks = CheckMemory()
        self.compactions = Compactions()
        self.action_log = ActionLog()
        self.commands = CommandState()
        self.undo = SessionUndo(home / "undo" / kept_as)
        # Tools and commands reach the outputs of their own session alone: others' are of other projects.
        self.outputs: Path = parent.outputs if parent else home / "outputs" / kept_as
        self.context = ToolContext(
            workspace=agent.place.workspace.also_reading(self.outputs),
            journal=self.undo,
            limits=Limits(
                command_timeout_ms=safety.command_timeout_ms, output_limit_bytes=safety.output_limit_bytes
            ),
            outputs=self.outputs,
            environment=agent.place.environment,
        )
        self.jobs: SessionJobs = parent.jobs if parent else SessionJobs(agent, self.log, self.redactor)
        self.context.jobs = self.jobs
        self.modes: ModeKeeper | None = None  # made when first needed (engine.custom_modes)
        self.modes_begun = asyncio.Event()  # what is on by default is on
        self.mode_state: entries.ModeState | None = None  # the custom modes that a resumed session had on
        self.turn: Turn | None = None  # the one that is running, or ran last
        self.engine_todos: list[Todo] = []  # the list that the engine made last
        self.pending: PendingApproval | None = None  # a resumed session's approval that nobody has answered
        self.loop_guard: bool = parent.loop_guard if parent else agent.config.runtime.loop_guard
        self.rewinds: list[entries.Rewind] = []  # since the last input: `/redo` takes them back
        self.images = ImageState()

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
            session.history.instruct(extend.modes.render.user_instructions(base.text, ""))
        session.announce(resumed=False)
        if agent.front.kind == "interactive":  # somebody reads how full the context is, from the start
            session.show_state()
        for problem in (*base.problems, *agent.memory.problems()):
            agent.emit(Notice(problem, "warning"))
        return session

    def system_prompt(self) -> str:
        """For a session that starts now."""
        agent = self.agent
        environment, memory = map(
            self.redactor.redact, (engine.notes.environment_of(agent), agent.memory.text())
        )
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
            agent.ide.tell_all_again()
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
        self.jobs.end_with_session()
        self.undo.close()
        entry = entries.SessionEnd(
            mode=self.agent.front.kind,
            operating_mode=self.agent.mode,
            preset=self.agent.preset,
            config=self._config(),
            turns=self.log.turn,
            tokens=Tokens.of(self.meter.usage),
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

            with contextlib.suppress(OSError):
                history.search.projects.remember_project(home, project)
            return

        history.search.index.session_ended(home, project, self.id)

    def _recorded(self, event: HistoryEvent) -> None:
        self.action_log.take(event)
        self.agent.emit(Recorded(event))

    def _warn(self, said: Text) -> None:
        self.agent.emit(Notice(said, "warning"))

    def show_state(self) -> None:
        agent = self.agent
        agent.emit(
            StateChanged(
                model=agent.chosen.name,
                mode=agent.mode,
                preset=agent.preset,
                context_tokens=self.meter.shown_tokens(),
                context_window=agent.chosen.window,
                usage=self.meter.usage,
                cost_usd=self.meter.budget.spent,
                budget_usd=self.meter.budget.limit,
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
            "tokens": Tokens.of(self.meter.usage),
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
            agent.emit(Notice(Text("session.no_snapshot", reason=error.strerror or error), "warning"))
