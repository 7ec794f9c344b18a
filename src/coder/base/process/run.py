"""Run one program to completion: bounded output, time-out, and no process left behind.

The caller of `run_process` owns the program (`child.py`): on exit, time-out and cancel alike it and all its
descendants are gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from coder.base.files import make_private
from coder.base.process.child import STDOUT, Child, shell_status
from coder.base.process.output import Printed, whole_lines
from coder.base.process.programs import Runs

TIMED_OUT = 124  # as timeout(1)
_PIPE_GRACE = 0.1  # seconds after exit, for output of its background children
_OUTPUT_EVERY = 0.05  # seconds between live output callbacks (throttle)


class ProcessOutcome(msgspec.Struct, frozen=True):
    """How a program ended. `spilled`: the file with more of the output than was kept."""

    exit_code: int
    stdout: str
    stderr: str
    truncated: bool
    timed_out: bool
    duration_ms: int
    spilled: Path | None = None
    cancelled: bool = False
    out: Printed = Printed()  # stdout and stderr again, with the dropped part counted
    err: Printed = Printed()


class ProcessCancelled(asyncio.CancelledError):
    """A cancel while the program ran, with its output so far."""

    def __init__(self, outcome: ProcessOutcome) -> None:
        super().__init__()
        self.outcome = outcome


class Capture:
    """The head and tail of one stream (bounded buffer); `Spill` has all of it."""

    def __init__(self, keep: int) -> None:
        self.head = bytearray()
        self.tail = bytearray()
        self.keep = keep
        self.total = 0
        self.lines = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        self.lines += data.count(b"\n")
        room = self.keep // 2 - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        if data:
            self.tail += data
            excess = len(self.tail) - self.keep // 2
            if excess > self.keep:  # amortised: one memmove per `keep` bytes
                del self.tail[:excess]

    @property
    def truncated(self) -> bool:
        return self.total > len(self.head) + self.keep // 2

    def output(self) -> Printed:
        tail = bytes(self.tail[-(self.keep // 2) :]) if self.truncated else bytes(self.tail)
        head = bytes(self.head)
        if self.total <= len(head) + len(tail):
            return Printed(decode_output(head + tail))
        head, tail = whole_lines(head, tail)
        lines = self.lines - head.count(b"\n") - tail.count(b"\n")
        return Printed(decode_output(head), decode_output(tail), (self.total - len(head) - len(tail), lines))


def _text(output: Printed) -> str:
    if not output.dropped[0]:
        return output.head
    return f"{output.head.removesuffix(chr(10))}\n[… {output.dropped[0]} bytes left out …]\n{output.tail}"


def decode_output(data: bytes) -> str:
    return data.decode("utf-8", errors="replace").replace("\r\n", "\n")


class Spill:
    """Spills the whole output to a file once it outgrows memory."""

    def __init__(self, path: Path, limit: int, threshold: int) -> None:
        self.path = path
        self.limit = limit
        self.threshold = threshold
        self.pending = bytearray()
        self.total = 0  # bytes of output, including those beyond the limit
        self.written = 0
        self.file: int | None = None
        self.failed = False

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = self.limit - self.written - len(self.pending)
        self.pending += data[: max(0, room)]
        if self.written or len(self.pending) > self.threshold:
            self._flush()

    def _flush(self) -> None:
        if self.failed or not self.pending:
            return
        try:
            if self.file is None:
                make_private(self.path.parent)
                self.file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            while self.pending:
                done = os.write(self.file, self.pending)
                self.written += done
                del self.pending[:done]
        except OSError:
            self.failed = True  # a full disk must not fail the command: head and tail remain
            self.pending.clear()

    def close(self, wanted: bool) -> Path | None:
        """Close the file; delete it unless `wanted`."""
        if wanted:
            self._flush()
        if self.file is None:
            return None
        os.close(self.file)
        self.file = None
        if wanted and not self.failed:
            return self.path
        with contextlib.suppress(OSError):
            self.path.unlink()
        return None


class LiveOutput:
    """Throttled callback with the newest output."""

    def __init__(self, on_output: Callable[[str], None], loop: asyncio.AbstractEventLoop) -> None:
        self.on_output = on_output
        self.loop = loop
        self.pending = bytearray()
        self.timer: asyncio.TimerHandle | None = None

    def add(self, data: bytes) -> None:
        self.pending += data
        del self.pending[:-8192]
        if self.timer is None:
            self.timer = self.loop.call_later(_OUTPUT_EVERY, self.flush)

    def flush(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.pending:
            text = decode_output(bytes(self.pending))
            self.pending.clear()
            self.on_output(text)


class _OutputSinks:
    """Fans output out to the result, the spill file and the live callback."""

    def __init__(self, keep_bytes: int, spill: Spill, live: LiveOutput) -> None:
        self.stdout = Capture(keep_bytes)
        self.stderr = Capture(keep_bytes)
        self.spill = spill
        self.live = live

    def add(self, stream: int, data: bytes) -> None:
        if data:
            (self.stdout if stream == STDOUT else self.stderr).add(data)
            self.spill.add(data)
            self.live.add(data)

    @property
    def truncated(self) -> bool:
        return self.stdout.truncated or self.stderr.truncated

    @property
    def total(self) -> int:
        return self.stdout.total + self.stderr.total


async def run_process(
    argv: list[str],
    *,
    runs: Runs,
    cwd: Path,
    environment: Mapping[str, str],
    timeout_ms: int,
    keep_bytes: int,
    spill_to: Path,
    spill_limit: int,
    on_output: Callable[[str], None],
    spill_from: int = 0,
    stdin: bytes = b"",
) -> ProcessOutcome:
    """Run `argv`. `spill_from`: bytes from which the spill file is kept (default: if output was dropped).
    Raises OSError, `ProcessCancelled`."""
    live = LiveOutput(on_output, asyncio.get_running_loop())
    output = _OutputSinks(keep_bytes, Spill(spill_to, spill_limit, spill_from or keep_bytes), live)
    begun = time.monotonic()
    child = Child(argv, runs=runs, cwd=cwd, environment=environment, sink=output.add, given=stdin)
    ended = cancelled = False
    try:
        ended = await _wait(child, timeout_ms)
    except asyncio.CancelledError:
        cancelled = True
    finally:
        returncode = child.end(gently=not child.exited.is_set(), drain=True)
        live.flush()
        wanted = output.truncated or bool(spill_from and output.total > spill_from)
        spilled = output.spill.close(wanted)
    out, err = output.stdout.output(), output.stderr.output()
    outcome = ProcessOutcome(
        exit_code=shell_status(returncode) if ended or cancelled else TIMED_OUT,
        stdout=_text(out),
        stderr=_text(err),
        truncated=output.truncated,
        timed_out=not ended and not cancelled,
        duration_ms=round((time.monotonic() - begun) * 1000),
        spilled=spilled,
        cancelled=cancelled,
        out=out,
        err=err,
    )
    if cancelled:
        raise ProcessCancelled(outcome)
    return outcome


async def _wait(child: Child, timeout_ms: int) -> bool:
    """Whether the program exited by itself in time."""
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await child.exited.wait()
    except TimeoutError:
        return False
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_PIPE_GRACE):
            await child.drained.wait()
    return True
