"""The Python SDK: a session, its turns, and a one-turn wrapper.

Like every front end it sends ops and reads events.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from coder.config.schema import OperatingMode
from coder.engine.engine import Engine
from coder.engine.setup import Options, open_agent, provider_of, read_settings, with_model_named
from coder.model.base import ChatModel
from coder.protocol.entries import Action, Assistant, Observation
from coder.protocol.events import (
    AnyEvent,
    ApprovalRequested,
    CommandDone,
    Failed,
    InputDone,
    Recorded,
    TurnEnded,
    Verification,
)
from coder.protocol.history import HistoryEvent
from coder.protocol.in_words import in_words
from coder.protocol.ops import ApprovalReply, Cancel, UserInput
from coder.protocol.usage import Usage
from coder.record.sinks import HistorySink
from coder.texts import Texts

Approver = Callable[[ApprovalRequested], bool]


class Step(msgspec.Struct):
    """One response of the model and what its tool calls came to."""

    index: int
    text: str = ""
    actions: list[dict[str, Any]] = []
    observations: list[str] = []


class TurnResult(msgspec.Struct, frozen=True):
    """How a turn ended. `status` is `ok`, `error`, `max_steps`, `prompt_limit` or `cancelled`; `verification`
    what its checks have shown; `finish_reason` the provider's for the last response (`stop`, `length`, …)."""

    final_text: str
    steps: list[Step]
    status: str
    token_usage: Usage
    session_id: str
    error: str = ""
    verification: Verification = Verification()
    finish_reason: str = ""


class AgentSession:
    """A conversation. Made by `create_agent_session`; usable as an async context manager."""

    def __init__(
        self,
        options: Options,
        *,
        resume: str | None,
        on_event: Callable[[AnyEvent], None] | None,
        approve: Approver | None,
        model: ChatModel | None,
    ) -> None:
        self._options = options
        self._resume = resume
        self._on_event = on_event
        self._approve = approve
        self._model = model
        self._engine: Engine | None = None
        self._texts = Texts("en")  # until the settings are read

    @property
    def session_id(self) -> str:
        """Empty until the first turn."""
        return self._engine.view.session_id if self._engine else ""

    async def _started(self) -> Engine:
        if self._engine is None:
            settings = read_settings(self._options)
            self._texts = settings.texts
            provider = provider_of(self._options, settings)
            if self._model is None:
                provider = await with_model_named(provider)
            engine = Engine(lambda emit: open_agent(self._options, settings, provider, emit, self._model))
            engine.start(self._resume)
            self._engine = engine
        return self._engine

    async def run_turn(self, text: str) -> TurnResult:
        """Take any input that a person could type through to its end."""
        engine = await self._started()
        engine.submit(UserInput(text))
        reading = _Reading(engine.view.session_id)
        try:
            async for told in engine.events():
                event = in_words(told, self._texts)
                if self._on_event is not None:
                    self._on_event(event)
                if isinstance(event, ApprovalRequested):
                    engine.submit(self._reply(event))
                if reading.take(event):
                    break
        except asyncio.CancelledError:
            engine.submit(Cancel())
            raise
        return reading.result()

    def _reply(self, event: ApprovalRequested) -> ApprovalReply:
        allowed = self._approve is not None and self._approve(event)
        return ApprovalReply(approval_id=event.approval_id, answer="yes" if allowed else "no")

    def cancel(self) -> None:
        """Stop the turn that is running."""
        if self._engine is not None:
            self._engine.submit(Cancel())

    def close(self) -> asyncio.Future[None]:
        """Complete the record. Awaiting the result waits until everything is let go of."""
        if self._engine is None:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            done.set_result(None)
            return done
        return asyncio.ensure_future(self._engine.close())

    async def __aenter__(self) -> AgentSession:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()


class _Reading:
    """Puts a turn's result together from its events."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.steps: list[Step] = []
        self.ended: TurnEnded | None = None
        self.text = ""
        self.error = ""
        self.ok = True

    def take(self, event: AnyEvent) -> bool:
        """True once the input is done."""
        match event:
            case Recorded(entry):
                self._recorded(entry)
            case TurnEnded():
                self.ended = event
            case CommandDone(_, text):
                self.text = str(text)
            case Failed(text):
                self.error = str(text)
            case InputDone(ok):
                self.ok = ok
                return True
        return False

    def _recorded(self, entry: HistoryEvent) -> None:
        match entry.entry:
            case Assistant():
                self.steps.append(Step(index=entry.step, text=entry.content))
            case Action() if self.steps:
                self.steps[-1].actions = [*self.steps[-1].actions, entry.meta]
            case Observation() if self.steps:
                self.steps[-1].observations = [*self.steps[-1].observations, entry.content]

    def result(self) -> TurnResult:
        ended = self.ended
        if ended is None:
            status = "ok" if self.ok else "error"
            return TurnResult(self.text, self.steps, status, Usage(), self.session_id, self.error)
        return TurnResult(
            final_text=ended.text,
            steps=self.steps,
            status=ended.status,
            token_usage=ended.usage,
            session_id=self.session_id,
            error=str(ended.error),
            verification=ended.verification,
            finish_reason=ended.finish_reason,
        )


def create_agent_session(
    *,
    cwd: str | os.PathLike[str] = ".",
    mode: OperatingMode = "default",
    permissions: str = "",
    model: str | ChatModel = "",
    base_url: str = "",
    api_key: str = "",
    resume: str | None = None,
    max_steps: int = 0,
    log_dir: str | os.PathLike[str] | None = None,
    config_file: str | os.PathLike[str] | None = None,
    history_sinks: Sequence[HistorySink] = (),
    on_event: Callable[[AnyEvent], None] | None = None,
    approve: Approver | None = None,
    environ: Mapping[str, str] | None = None,
) -> AgentSession:
    """A session in `cwd`. `model` is a name, or an object with the `ChatModel` protocol.

    `approve` is asked wherever a person would be; without it such calls are refused.
    """
    own = None if isinstance(model, str) else model
    options = Options(
        cwd=Path(cwd).absolute(),
        environ=os.environ if environ is None else environ,
        mode=mode,
        preset=permissions,
        model=model if isinstance(model, str) else "custom",
        base_url=base_url or ("" if own is None else "http://127.0.0.1/"),
        api_key=api_key,
        max_steps=max_steps,
        log_dir=Path(log_dir) if log_dir else None,
        config_file=Path(config_file) if config_file else None,
        can_ask=approve is not None,
        session_kind="sdk",
        sinks=history_sinks,
    )
    return AgentSession(options, resume=resume, on_event=on_event, approve=approve, model=own)


async def run_agent(question: str, **options: Any) -> TurnResult:
    """One question, one turn: `create_agent_session(**options)`, `run_turn`, `close`."""
    async with create_agent_session(**options) as session:
        return await session.run_turn(question)
