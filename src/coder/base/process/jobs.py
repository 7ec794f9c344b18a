"""Background jobs: programs that keep running after the call that started them.

A session owns its jobs and ends them. Memory is bounded: of unread output the head and tail are kept; a file
has all of it, up to a limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from coder.base.process.child import STDERR, STDOUT, Child, shell_status
from coder.base.process.output import PRIVATE_KEY_MARKER, plain
from coder.base.process.programs import Runs
from coder.base.process.run import Capture, LiveOutput, Spill, decode_output

_KEEP_BYTES = 65_536  # of unread output
_RECENT_BYTES = 2_000  # of the newest output, for the job list and the note at its end
_LONGEST_LINE = 16_384  # bytes of an unfinished line that are buffered
_PIPE_GRACE = 0.1  # seconds after exit, to drain the pipes


class BackgroundJob:
    """One background program. `owner`: the session, or subagent, whose model is notified of its end."""

    def __init__(self, number: int, command: str, file: Path, file_limit: int, script: Path | None) -> None:
        self.id = str(number)
        self.command = command
        self.owner = ""
        self.exit_code: int | None = None
        self.stopped_by = ""  # "model", "person" or "session"; empty if it exited by itself
        self.end_reported = False  # to the model
        self._begun = time.monotonic()
        self._lasted = 0.0
        self._ended = asyncio.Event()
        self._unread = Capture(_KEEP_BYTES)
        self._recent = bytearray()
        self._has_key = False
        self._partial = {STDOUT: bytearray(), STDERR: bytearray()}
        self._file = Spill(file, file_limit, 0)
        self._script = script
        self._live: LiveOutput | None = None
        self._child: Child | None = None
        self._following: asyncio.Task[None] | None = None
        self.on_end: Callable[[BackgroundJob], None] | None = None

    def start(self, argv: list[str], cwd: Path, environment: Mapping[str, str]) -> None:
        """Raises OSError."""
        self._child = Child(
            argv, runs=Runs.IN_SANDBOX, cwd=cwd, environment=environment, sink=self._on_output
        )
        self._following = asyncio.create_task(self._follow(self._child))

    @property
    def running(self) -> bool:
        return self.exit_code is None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun if self.running else self._lasted

    async def wait(self, seconds: float) -> bool:
        """Whether it ended within that time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        return not self.running

    @contextlib.contextmanager
    def watched(self, on_output: Callable[[str], None]) -> Iterator[None]:
        """Stream its output to `on_output` inside this context."""
        live = self._live = LiveOutput(on_output, asyncio.get_running_loop())
        try:
            yield
        finally:
            live.flush()
            self._live = None

    def stop(self, by: str) -> None:
        """Kill it and all its descendants."""
        if self.running:
            self.stopped_by = by
            self._finish(gently=True)

    def recent(self, lines: int) -> str:
        """The newest lines."""
        text = decode_output(bytes(self._recent)) + "".join(
            plain(decode_output(bytes(p))) for p in self._partial.values()
        )
        return "\n".join([line for line in text.split("\n") if line.strip()][-lines:])

    def read_new(self, limit: int) -> tuple[str, Path | None]:
        """The output since the last call, and the file with all of it, if there is one."""
        for stream in self._partial:
            self._keep(stream, len(self._partial[stream]))
        file = self._file.path if self._file.total and not self._file.failed else None
        cut = self._file.total > self._file.limit
        where = f"; {'the beginning' if cut else 'all of it'}: {file}" if file else ""
        unread, self._unread = self._unread, Capture(_KEEP_BYTES)
        return unread.output().folded().cut(limit, where).rstrip("\n"), file

    async def _follow(self, child: Child) -> None:
        await child.exited.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PIPE_GRACE):
                await child.drained.wait()
        self._finish(gently=False)

    def _finish(self, *, gently: bool) -> None:
        if self._child is None or not self.running:
            return
        code = shell_status(self._child.end(gently=gently, drain=True))
        for stream in self._partial:
            self._keep(stream, len(self._partial[stream]))
        self.exit_code, self._lasted = code, time.monotonic() - self._begun
        self._file.close(wanted=True)
        if self._script is not None:
            self._script.unlink(missing_ok=True)
        if self._following is not None and self._following is not asyncio.current_task():
            self._following.cancel()
        self._ended.set()
        if self.on_end is not None:
            self.on_end(self)

    def _on_output(self, stream: int, data: bytes) -> None:
        """Buffered by whole lines, so that a progress bar is reduced to its last state."""
        if self._live is not None and data:
            self._live.add(data)
        partial = self._partial[stream]
        partial += data
        whole = partial.rfind(b"\n") + 1
        if whole or len(partial) > _LONGEST_LINE:
            self._keep(stream, whole or len(partial))

    def _keep(self, stream: int, size: int) -> None:
        partial = self._partial[stream]
        data = plain(decode_output(bytes(partial[:size]))).encode("utf-8", "replace")
        del partial[:size]
        self._has_key = self._has_key or PRIVATE_KEY_MARKER.encode() in data
        self._unread.add(data)
        self._file.add(data)
        self._recent += data
        del self._recent[:-_RECENT_BYTES]

    def full_output_with_key(self) -> str:
        """All output if it contains a private key: redaction needs the whole key."""
        if not self._has_key:
            return ""
        try:
            return self._file.path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def discard(self) -> None:
        """Stop it and delete its output file."""
        self.stop("session")
        self._file.path.unlink(missing_ok=True)
