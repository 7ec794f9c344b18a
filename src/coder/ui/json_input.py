"""`--input stream-json`: a program drives the session.

Ops come as JSON lines on stdin; stdout has the lines of `--output stream-json` and all other events in their
JSON form (`coder schema`).
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable

import msgspec

from coder.base.process.own_process import on_signals
from coder.base.rpc import LineSplitter
from coder.config.providers import Provider
from coder.engine.engine import Engine
from coder.engine.setup import Options, Settings
from coder.protocol.events import (
    AnyEvent,
    ApprovalRequested,
    ApprovalResolved,
    CommandDone,
    Content,
    ContentRestarted,
    Failed,
    InputDone,
    Notice,
    Recorded,
    Thought,
    localized,
)
from coder.protocol.ops import AnyOp, ApprovalReply, Cancel, Close, UserInput
from coder.protocol.structs import whole_characters
from coder.texts import Catalog, Text
from coder.ui.once import GuardedOutput, StatusReader, StreamJsonOutput, open_engine
from coder.ui.streams import Exit, show_json

MAX_LINE = 16_777_216  # bytes of an op
_CONCURRENT = ("query", "list_custom_modes")  # not queued: they are no inputs
_EXIT_COMMANDS = ("/exit", "/quit")
_NO_READER = "the program that drives this session has closed its end"
# `StreamJsonOutput` has these in the record's format
_RECORD_FORMAT = (Recorded, Content, Thought, ContentRestarted, CommandDone, Failed, Notice)


class JsonEventOutput(StreamJsonOutput):
    def __init__(self, texts: Catalog) -> None:
        super().__init__(texts)
        self._said = texts

    def show(self, event: AnyEvent) -> None:
        if isinstance(event, _RECORD_FORMAT):
            super().show(event)
        else:
            show_json(localized(event, self._said))


async def run_json_input(
    options: Options, settings: Settings, provider: Provider, resume: str | None, first: str
) -> int:
    """Run until stdin ends, a `close` op or a signal; returns the exit status of the last input."""
    engine = await open_engine(options, settings, provider, resume)
    if isinstance(engine, Exit):
        return engine
    if first.strip():
        engine.submit(UserInput(first))
    driver = _OpReader(engine)
    status: int | None = None
    reader = StatusReader()
    output = GuardedOutput(JsonEventOutput(settings.texts), lost=driver.end)
    driver.show = output.show
    loop = asyncio.get_running_loop()
    stopped: list[asyncio.Task[None]] = []
    on_signals(lambda _: stopped.append(loop.create_task(engine.close())))
    _read_lines(
        lambda line: loop.call_soon_threadsafe(driver.handle_line, line),
        lambda: loop.call_soon_threadsafe(driver.input_ended),
    )
    async for event in engine.events():
        output.show(event)
        driver.handle(event)
        reader.handle(event)
        if isinstance(event, InputDone) and event.op not in _CONCURRENT:
            status, reader = reader.status or (0 if event.ok else Exit.FAILED), StatusReader()
    await engine.close()
    if output.error is not None:
        raise output.error
    if stopped:
        return Exit.CANCELLED
    return reader.status if status is None else status


def _op(line: bytes) -> AnyOp:
    """Raises what the decoders raise."""
    try:
        return _DECODER.decode(line)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        if b"\\ud" not in line.lower():
            raise
    return _DECODER.decode(whole_characters(line))


_DECODER: msgspec.json.Decoder[AnyOp] = msgspec.json.Decoder(AnyOp)


class _OpReader:
    """Submits lines as ops. After the end of stdin questions are refused."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._number = 0
        self._ended = False
        self._closing = False  # a `close` or `/exit` was taken
        self.show: Callable[[AnyEvent], None]  # set before the first line is taken
        self._asked: set[str] = set()  # questions that wait for an answer

    def handle_line(self, line: bytes | None) -> None:
        """None for a line that is too long."""
        self._number += 1
        if line is None:
            self._fail(Text("cli.long_op", line=self._number, most=MAX_LINE >> 20))
            return
        if not line.strip():
            return
        try:
            op = _op(line)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            self._fail(Text("cli.bad_op", line=self._number, why=str(error)))
            return
        if isinstance(op, ApprovalReply) and op.approval_id not in self._asked:
            self._fail(Text("cli.no_approval", line=self._number, id=op.approval_id))
            return
        if self._closing and not isinstance(op, Cancel | ApprovalReply):
            self._fail(Text("cli.late_op", line=self._number))
            return
        self._engine.submit(op)
        leaves = isinstance(op, UserInput) and op.text.strip() in _EXIT_COMMANDS
        if leaves:
            self._engine.submit(Close())
        self._closing = self._closing or leaves or isinstance(op, Close)

    def _fail(self, text: Text) -> None:
        self.show(Failed(text, code="op"))

    def input_ended(self) -> None:
        self._ended = True
        for approval_id in self._asked:
            self._refuse(approval_id)
        self._engine.submit(Close())

    def handle(self, event: AnyEvent) -> None:
        match event:
            case ApprovalRequested(approval_id):
                self._asked.add(approval_id)
                if self._ended:
                    self._refuse(approval_id)
            case ApprovalResolved(approval_id):
                self._asked.discard(approval_id)

    def _refuse(self, approval_id: str) -> None:
        self._engine.submit(ApprovalReply(approval_id, "no", _NO_READER))

    def end(self) -> None:
        """The reader is gone: stop the turn."""
        self._engine.submit(Cancel())
        self.input_ended()


def _read_lines(take: Callable[[bytes | None], object], end: Callable[[], object]) -> None:
    """In a thread, unbuffered: a buffered reader would hold its lock when the process ends."""

    def read() -> None:
        splitter = LineSplitter(MAX_LINE)
        try:
            while data := os.read(0, 65_536):
                for line in splitter.feed(data):
                    take(line)
            for line in splitter.finish():
                take(line)
            end()
        except (OSError, RuntimeError):  # stdin was closed under us, or the loop has ended
            return

    threading.Thread(target=read, daemon=True).start()
