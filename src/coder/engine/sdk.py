"""The Python SDK: a session, its turns, and a one-turn wrapper.

Like every front end it sends ops and reads events.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from coder.config.schema import OperatingMode
from coder.engine.dispatch import Work
from coder.engine.engine import Engine
from coder.engine.setup import Options, open_agent, provider_of, read_settings, with_model_named
from coder.history.sinks import HistorySink
from coder.models.model import ChatModel
from coder.protocol.entries import Action, Assistant, Observation
from coder.protocol.events import (
    AnyEvent,
    ApprovalRequested,
    CommandDone,
    Evidence,
    Failed,
    InputDone,
    Recorded,
    TurnEnded,
    Verification,
    localized,
)
from coder.protocol.history import HistoryEvent
from coder.protocol.messages import Usage
from coder.protocol.ops import AnyOp, ApprovalReply, Cancel, Close, UserInput
from coder.texts import Catalog
from coder.tools.tool import Tool

Approval = bool | Literal["yes", "no", "always"] | ApprovalReply
Approver = Callable[[ApprovalRequested], Approval | Awaitable[Approval]]


class Step(msgspec.Struct):
    """One response of the model and the results of its tool calls; `index` is its place in the turn.
    A todo list that coder made itself is the first."""

    index: int
    text: str = ""
    actions: list[dict[str, Any]] = []
    observations: list[str] = []


class TurnResult(msgspec.Struct, frozen=True):
    """How a turn ended. `status` is `ok`, `error`, `max_steps`, `prompt_limit` or `cancelled`; `verification`
    what its checks have shown, `evidence` all that is known where files were changed;
    `finish_reason` the provider's for the last response (`stop`, `length`, …)."""

    final_text: str
    steps: list[Step]
    status: str
    token_usage: Usage
    session_id: str
    error: str = ""
    verification: Verification = Verification()
    finish_reason: str = ""
    evidence: Evidence | None = None


class SessionClosed(RuntimeError):
    """The session was closed."""


class AgentSession:
    """A conversation. Made by `create_agent_session`; usable as an async context manager.

    One task reads the engine's events and hands them on, so that a turn that nobody waits for any more
    cannot be taken for the next.
    """

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
        self._texts = Catalog("en")  # until the settings are read
        self._starting = asyncio.Lock()
        self._pending: deque[_Reading] = deque()  # of the queued inputs, the running one first
        self._reader: asyncio.Task[None] | None = None
        self._answering: set[asyncio.Task[None]] = set()
        self._stream: asyncio.Queue[AnyEvent | None] | None = None  # for `events`
        self._closed = False

    @property
    def session_id(self) -> str:
        """Empty until the first turn."""
        return self._engine.view.session_id if self._engine else ""

    async def _started(self) -> Engine:
        async with self._starting:
            self._check_open()
            if self._engine is None:
                settings = read_settings(self._options)
                self._texts = settings.texts
                provider = provider_of(self._options, settings)
                if self._model is None:
                    provider = await with_model_named(provider)
                    self._check_open()  # it may have been closed meanwhile
                engine = Engine(lambda emit: open_agent(self._options, settings, provider, emit, self._model))
                engine.start(self._resume)
                self._engine = engine
                self._reader = asyncio.create_task(self._read(engine))
            return self._engine

    async def run_turn(self, text: str, *, attached: str = "") -> TurnResult:
        """Take any input that a person could type through to its end. `attached` goes with the message as it
        is: `!`, `/` and `@` in it mean nothing. Cancelling the call cancels the turn. Raises `SessionClosed`,
        and what `approve` or `on_event` raised."""
        reading = self._queue(await self._started(), UserInput(text, attached))
        try:
            return await reading.result
        except asyncio.CancelledError:
            self._give_up(reading)
            raise

    async def submit(self, op: AnyOp) -> None:
        """Send any op; results arrive in `events`. Raises `msgspec.ValidationError` for what is none."""
        op = _checked(op)
        engine = await self._started()
        self._streamed()
        if isinstance(op, Close):
            await self.close()
        elif isinstance(op, Work):
            self._queue(engine, op)
        else:
            engine.submit(op)

    def events(self) -> AsyncIterator[AnyEvent]:
        """The events from now on (from the first `submit`, where that came before), until the session is
        closed. For one consumer."""
        stream = self._streamed()

        async def read() -> AsyncIterator[AnyEvent]:
            while (event := await stream.get()) is not None:
                yield event
            stream.put_nowait(None)  # whoever reads again finds the end again

        return read()

    def _streamed(self) -> asyncio.Queue[AnyEvent | None]:
        if self._stream is None:
            self._stream = asyncio.Queue()
            if self._closed:
                self._stream.put_nowait(None)
        return self._stream

    def _check_open(self) -> None:
        if self._closed:
            raise SessionClosed("the session is closed")

    def _queue(self, engine: Engine, op: Work) -> _Reading:
        self._check_open()
        reading = _Reading(engine.view.session_id)
        self._pending.append(reading)
        engine.submit(op)
        return reading

    def _give_up(self, reading: _Reading) -> None:
        """The caller was cancelled. Queued input is cancelled when its turn comes."""
        reading.abandoned = True
        if self._engine is not None and self._pending and self._pending[0] is reading:
            self._engine.submit(Cancel())

    async def _read(self, engine: Engine) -> None:
        try:
            async for told in engine.events():
                self._take(engine, localized(told, self._texts))
        finally:
            self._closed = True
            for reading in self._pending:
                reading.cut_off()
            self._pending.clear()
            if self._stream is not None:
                self._stream.put_nowait(None)

    def _take(self, engine: Engine, event: AnyEvent) -> None:
        current = self._pending[0] if self._pending else None
        if self._stream is not None:
            self._stream.put_nowait(event)
        try:
            if self._on_event is not None:
                self._on_event(event)
        except (Exception, asyncio.CancelledError) as error:  # theirs: nothing is awaited here
            self._failed(engine, error)
        if isinstance(event, ApprovalRequested) and self._approve is not None:
            task = asyncio.create_task(self._answer(engine, event, self._approve))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
        if current is not None and current.take(event):
            self._pending.popleft()
            if self._pending and self._pending[0].abandoned:
                engine.submit(Cancel())

    def _failed(self, engine: Engine, error: BaseException) -> None:
        """A callback raised: cancel the turn and pass the exception to whoever awaits it."""
        if self._pending and self._pending[0].failure is None:
            self._pending[0].failure = error
            engine.submit(Cancel())

    async def _answer(self, engine: Engine, event: ApprovalRequested, approve: Approver) -> None:
        try:
            answer = approve(event)
            if inspect.isawaitable(answer):
                answer = await answer
            engine.submit(_reply(event.approval_id, answer))
        except (Exception, asyncio.CancelledError) as error:  # what it awaited may have been cancelled
            self._failed(engine, error)

    def cancel(self) -> None:
        """Stop the turn that is running."""
        if self._engine is not None:
            self._engine.submit(Cancel())

    def close(self) -> asyncio.Future[None]:
        """Cancel the turn and complete the record. The future is done once all is released."""
        self._closed = True
        if self._engine is None:
            if self._stream is not None:
                self._stream.put_nowait(None)
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            done.set_result(None)
            return done
        return asyncio.ensure_future(self._close(self._engine))

    async def _close(self, engine: Engine) -> None:
        await engine.close()
        if self._reader is not None:
            await self._reader
        for task in self._answering:
            task.cancel()

    async def __aenter__(self) -> AgentSession:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()


def _checked(op: object) -> AnyOp:
    """Validate the op: constructing one checks no types, and an invalid answer would count as a yes."""
    checked: AnyOp = msgspec.convert(msgspec.to_builtins(op), AnyOp)
    return checked


def _reply(approval_id: str, answer: object) -> AnyOp:
    """The reply for what `approve` returned. Other values are an error: any object is truthy."""
    try:
        if isinstance(answer, ApprovalReply):  # its id can only be this
            return _checked(msgspec.structs.replace(answer, approval_id=approval_id))
        if answer is None or isinstance(answer, bool):
            return ApprovalReply(approval_id, "yes" if answer else "no")
        return _checked({"op": "approval_reply", "approval_id": approval_id, "answer": answer})
    except (msgspec.ValidationError, TypeError):
        words = 'True, False, "yes", "no", "always" or an ApprovalReply with such a word'
        raise ValueError(f"approve answered {answer!r}; it answers {words}") from None


class _Reading:
    """Builds a turn's result from its events."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.result: asyncio.Future[TurnResult] = asyncio.get_running_loop().create_future()
        self.abandoned = False
        self.failure: BaseException | None = None
        self.steps: list[Step] = []
        self.ended: TurnEnded | None = None
        self.text = ""
        self.error = ""
        self.ok = True

    def take(self, event: AnyEvent) -> bool:
        """True once the input has been processed."""
        match event:
            case Recorded(entry):
                self._recorded(entry)
            case TurnEnded():
                self.ended = event
            case CommandDone(_, text):
                self.text = str(text)
            case Failed(text):
                self.error = str(text)
            case InputDone(ok, op=op) if op not in (
                "",
                "list_custom_modes",
                "query",
            ):  # those were not queued
                self.ok = ok
                self._finish(self._summary())
                return True
        return False

    def cut_off(self) -> None:
        """The engine ended before the input was processed."""
        self._finish(msgspec.structs.replace(self._summary(), status="error" if self.error else "cancelled"))

    def _finish(self, result: TurnResult) -> None:
        if self.result.done():
            return
        if self.failure is not None:
            self.result.set_exception(self.failure)
            self.result.exception()  # if nobody waits, nothing is logged
        else:
            self.result.set_result(result)

    def _recorded(self, entry: HistoryEvent) -> None:
        match entry.entry:
            case Assistant():
                self.steps.append(Step(index=len(self.steps), text=entry.content))
            case Action() if self.steps:
                self.steps[-1].actions = [*self.steps[-1].actions, entry.meta]
            case Observation() if self.steps:
                self.steps[-1].observations = [*self.steps[-1].observations, entry.content]

    def _summary(self) -> TurnResult:
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
            evidence=ended.evidence,
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
    max_prompt_tokens: int = 0,
    warn_prompt_tokens: int = 0,
    tokenizer: str = "",
    temperature: float | None = None,
    tools: Sequence[Tool] = (),
    log_dir: str | os.PathLike[str] | None = None,
    config_file: str | os.PathLike[str] | None = None,
    history_sinks: Sequence[HistorySink] = (),
    on_event: Callable[[AnyEvent], None] | None = None,
    approve: Approver | None = None,
    interactive: bool = False,
    environ: Mapping[str, str] | None = None,
) -> AgentSession:
    """A session in `cwd`. `model` is a name, or an object with the `ChatModel` protocol; `tools` are made by
    `coder.tool`.

    `approve` is asked wherever a person would be; it may be async, and answers True, False, `"always"` or
    an `ApprovalReply`. Without it such calls are refused, unless the session is `interactive`: then the
    program reads `ApprovalRequested` from `events` and submits the reply.
    """
    for one in tools:
        if not isinstance(one, Tool):
            raise TypeError(f"{one!r} is no tool: put @coder.tool above the function")
    if any(inspect.iscoroutinefunction(one) for one in (on_event, type(on_event).__call__)):
        raise TypeError("on_event is a plain function; a program that awaits reads session.events()")
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
        max_prompt_tokens=max_prompt_tokens,
        warn_prompt_tokens=warn_prompt_tokens,
        tokenizer=tokenizer,
        temperature=temperature,
        tools=tools,
        log_dir=Path(log_dir) if log_dir else None,
        config_file=Path(config_file) if config_file else None,
        can_ask=approve is not None or interactive,
        session_kind="sdk",
        sinks=history_sinks,
    )
    return AgentSession(options, resume=resume, on_event=on_event, approve=approve, model=own)


async def run_agent(question: str, **options: Any) -> TurnResult:
    """One question, one turn: `create_agent_session(**options)`, `run_turn`, `close`."""
    async with create_agent_session(**options) as session:
        return await session.run_turn(question)


class SyncSession:
    """A session for programs without an event loop. A context manager."""

    def __init__(self, **options: Any) -> None:
        _check_no_loop("create_agent_session")
        self._runner = asyncio.Runner()
        self._session = self._runner.run(_created(options))

    @property
    def session_id(self) -> str:
        return self._session.session_id

    def run_turn(self, text: str) -> TurnResult:
        return self._runner.run(self._session.run_turn(text))

    def close(self) -> None:
        try:
            self._runner.run(_closed(self._session))
        finally:
            self._runner.close()

    def __enter__(self) -> SyncSession:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


def _check_no_loop(instead: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"an event loop runs already: call coder.{instead} there, and await it")


async def _created(options: Mapping[str, Any]) -> AgentSession:
    return create_agent_session(**options)


async def _closed(session: AgentSession) -> None:
    await session.close()


def run_agent_sync(question: str, **options: Any) -> TurnResult:
    """`run_agent` for programs without an event loop."""
    _check_no_loop("run_agent")
    return asyncio.run(run_agent(question, **options))
