"""`--once`, piped input, `--output json|stream-json`: one input, then exit."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from functools import cached_property
from signal import SIGINT
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from coder.base.process.own_process import on_signals
from coder.config.providers import Provider
from coder.context.conversation import TokenCounter, UnknownTokenizer
from coder.engine.engine import Engine
from coder.engine.setup import Options, Settings, open_agent, with_model_named
from coder.history.log import now
from coder.history.sinks import HistoryError
from coder.models.model import ChatModel, ModelError
from coder.protocol.events import (
    AnyEvent,
    CommandDone,
    Content,
    ContentRestarted,
    Failed,
    InputDone,
    Notice,
    Recorded,
    SessionStarted,
    StateChanged,
    Thought,
    TurnEnded,
    TurnStarted,
    Verification,
)
from coder.protocol.ops import Cancel, UserInput
from coder.texts import AnyText, Catalog
from coder.ui.streams import BY_TURN_STATUS, Exit, complain, show_json

if TYPE_CHECKING:
    from coder.ui.terminal.ask.question import Asker
    from coder.ui.terminal.render.plain import PlainRenderer
    from coder.ui.terminal.render.status_row import ProgressRow

_SILENCE_SECONDS = 1.0  # of a turn, before the progress row appears
_NOT_SHOWN = (Recorded, SessionStarted, StateChanged, TurnStarted)


class Output(Protocol):
    def show(self, event: AnyEvent) -> None: ...

    def finish(self, status: int) -> None: ...


async def run_once(
    options: Options,
    settings: Settings,
    provider: Provider,
    resume: str | None,
    asked: UserInput,
    output: str,
    model: ChatModel | None = None,
) -> int:
    """`model` replaces the provider's."""
    engine = await open_engine(options, settings, provider, resume, model)
    if isinstance(engine, Exit):
        return engine
    engine.submit(asked)
    return await run_until_done(engine, _output(output, settings), _asker(engine, options, settings))


async def open_engine(
    options: Options,
    settings: Settings,
    provider: Provider,
    resume: str | None,
    model: ChatModel | None = None,
) -> Engine | Exit:
    """The started engine with the custom modes of the command line; on failure an exit status, after the
    message."""
    try:
        provider = await with_model_named(provider)
        engine = Engine(lambda emit: open_agent(options, settings, provider, emit, model))
        if options.tokenizer:
            TokenCounter(options.tokenizer).load()
        engine.start(resume)
    except ModelError as error:
        complain(error.text(settings.texts))
        return Exit.FAILED
    except UnknownTokenizer as error:
        complain(error.text(settings.texts))
        return Exit.USAGE
    except HistoryError as error:
        complain(error.text(settings.texts))
        return Exit.FAILED
    on_signals(lambda _: engine.submit(Cancel()), (SIGINT,))
    closing: list[asyncio.Task[None]] = []  # keeps references: tasks may be garbage-collected
    on_signals(lambda _: closing.append(asyncio.create_task(engine.close())))
    if options.custom_modes and (problems := await engine.enable_modes(options.custom_modes)):
        complain(" ".join(map(settings.texts.of, problems)))
        await engine.close()
        return Exit.USAGE
    return engine


def _asker(engine: Engine, options: Options, settings: Settings) -> Asker | None:
    if not options.can_ask:
        return None
    from coder.ui.terminal.ask.question import Asker

    return Asker(engine, settings.texts)


async def run_until_done(engine: Engine, output: Output, asker: Asker | None = None) -> int:
    """Output events until the input is done; returns the exit status. A failing stdout raises `OSError` once
    the record is complete."""
    reader, done = StatusReader(), False
    guarded = GuardedOutput(output, lost=lambda: engine.submit(Cancel()))
    async for event in engine.events():
        for one in asker.questions.visible(event) if asker is not None else (event,):
            guarded.show(one)
            if asker is not None:
                asker.handle(one)
        if done := reader.handle(event):
            break
    if not done:  # a signal came before the input was taken
        reader.status = Exit.CANCELLED
    closing = asyncio.create_task(engine.close())
    async for event in engine.events():
        guarded.show(event)
    await closing
    if guarded.error is not None:
        raise guarded.error
    output.finish(reader.status)
    return reader.status


class GuardedOutput:
    """Passes events on until the output fails."""

    def __init__(self, output: Output, lost: Callable[[], None]) -> None:
        self._output = output
        self._lost = lost
        self.error: OSError | None = None

    def show(self, event: AnyEvent) -> None:
        if self.error is not None:
            return
        try:
            self._output.show(event)
        except OSError as error:
            self.error = error
            self._lost()


class StatusReader:
    """Derives the exit status from events."""

    def __init__(self) -> None:
        self.status: int = Exit.ANSWERED

    def handle(self, event: AnyEvent) -> bool:
        match event:
            case TurnEnded(status="ok", verification=Verification(status="failed")):
                self.status = Exit.UNVERIFIED
            case TurnEnded(status=status):
                self.status = BY_TURN_STATUS[status]
            case CommandDone(command, _, ok, data):
                if not ok or data.get("exit_code"):  # `ok` even if the `!command` failed
                    self.status = Exit.USAGE if data.get("usage") else Exit.FAILED
                if not ok and not command:
                    self.status = Exit.CANCELLED
            case Failed() if self.status == Exit.ANSWERED:
                self.status = Exit.FAILED
            case InputDone():
                return True
        return False


def _output(kind: str, settings: Settings) -> Output:
    if kind == "json":
        return JsonOutput(settings.texts)
    if kind == "stream-json":
        return StreamJsonOutput(settings.texts)
    return TextOutput(settings)


class TextOutput:
    """For people: everything on a terminal, else the answer on stdout and progress on stderr."""

    def __init__(self, settings: Settings) -> None:
        self._texts = settings.texts
        self._ui = settings.loaded.config.ui
        self._progress: ProgressRow | None = None  # while a turn runs on a terminal
        self._first_wait: asyncio.TimerHandle | None = None  # for the first event of a turn

    @cached_property
    def _renderer(self) -> PlainRenderer:
        """Created lazily, after the first request was sent."""
        from coder.ui.terminal.render.plain import PlainRenderer
        from coder.ui.terminal.render.theme import Theme, theme_for

        to_terminal = sys.stdout.isatty()
        stream = sys.stdout if to_terminal else sys.stderr
        theme = theme_for(self._ui.theme, os.environ) if stream.isatty() else Theme("none")
        answer = None if to_terminal else sys.stdout
        return PlainRenderer(
            stream, answer, self._texts, theme, markdown=theme.enabled and not self._ui.plain
        )

    def show(self, event: AnyEvent) -> None:
        if isinstance(event, TurnStarted):
            later = asyncio.get_running_loop().call_later
            self._first_wait = later(_SILENCE_SECONDS, self._start_progress, time.monotonic())
        if isinstance(event, _NOT_SHOWN):
            return
        self._renderer.handle(event)
        self._update_progress(event)

    def _start_progress(self, since: float) -> None:
        """Start when the model is silent or has sent something, never before the first request."""
        out = self._renderer.out
        if not out.isatty() or self._ui.plain or os.environ.get("TERM", "dumb") == "dumb":
            return
        from coder.ui.terminal.render.status_row import ProgressRow

        self._progress = ProgressRow(out, self._texts, self._renderer.palette, since)
        self._renderer.before_write = self._progress.erase

    def _update_progress(self, event: AnyEvent) -> None:
        if self._first_wait is not None:
            self._first_wait.cancel()
            if self._progress is None:
                self._start_progress(self._first_wait.when() - _SILENCE_SECONDS)
            self._first_wait = None
        if self._progress is not None:
            self._progress.handle(event, free=self._renderer.at_line_start)
            if isinstance(event, TurnEnded):
                self._progress.stop()
                self._progress, self._renderer.before_write = None, lambda: None

    def line(self, text: str) -> None:
        self._renderer.line(text)

    def finish(self, status: int) -> None:
        pass


class StreamJsonOutput:
    """The record's events as they happen, and chunks of the answer."""

    def __init__(self, texts: Catalog) -> None:
        self._texts = texts
        self._session_id = ""

    def show(self, event: AnyEvent) -> None:
        match event:
            case Recorded(entry):
                self._session_id = entry.session_id
                show_json(entry)
            case Content(text):
                self._print("assistant_chunk", text)
            case Thought(text):
                self._print("thought_chunk", text)
            case ContentRestarted():
                self._print("assistant_restart")
            case CommandDone(command, text, ok):
                self._print("command_result", text, input=command, ok=ok)
            case Failed(text, code):
                self._print("error", text, code=code)
            case Notice(text, level):
                self._print("notice", text, level=level)

    def _print(self, kind: str, content: AnyText = "", **meta: Any) -> None:
        """An unrecorded event, in the record's format."""
        said = self._texts.of(content)
        line: dict[str, Any] = {"ts": now(), "session_id": self._session_id, "type": kind, "content": said}
        show_json({**line, "meta": meta} if meta else line)

    def finish(self, status: int) -> None:
        pass


class JsonOutput:
    """One object at the end."""

    def __init__(self, texts: Catalog) -> None:
        self._texts = texts
        self._result: dict[str, Any] = {"session_id": "", "status": "ok", "text": ""}
        self._warnings: list[str] = []

    def show(self, event: AnyEvent) -> None:
        match event:
            case Recorded(entry):
                self._result["session_id"] = entry.session_id
            case TurnEnded():
                tokens = msgspec.to_builtins(event.usage)
                self._result |= {
                    "status": event.status,
                    "text": event.text,
                    "turn": event.turn,
                    "steps": event.steps,
                    "duration_ms": event.duration_ms,
                    "tokens": {k: tokens.get(k, 0) for k in ("prompt", "completion", "total", "cached")},
                    "verification": event.verification,
                }
                if event.evidence is not None:
                    self._result["evidence"] = event.evidence
                if event.usage.cached_share is not None:
                    self._result["tokens"]["cached_share"] = round(event.usage.cached_share, 4)
                if event.finish_reason:
                    self._result["finish_reason"] = event.finish_reason
                if event.error:
                    self._result["error"] = self._texts.of(event.error)
            case SessionStarted(session_id):
                self._result["session_id"] = session_id
            case CommandDone(command, text, ok, data):
                failed = "error" if command else "cancelled"
                well = ok and not data.get("exit_code")
                self._result |= {"status": "ok" if well else failed, "text": self._texts.of(text)}
            case Failed(text):
                self._result |= {"status": "error", "error": self._texts.of(text)}
            case Notice(text, "warning"):
                self._warnings.append(self._texts.of(text))

    def finish(self, status: int) -> None:
        if self._warnings:
            self._result["warnings"] = self._warnings
        show_json({**self._result, "exit_code": int(status)})
