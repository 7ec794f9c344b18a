"""The engine's interface to front ends: ops in, events out, one input at a time."""

from __future__ import annotations

import asyncio
import contextlib
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any

import msgspec

from coder import engine
from coder.base.addons import addons, function, wanted
from coder.base.files import make_private, write_atomically
from coder.config.schema import OperatingMode
from coder.engine.agent import Agent, LentTerminal
from coder.engine.custom_modes import begin_modes, enable_modes, list_modes
from coder.engine.dispatch import Work, run_op
from coder.engine.session import Session
from coder.engine.turn import continue_turn
from coder.engine.view import EngineView
from coder.history.sinks import HistoryError
from coder.models.model import ChatModel
from coder.protocol.events import AnyEvent, CommandDone, Failed, InputDone, Notice, SessionEnded, Steered
from coder.protocol.modes import ListCustomModes, SetModeState, TriggerInstantMode
from coder.protocol.ops import AnyOp, ApprovalReply, Cancel, Close, Query, SetOperatingMode, Steer, UserInput
from coder.texts import AnyText, Text

OpenAgent = Callable[[Callable[[AnyEvent], None]], Agent]


class Engine:
    """Owns the queue of inputs, the task that runs them, and the stream of events."""

    def __init__(self, open_agent: OpenAgent) -> None:
        """`open_agent` may raise configuration errors; nothing is running then."""
        self._events: asyncio.Queue[AnyEvent | None] = asyncio.Queue()
        self._inputs: asyncio.Queue[Work | None] = asyncio.Queue()
        self._listeners: list[Callable[[AnyEvent], None]] = []
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self.agent = open_agent(self._emit)
        self.view = EngineView(self.agent)
        self._running: asyncio.Task[InputDone] | None = None
        self._cancelled_early = False  # a cancel arrived after an input was queued and before it started
        self._worker: asyncio.Task[None] | None = None
        self._ended = False  # the end of the stream was delivered
        self._beside: set[asyncio.Task[None]] = set()  # concurrent tasks

    def _emit(self, event: AnyEvent) -> None:
        self._events.put_nowait(event)
        for listener in self._listeners:
            listener(event)

    def failed(self, error: BaseException) -> None:
        """Report an internal error, which may be a front end's."""
        try:
            if isinstance(error, ImportError):
                raise error

            said = kept_for_report(self.agent, error)
        except ImportError as missing:  # our own files are gone
            said = Text("engine.part_missing", error=str(missing), id=self.agent.session.id)
        self._emit(Failed(said, code="internal"))

    def listen(self, listener: Callable[[AnyEvent], None]) -> None:
        """Show every event to `listener`, which must not raise."""
        self._listeners.append(listener)

    def wrap_model(self, wrap: Callable[[ChatModel], ChatModel]) -> None:
        """Put something between the engine and the model."""
        self.agent.model = wrap(self.agent.model)

    def at_close(self, close: Callable[[], Awaitable[None]]) -> None:
        """Call `close` when the engine ends."""
        self._closers.append(close)

    def _attach_addons(self) -> None:
        for addon in addons():
            if wanted(addon, self.agent.place.environment):
                problem: Text | None = function(addon.attach)(self)
                if problem is not None:
                    self.agent.emit(Notice(problem, "warning"))

    def start(self, resume: str | None = None) -> None:
        """Open or resume a session and start processing inputs. Raises `HistoryError`."""
        self._attach_addons()
        if resume:
            self.agent.session = engine.resume.resume_session(self.agent, resume)
        else:
            self.agent.session = Session.new(self.agent)
        if self.agent.ide is not None:
            self.agent.ide.start()
        if self.agent.mcp is not None:
            engine.mcp_session.start_servers(self.agent)
        self._worker = asyncio.create_task(self._work())
        if self.agent.front.kind == "interactive" and self.agent.config.sandbox.mode != "off":
            self._run_beside(self.agent.sandbox.tell_if_none())

    def lend_terminal(self, terminal: LentTerminal) -> None:
        """`!` commands run on the terminal that this hands over."""
        self.agent.terminal = terminal

    async def enable_modes(self, lines: Sequence[str]) -> list[AnyText]:
        """`--mode "/name args"`, before the first input; returns error messages."""
        return await enable_modes(self.agent, lines)

    def submit(self, op: AnyOp) -> None:
        self.agent.wanted.set()
        match op:
            case UserInput() | SetModeState() | TriggerInstantMode():
                self._inputs.put_nowait(op)
            case ListCustomModes():  # read-only: a menu must not wait for a turn
                self._run_beside(self._list_modes())
            case Cancel():
                if self._running is not None:
                    self._running.cancel()
                else:
                    self._cancelled_early = not self._inputs.empty()
            case ApprovalReply(approval_id):
                future = self.agent.approvals.get(approval_id)
                if future is not None and not future.done():
                    future.set_result(op)
            case SetOperatingMode(mode):
                self._set_mode(mode)
            case Query(text):
                self._run_beside(self._answer(text))
            case Steer():
                self._steer(op)
            case Close():
                self._inputs.put_nowait(None)

    def _steer(self, op: Steer) -> None:
        turn = self.agent.session.turn
        if self._running is not None and turn is not None and turn.accepts_steering:
            turn.steers.append(op)
        else:
            self.agent.emit(Steered(op.text, heard=False))

    async def _answer(self, text: str) -> None:
        if not engine.commands.table.is_read_only(text):
            self.agent.emit(CommandDone(text, Text("command.waits", name=text), ok=False))
            self.agent.emit(InputDone(ok=False, op="query", refused=True))
            return
        ok = True
        try:
            answer = await engine.commands.table.run_slash_command(self.agent, text)
            assert isinstance(answer, CommandDone)
            self.agent.emit(answer)
            ok = answer.ok
        except Exception as error:
            ok = False
            self.failed(error)
        self.agent.emit(InputDone(ok=ok, op="query"))

    def _set_mode(self, mode: OperatingMode) -> None:
        self.agent.mode = mode
        try:
            self.agent.session.record_state()
        except HistoryError as error:  # the mode changed all the same
            self.agent.emit(Failed(error.phrase, code="record"))
        self.agent.session.show_state()
        if self.agent.mcp is not None:
            self._run_beside(self._follow_mode())

    async def _follow_mode(self) -> None:
        """Start or stop servers once the turn is over, so that no running call is interrupted."""
        if self._running is not None:
            await asyncio.wait({self._running})
        await engine.mcp_session.follow_mode(self.agent)

    def _run_beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def events(self) -> AsyncIterator[AnyEvent]:
        """Until the engine is closed. A single consumer, which may iterate again, also after the end."""
        while not (self._ended and self._events.empty()):
            event = await self._events.get()
            if event is None:
                self._ended = True
                return
            yield event

    async def close(self) -> None:
        """Stop what runs, complete the record, end the stream of events."""
        if self._worker is None:
            return
        self.submit(Cancel())
        while not self._inputs.empty():  # drop queued inputs
            self._inputs.get_nowait()
        self.submit(Close())
        with contextlib.suppress(asyncio.CancelledError):
            await self._worker

    async def _leave_model(self) -> None:
        """Close what answers now: `/model` may have put other providers beside the first one."""
        await self.agent.model.close()

    async def _leave_ide(self) -> None:
        """Close the current connection: `/ide` may have replaced the first one."""
        if self.agent.ide is not None:
            await self.agent.ide.close()

    async def _work(self) -> None:
        agent = self.agent
        try:
            async with contextlib.AsyncExitStack() as leaving:  # an error must not prevent other clean-up
                for close in self._closers:
                    leaving.push_async_callback(close)
                leaving.push_async_callback(self._leave_model)
                leaving.callback(lambda: agent.session.jobs.end_with_session())
                if agent.mcp is not None:
                    leaving.push_async_callback(agent.mcp.close)
                leaving.push_async_callback(self._leave_ide)
                if agent.git_state is not None:
                    leaving.callback(agent.git_state.close)
                leaving.callback(lambda: agent.session.log.close_shared())
                leaving.callback(self._end_session)  # also where the event loop ends under us
                if agent.hooks is not None:
                    leaving.push_async_callback(engine.hook_points.finish)
                await self._take_inputs()
                await asyncio.gather(*self._beside)
        except Exception as error:
            self.failed(error)
        finally:
            self._events.put_nowait(None)  # ends the stream

    def _end_session(self) -> None:
        with contextlib.suppress(HistoryError, ImportError):  # the record is whole without the end's extras
            self.agent.session.close()
        self.agent.emit(SessionEnded(self.agent.session.id))

    async def _take_inputs(self) -> None:
        """Process inputs until closed."""
        agent = self.agent
        if agent.front.kind == "interactive" and agent.session.pending is None:
            await agent.wanted.wait()  # loading modes must not delay the prompt
        await begin_modes(agent.session)
        if agent.session.pending is not None:
            await self._run(self._continued(), "")
        while (op := await self._inputs.get()) is not None:
            what = op.text.strip() if isinstance(op, UserInput) else type(op).__name__
            await self._run(run_op(agent, op), what, op)
            if agent.session.pending is not None:  # `/resume` opened a session that waits for an approval
                await self._run(self._continued(), "")

    async def _list_modes(self) -> None:
        ok = True
        try:
            await list_modes(self.agent.session)
        except Exception as error:
            ok = False
            self.failed(error)
        self.agent.emit(InputDone(ok=ok, op="list_custom_modes"))

    async def _continued(self) -> InputDone:
        turn = await continue_turn(self.agent.session)
        return InputDone(ok=turn is None or turn.status == "ok")

    async def _run(self, work: Coroutine[Any, Any, InputDone], what: str, op: Work | None = None) -> None:
        """Run one input in its own task, so that a cancel ends nothing else."""
        self._running = asyncio.create_task(work)
        if self._cancelled_early:
            self._cancelled_early = False
            self._running.cancel()
        done = InputDone(ok=False)
        try:
            done = await self._running
        except asyncio.CancelledError:
            text = Text("turn.cancelled", what=what)
            self.agent.emit(CommandDone(command="", text=text, ok=False))
        except HistoryError as error:
            self.agent.emit(Failed(error.phrase, code="record"))
        except Exception as error:  # last resort: a message, and a crash report
            self.failed(error)
        finally:
            self._running = None
        with contextlib.suppress(HistoryError):
            self.agent.session.show_state()
        kind = str(op.__struct_config__.tag) if op is not None else done.op
        self.agent.emit(msgspec.structs.replace(done, op=kind))
        task = asyncio.current_task()
        if task is not None and task.cancelling():  # the engine itself was cancelled, not the input
            raise asyncio.CancelledError


_MOST_KEPT = 20


def kept_for_report(agent: Agent, error: BaseException) -> Text:
    """Write the report; returns a message that names the file."""
    directory = agent.place.home / "crashes"
    path = directory / f"{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() % 1_000_000_000:09}.txt"
    said = f"{type(error).__name__}: {error}"
    try:
        make_private(directory)
        for old in sorted(directory.iterdir())[: 1 - _MOST_KEPT]:
            old.unlink(missing_ok=True)
        write_atomically(path, "".join(traceback.format_exception(error)).encode("utf-8", "replace"))
    except OSError:
        return Text("engine.internal", error=said)
    return Text("engine.internal_kept", error=said, path=path)
