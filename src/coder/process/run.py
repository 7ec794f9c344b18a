"""Run one program to its end: bounded output, time-out, and no process left behind.

Whoever awaits `run_process` owns the program (`children.py`): on exit, time-out and cancel alike nothing of
it survives, nor of what it started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from coder.process.child import STDOUT, Child, shell_status
from coder.process.output import Printed, whole_lines

TIMED_OUT = 124  # the exit code that timeout(1) made customary
_PIPE_GRACE = 0.1  # after the program's end, for what its background children still print
_OUTPUT_EVERY = 0.05  # seconds between live output callbacks


class Outcome(msgspec.Struct, frozen=True):
    """How a program ended. `spilled` is the file with more of the output than was kept."""

    exit_code: int
    stdout: str
    stderr: str
    truncated: bool
    timed_out: bool
    duration_ms: int
    spilled: Path | None = None
    cancelled: bool = False
    out: Printed = Printed()  # stdout and stderr once more, with what was dropped told apart
    err: Printed = Printed()


class CutShort(asyncio.CancelledError):
    """A cancel that came while the program ran, with what it had printed by then."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome


class Capture:
    """The head and tail of one stream; all of it, up to a bound, goes to the spill."""

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
            if excess > self.keep:  # trimmed in large bites: one memmove per `keep` bytes
                del self.tail[:excess]

    @property
    def truncated(self) -> bool:
        return self.total > len(self.head) + self.keep // 2

    def printed(self) -> Printed:
        """What is kept of it, cut between lines."""
        tail = bytes(self.tail[-(self.keep // 2) :]) if self.truncated else bytes(self.tail)
        head = bytes(self.head)
        if self.total <= len(head) + len(tail):
            return Printed(decode(head + tail))
        head, tail = whole_lines(head, tail)
        lines = self.lines - head.count(b"\n") - tail.count(b"\n")
        return Printed(decode(head), decode(tail), (self.total - len(head) - len(tail), lines))


def _text(printed: Printed) -> str:
    if not printed.dropped[0]:
        return printed.head
    return f"{printed.head.removesuffix(chr(10))}\n[… {printed.dropped[0]} bytes left out …]\n{printed.tail}"


def decode(data: bytes) -> str:
    return data.decode("utf-8", errors="replace").replace("\r\n", "\n")


class Spill:
    """The file that holds the whole output once it outgrows what is kept in memory."""

    def __init__(self, path: Path, limit: int, threshold: int) -> None:
        self.path = path
        self.limit = limit
        self.threshold = threshold
        self.pending = bytearray()
        self.total = 0  # bytes that were printed, beyond the limit too
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
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self.file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            while self.pending:
                done = os.write(self.file, self.pending)
                self.written += done
                del self.pending[:done]
        except OSError:
            self.failed = True  # a full disk must not fail the command: head and tail are still there
            self.pending.clear()

    def close(self, wanted: bool) -> Path | None:
        """The file, where it is `wanted`; else there is none any more."""
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
    """Hands on what is printed, a few times a second however fast it comes, and only the newest of it."""

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
            text = decode(bytes(self.pending))
            self.pending.clear()
            self.on_output(text)


class _Gathered:
    """What a program prints, on its three ways: to the result, to the spill and to whoever watches."""

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
    cwd: Path,
    environment: Mapping[str, str],
    timeout_ms: int,
    keep_bytes: int,
    spill_to: Path,
    spill_limit: int,
    on_output: Callable[[str], None],
    spill_from: int = 0,
) -> Outcome:
    """Run `argv` with empty stdin. Raises OSError where it cannot be started, `CutShort` on a cancel.
    `spill_from`: bytes from which on the file is wanted; else where something was dropped from memory."""
    live = LiveOutput(on_output, asyncio.get_running_loop())
    printed = _Gathered(keep_bytes, Spill(spill_to, spill_limit, spill_from or keep_bytes), live)
    begun = time.monotonic()
    child = Child(argv, cwd=cwd, environment=environment, sink=printed.add)
    ended = cancelled = False
    try:
        ended = await _wait(child, timeout_ms)
    except asyncio.CancelledError:
        cancelled = True
    finally:
        returncode = child.end(gently=not child.exited.is_set(), drain=True)
        live.flush()
        wanted = printed.truncated or bool(spill_from and printed.total > spill_from)
        spilled = printed.spill.close(wanted)
    out, err = printed.stdout.printed(), printed.stderr.printed()
    outcome = Outcome(
        exit_code=shell_status(returncode) if ended or cancelled else TIMED_OUT,
        stdout=_text(out),
        stderr=_text(err),
        truncated=printed.truncated,
        timed_out=not ended and not cancelled,
        duration_ms=round((time.monotonic() - begun) * 1000),
        spilled=spilled,
        cancelled=cancelled,
        out=out,
        err=err,
    )
    if cancelled:
        raise CutShort(outcome)
    return outcome


async def _wait(child: Child, timeout_ms: int) -> bool:
    """Whether the program ended by itself in time."""
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await child.exited.wait()
    except TimeoutError:
        return False
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_PIPE_GRACE):
            await child.drained.wait()
    return True
