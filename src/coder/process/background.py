"""Background jobs: programs that run on after the call that started them.

A session owns its jobs and ends them. Memory is bounded: of what a job printed and nobody read yet, the head
and tail are kept; all of it, up to a bound, is in a file.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from coder.process.child import STDERR, STDOUT, Child, shell_status
from coder.process.output import KEY_MARK, plain
from coder.process.run import Capture, LiveOutput, Spill, decode

_KEEP_BYTES = 65_536  # of what was not read yet
_RECENT_BYTES = 2_000  # of the newest output, read or not: for the person's list and the note at its end
_LONGEST_LINE = 16_384  # bytes of an unfinished line that are waited for
_PIPE_GRACE = 0.1  # seconds after a program's end, for what is still in its pipes


class Job:
    """One program in the background. `owner`: the session, or subagent, whose model is told of its end."""

    def __init__(self, number: int, command: str, file: Path, file_limit: int, script: Path | None) -> None:
        self.id = str(number)
        self.command = command
        self.owner = ""
        self.exit_code: int | None = None
        self.stopped_by = ""  # "model", "person" or "session", where it did not end by itself
        self.told = False  # the model knows that it has ended
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
        self.on_end: Callable[[Job], None] | None = None

    def start(self, argv: list[str], cwd: Path, environment: Mapping[str, str]) -> None:
        """Raises OSError."""
        self._child = Child(argv, cwd=cwd, environment=environment, sink=self._printed)
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
        """What it prints inside is handed on as it comes."""
        live = self._live = LiveOutput(on_output, asyncio.get_running_loop())
        try:
            yield
        finally:
            live.flush()
            self._live = None

    def stop(self, by: str) -> None:
        """End it and all that it started, at once."""
        if self.running:
            self.stopped_by = by
            self._finish(gently=True)

    def recent(self, lines: int) -> str:
        """The newest lines."""
        text = decode(bytes(self._recent)) + "".join(plain(decode(bytes(p))) for p in self._partial.values())
        return "\n".join([line for line in text.split("\n") if line.strip()][-lines:])

    def take_new(self, limit: int) -> tuple[str, Path | None]:
        """What was printed since this was last asked, and the file with all of it, where there is one."""
        for stream in self._partial:
            self._keep(stream, len(self._partial[stream]))
        file = self._file.path if self._file.total and not self._file.failed else None
        cut = self._file.total > self._file.limit
        where = f"; {'the beginning' if cut else 'all of it'}: {file}" if file else ""
        unread, self._unread = self._unread, Capture(_KEEP_BYTES)
        return unread.printed().folded().cut(limit, where).rstrip("\n"), file

    # what happens to it

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

    def _printed(self, stream: int, data: bytes) -> None:
        """Kept by whole lines, so that a progress bar is its last state."""
        if self._live is not None and data:
            self._live.add(data)
        partial = self._partial[stream]
        partial += data
        whole = partial.rfind(b"\n") + 1
        if whole or len(partial) > _LONGEST_LINE:
            self._keep(stream, whole or len(partial))

    def _keep(self, stream: int, size: int) -> None:
        partial = self._partial[stream]
        data = plain(decode(bytes(partial[:size]))).encode("utf-8", "replace")
        del partial[:size]
        self._has_key = self._has_key or KEY_MARK.encode() in data
        self._unread.add(data)
        self._file.add(data)
        self._recent += data
        del self._recent[:-_RECENT_BYTES]

    def around(self) -> str:
        """All that it printed, where a private key is among it: a part of one does not look like a secret."""
        if not self._has_key:
            return ""
        try:
            return self._file.path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def forget(self) -> None:
        """As if it had never been: its file goes as well."""
        self.stop("session")
        self._file.path.unlink(missing_ok=True)
